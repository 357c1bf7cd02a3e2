"""Topics, brokers and offsets: what an operator asks a cluster."""

import time
import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Unpack, cast

from ottla.client.admin_requests import (
    NewTopic,
    Setting,
    alter_configs,
    controller_ms,
    create_partitions,
    create_topics,
    delete_topics,
    reassign,
    replace_config,
    topic_changes,
)
from ottla.client.broker_configs import alter_broker_config, describe_broker_config
from ottla.client.cluster import Cluster
from ottla.client.config import AdminConfig, build
from ottla.client.groups.commits import OffsetAndMetadata
from ottla.client.groups.descriptions import GroupDescription, PartitionLag
from ottla.client.groups.group_admin import GroupAdmin
from ottla.client.offsets import list_offsets
from ottla.client.options import AdminOptions, documented
from ottla.client.record_deletion import delete_records
from ottla.client.wanted import (
    PartitionOutcomes,
    TopicOutcomes,
    by_partition,
    by_topic,
    raise_first,
)
from ottla.wire import admin as wire
from ottla.wire.admin import TOPIC_RESOURCE, ElectionType, TopicResult
from ottla.wire.errors import EligibleLeadersNotAvailable, UnknownTopicOrPartition, error_for
from ottla.wire.messages import EARLIEST, LATEST, PartitionName
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.wire.requests import MetadataResponse, TopicMetadata

DEFAULT_TIMEOUT_S = 30.0
NOTHING: Mapping[str, Setting] = MappingProxyType({})


