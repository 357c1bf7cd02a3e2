"""What an admin asks of the controller, in lists: the requests, and what became of each part."""

import base64
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.cluster import Cluster
from ottla.client.wanted import Wanted, WantedDeletion, WantedPartitions, ask_for_each, check_names, not_done
from ottla.wire import admin as wire
from ottla.wire.admin import TOPIC_RESOURCE, ConfigOperation
from ottla.wire.errors import ConfigError
from ottla.wire.names import check_topic_name
from ottla.wire.requests import MetadataResponse


@dataclass(frozen=True)
class NewTopic:
    """A topic to create. ``assignment`` names the brokers of each partition, the preferred leader first."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    assignment: Iterable[Iterable[int]] | None = None


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], validate_only: bool, timeout: float
) -> list[Wanted[wire.NewTopic]]:
    wanted = [Wanted(_new_topic(topic, validate_only), topic.name) for topic in topics]
    check_names(wanted)
    await ask_for_each(
        cluster,
        wanted,
        lambda parts: wire.CreateTopicsRequest(parts, controller_ms(cluster, timeout), validate_only),
        wire.CreateTopicsResponse,
        lambda answer: answer.topics,
        timeout,
        lambda some: f"{not_done(some)} created",
    )
    return wanted


async def delete_topics(cluster: Cluster, names: Sequence[str], timeout: float) -> list[WantedDeletion]:
    for name in names:
        check_topic_name(name)
    deadline = time.monotonic() + timeout
    ids = {topic.name: topic.topic_id for topic in (await _describe(cluster, list(names), timeout)).topics}
    wanted = [WantedDeletion(wire.TopicToDelete(name, ids.get(name, "")), name) for name in names]
    await ask_for_each(
        cluster,
        wanted,
        lambda parts: wire.DeleteTopicsRequest(parts, controller_ms(cluster, timeout)),
        wire.DeleteTopicsResponse,
        lambda answer: answer.topics,
        deadline - time.monotonic(),
        lambda some: f"{not_done(some)} deleted",
    )
    return wanted


async def create_partitions(cluster: Cluster, counts: Mapping[str, int], timeout: float) -> list[WantedPartitions]:
    wanted = [WantedPartitions(wire.NewPartitions(name, count), name) for name, count in counts.items()]
    check_names(wanted)
    await ask_for_each(
        cluster,
        wanted,
        lambda parts: wire.CreatePartitionsRequest(parts, controller_ms(cluster, timeout)),
        wire.CreatePartitionsResponse,
        lambda answer: answer.topics,
        timeout,
        lambda some: f"{not_done(some)} given more partitions",
    )
    for one in wanted:
        if one.may_be_there:
            [found] = (await _describe(cluster, [one.topic], timeout)).topics
            one.error = None if len(found.partitions) == one.part.count else one.error
    return wanted


async def reassign(
    cluster: Cluster, moves: Mapping[tuple[str, int], Iterable[int] | None], timeout: float
) -> list[Wanted[wire.Reassignment]]:
    wanted = [
        Wanted(wire.Reassignment(*where, list(replicas) if replicas is not None else None), *where)
        for where, replicas in moves.items()
    ]
    check_names(wanted)
    await ask_for_each(
        cluster,
        wanted,
        lambda parts: wire.AlterPartitionReassignmentsRequest(parts, controller_ms(cluster, timeout)),
        wire.AlterPartitionReassignmentsResponse,
        lambda answer: answer.partitions,
        timeout,
        lambda some: f"{not_done(some)} moved",
    )
    return wanted


Setting = str | int | float | bool


def topic_changes(settings: Mapping[str, Setting], unset: Iterable[str]) -> dict[str, str | None]:
    """What to set and what to take away (None), as one mapping."""
    gone = [unset] if isinstance(unset, str) else list(unset)
    for key, value in settings.items():
        if value is None:
            raise ConfigError(f"no value for {key}", hint=f"unset=[{key!r}] takes the setting away")
    if both := sorted(settings.keys() & gone):
        raise ConfigError(f"{', '.join(both)} cannot be set and unset at once")
    if not settings and not gone:
        raise ConfigError("nothing to change", hint="give settings, or unset=[...]")
    return {**{key: setting_text(value) for key, value in settings.items()}, **dict.fromkeys(gone)}


def setting_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def replace_config(
    cluster: Cluster, name: str, config: Mapping[str, Setting], timeout: float
) -> list[Wanted[wire.ConfigReplacement]]:
    settings = {key: setting_text(value) for key, value in config.items()}
    wanted = [Wanted(wire.ConfigReplacement(TOPIC_RESOURCE, name, settings), name)]
    check_names(wanted)
    await ask_for_each(
        cluster,
        wanted,
        lambda parts: wire.AlterConfigsRequest(parts, controller_ms(cluster, timeout)),
        wire.AlterConfigsResponse,
        lambda answer: answer.resources,
        timeout,
        lambda some: f"the settings of {not_done(some)} changed",
    )
    return wanted


async def alter_configs(
    cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]], validate_only: bool, timeout: float
) -> list[Wanted[wire.ConfigAlteration]]:
    wanted = [
        Wanted(wire.ConfigAlteration(TOPIC_RESOURCE, topic, [config_change(*pair) for pair in keys.items()]), topic)
        for topic, keys in changes.items()
    ]
    check_names(wanted)
    await ask_for_each(
        cluster,
        wanted,
        lambda parts: wire.IncrementalAlterConfigsRequest(parts, controller_ms(cluster, timeout), validate_only),
        wire.IncrementalAlterConfigsResponse,
        lambda answer: answer.resources,
        timeout,
        lambda some: f"the settings of {not_done(some)} changed",
    )
    return wanted


def controller_ms(cluster: Cluster, timeout: float) -> int:
    """How long the controller may take: a little less than we wait, so that its answer is heard."""
    return int(cluster.attempt_s(timeout) * 900)


async def _describe(cluster: Cluster, topics: list[str], timeout: float) -> MetadataResponse:
    return await cluster.retry(lambda: cluster.metadata(topics), timeout, "the cluster was not described")


def _new_topic(topic: NewTopic, validate_only: bool) -> wire.NewTopic:
    fixed = [list(replicas) for replicas in topic.assignment] if topic.assignment is not None else None
    settings = {key: str(value) for key, value in topic.config.items()}
    # An attempt whose answer is lost may have created it: the next one is known by the same id.
    topic_id = "" if validate_only else _random_id()
    return wire.NewTopic(topic.name, topic.partitions, topic.replication_factor, settings, fixed, topic_id)


def config_change(key: str, value: str | None) -> wire.ConfigChange:
    if value is None:
        return wire.ConfigChange(key, ConfigOperation.DELETE)
    return wire.ConfigChange(key, ConfigOperation.SET, str(value))


def _random_id() -> str:
    """A topic id in Kafka's spelling: 22 characters of base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