@documented(AdminConfig)
class AsyncAdmin:
    """Creates, describes and deletes topics; tells who is in the cluster. ``async with`` closes it.

    What takes one thing raises if it fails. What takes many tells of each what became of it, and one that fails does not
    keep the others from being done.
    """

    _closed = True  # until it is made

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        self._config = build(AdminConfig, options)
        self._cluster = Cluster(self._config)
        self._closed = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "AsyncAdmin":
        """From Kafka's own names: ``{"bootstrap.servers": ...}``."""
        return cls(**cast(Any, config))

    async def __aenter__(self) -> "AsyncAdmin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncAdmin at {self._cluster.servers()}{' (closed)' if self._closed else ''}>"

    async def close(self) -> None:
        self._closed = True
        await self._cluster.close()

    def __del__(self) -> None:
        if not self._closed:
            self._cluster.abandon()
            warnings.warn("an AsyncAdmin that nobody has any more was not closed", ResourceWarning, 2, source=self)

    # --- groups ----------------------------------------------------------------------------------------------------------

    async def list_groups(self, states: Iterable[str] = (), *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, str]:
        """All consumer groups and their states; only those in these states, if some are named."""
        return await GroupAdmin(self._cluster).list_all(states, timeout)

    async def describe_group(self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> GroupDescription:
        """A group's members and what each of them reads. GroupIdNotFound if there is none."""
        return await GroupAdmin(self._cluster).describe(group, timeout)

    async def group_offsets(
        self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group has committed."""
        return await GroupAdmin(self._cluster).offsets(group, timeout)

    async def group_lag(self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind."""
        return await GroupAdmin(self._cluster).lag(group, timeout)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Let a group go on from these offsets. It must have no members."""
        wanted = {TopicPartition(*where): offset for where, offset in offsets.items()}
        await GroupAdmin(self._cluster).alter_offsets(group, wanted, timeout)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Forget what a group has committed of these, of topics that no member subscribes to."""
        await GroupAdmin(self._cluster).delete_offsets(group, [TopicPartition(*where) for where in partitions], timeout)

    async def delete_group(self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Forget a group that has no members, and all that it committed."""
        await GroupAdmin(self._cluster).delete(group, timeout)

    # --- topics ----------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        assignment: Iterable[Iterable[int]] | None = None,
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> str:
        """Create a topic and wait until every live broker knows it; gives back the topic's id."""
        new = NewTopic(name, partitions, replication_factor, config or {}, assignment)
        [created] = await create_topics(self._cluster, [new], validate_only, timeout)
        raise_first([created])
        assert isinstance(created.result, TopicResult)
        return created.result.topic_id

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float = DEFAULT_TIMEOUT_S
    ) -> TopicOutcomes:
        """Create many topics."""
        return by_topic(await create_topics(self._cluster, list(topics), validate_only, timeout))

    async def delete_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Delete a topic with all its records and wait until it is gone."""
        raise_first(await delete_topics(self._cluster, [name], timeout))

    async def delete_topics(self, names: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicOutcomes:
        """Delete many topics."""
        return by_topic(await delete_topics(self._cluster, list(names), timeout))

    async def add_partitions(self, name: str, count: int, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Let a topic have ``count`` partitions, more than it has. Keys may go to other partitions from then on."""
        raise_first(await create_partitions(self._cluster, {name: count}, timeout))

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> TopicOutcomes:
        """Let many topics have so many partitions each."""
        return by_topic(await create_partitions(self._cluster, counts, timeout))

    async def delete_records(
        self,
        offsets: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets, -1 for all that are committed; gives where each partition begins then.

        It returns when every replica in sync has noted it on disk. OffsetOutOfRange for an offset past the end; the other
        partitions are done all the same. The space comes back segment by segment (log.retention.check.interval.ms).
        """
        wanted = {TopicPartition(*where): offset for where, offset in offsets.items()}
        return await delete_records(self._cluster, wanted, timeout)

    async def alter_topic_config(
        self,
        name: str,
        settings: Mapping[str, Setting] = NOTHING,
        *,
        unset: Iterable[str] = (),
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Change these settings of a topic, take those in ``unset`` away, and leave all others as they are.

        Where a topic says nothing, the broker's setting counts.
        """
        changes = {name: topic_changes(settings, unset)}
        raise_first(await alter_configs(self._cluster, changes, False, timeout))

    async def replace_topic_config(
        self, name: str, settings: Mapping[str, Setting], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Let a topic have these settings of its own and no others."""
        raise_first(await replace_config(self._cluster, name, settings, timeout))

    async def incremental_alter_configs(
        self,
        changes: Mapping[str, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> TopicOutcomes:
        """Change some settings of many topics and leave the others as they are: ``{topic: {key: value}}``.

        None for a value takes the setting away: the broker's default counts then.
        """
        return by_topic(await alter_configs(self._cluster, changes, validate_only, timeout))

    async def describe_configs(
        self, topics: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, list[wire.ConfigEntry]]:
        """All settings of topics, those that they leave to the broker too: key, value, and ``source`` (a ConfigSource)."""
        wanted = [wire.ConfigsToDescribe(TOPIC_RESOURCE, check_topic_name(name)) for name in topics]
        answer = await self._cluster.retry(
            lambda: self._cluster.ask_any(wire.DescribeConfigsRequest(wanted), wire.DescribeConfigsResponse),
            timeout,
            "the settings were not described",
        )
        for described in answer.resources:
            described.raise_if_failed(topic=described.name)
        return {described.name: list(described.entries) for described in answer.resources}

    async def alter_broker_config(
        self,
        broker: int | None,
        settings: Mapping[str, Setting] = NOTHING,
        *,
        unset: Iterable[str] = (),
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Change these settings of a running broker, or of all of them (None), and take those in ``unset`` away.

        What is set for one broker counts more than what is set for all, and that more than what it was started with.
        """
        changes = topic_changes(settings, unset)
        await alter_broker_config(self._cluster, broker, changes, validate_only, timeout)

    async def describe_broker_config(
        self, broker: int | None, *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> list[wire.ConfigEntry]:
        """All settings of a broker, with their ``source``; or (None) those that were set for all while they run."""
        return await describe_broker_config(self._cluster, broker, timeout)

    # --- partitions ------------------------------------------------------------------------------------------------------

    async def reassign(
        self, name: str, partition: int, replicas: Iterable[int], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Begin to move a partition to other brokers, the preferred leader first; describe_topic shows when it is done."""
        raise_first(await reassign(self._cluster, {(name, partition): replicas}, timeout))

    async def alter_partition_reassignments(
        self, moves: Mapping[tuple[str, int], Iterable[int] | None], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> PartitionOutcomes:
        """Begin to move many partitions; None for a partition calls off what is under way."""
        return by_partition(await reassign(self._cluster, moves, timeout))

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> list[wire.OngoingReassignment]:
        """The moves that are under way: of these partitions, or of all."""
        named = [PartitionName(*where) for where in partitions] if partitions is not None else None
        request = wire.ListPartitionReassignmentsRequest(named, controller_ms(self._cluster, timeout))
        kind = wire.ListPartitionReassignmentsResponse
        answer = await self._cluster.retry(
            lambda: self._cluster.ask_controller(request, kind, self._cluster.attempt_s(timeout)),
            timeout,
            "the reassignments were not listed",
        )
        return answer.partitions

    async def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> PartitionOutcomes:
        """Give leadership back to the preferred leaders that are in sync: of these partitions, or of all.

        Tells of each why it was not elected: ElectionNotNeeded, or PreferredLeaderNotAvailable. A partition that does not exist
        is raised. ``unclean=True`` means something else: where a partition has no leader, take a replica that lives as it is.
        What only the others had is lost; LeaderNotAvailable if none comes alive in time.
        """
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        named = [PartitionName(*where) for where in dict.fromkeys(partitions)] if partitions is not None else None
        request = wire.ElectLeadersRequest(election, named, controller_ms(self._cluster, timeout))

        async def attempt() -> PartitionOutcomes:
            kind = wire.ElectLeadersResponse
            answer = await self._cluster.ask_controller(request, kind, self._cluster.attempt_s(timeout))
            results = {TopicPartition(r.topic, r.partition): r for r in answer.partitions}
            outcomes = {
                where: r.error(topic=where.topic, partition=where.partition) if r.error_code else None
                for where, r in results.items()
            }
            for error in outcomes.values():
                if named is not None and isinstance(error, EligibleLeadersNotAvailable):
                    raise error
            return outcomes

        outcomes = await self._cluster.retry(attempt, timeout, "no leaders were elected")
        for error in outcomes.values():
            if isinstance(error, UnknownTopicOrPartition):
                raise error
        return outcomes

    async def list_topics(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> list[str]:
        """The names of all topics, sorted."""
        answer = await self._metadata(None, timeout)
        return sorted(topic.name for topic in answer.topics)

    async def describe_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicMetadata:
        """A topic's id, config overrides and partitions (leader, replicas, isr, leader_epoch)."""
        check_topic_name(name)
        topic = (await self._metadata([name], timeout)).topics[0]
        if topic.error_code == UnknownTopicOrPartition.code:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist", topic=name)
        if topic.error_code:
            raise error_for(topic.error_code, topic.error_message, topic=name)
        return topic

    async def describe_cluster(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> MetadataResponse:
        """Cluster id, controller, brokers and all topics, as one broker knows them."""
        return await self._metadata(None, timeout)

    async def earliest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The first offset that is still there, for each partition."""
        return await self._offsets(name, EARLIEST, timeout)

    async def latest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The offset that the next committed record will get, for each partition."""
        return await self._offsets(name, LATEST, timeout)

    async def _offsets(self, name: str, timestamp_ms: int, timeout: float) -> dict[TopicPartition, int]:
        deadline = time.monotonic() + timeout
        topic = await self._cluster.topic(name, timeout)
        wanted = {TopicPartition(name, partition.partition): timestamp_ms for partition in topic.partitions}
        found = await list_offsets(self._cluster, wanted, deadline - time.monotonic())
        return {where: offset for where, (offset, _) in found.items()}

    async def _metadata(self, topics: list[str] | None, timeout: float) -> MetadataResponse:
        return await self._cluster.retry(
            lambda: self._cluster.metadata(topics), timeout, "the cluster was not described"
        )
