"""The options of ``format("ottla")`` for reading: Spark's Kafka source's names, checked before anything is asked of a broker.

Pure. Names are taken in any spelling of upper and lower case, because Spark forgets the user's. What is wrong is told as one
sentence that names the option, its value and what to give instead.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.spark_jobs.client_options import ClientOptions, client_options
from ottla.spark_jobs.given_options import GivenOptions, wrong
from ottla.spark_jobs.positions import Position, ending_position, starting_position
from ottla.wire.errors import ConfigError, InvalidTopic
from ottla.wire.names import check_topic_name

READ_OPTIONS = (
    "mode", "path", "paths", "bootstrap.servers", "subscribe", "assign", "subscribePattern",
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "groupId", "groupIdPrefix", "pushdown",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
"""All but ``kafka.*``, which are the client's."""

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupId")
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushdown")
BROKERS_ONLY = ("bootstrap.servers", "groupId", "groupIdPrefix")

CHOICES = ("subscribe", "assign", "subscribePattern")


@dataclass(frozen=True)
class TopicChoice:
    """Which partitions are read: of these topics, just these, or of all topics whose names match."""

    topics: tuple[str, ...] = ()
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pattern: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that must be there."""
        return self.topics or tuple(self.assigned)

    def wants(self, topic: str, partition: int) -> bool:
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        if self.assigned:
            return partition in self.assigned.get(topic, ())
        return topic in self.topics or not self.topics  # none are named: all of a folder

    def option(self) -> str:
        """How the user said so, for messages."""
        if self.pattern is not None:
            return f"subscribePattern={self.pattern!r}"
        if self.assigned:
            return f"assign={json.dumps({topic: list(some) for topic, some in self.assigned.items()})}"
        return f"subscribe={','.join(self.topics)!r}"


@dataclass(frozen=True)
class ReadOptions:
    """What a read was told, checked. Goes to the executors as it is."""

    choice: TopicChoice
    starting: Position
    ending: Position
    client: ClientOptions
    paths: tuple[str, ...] = ()
    fail_on_data_loss: bool = True
    include_headers: bool = False
    pushdown: bool = False
    group_id: str = ""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int = 0
    max_records_per_partition: int | None = None
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    poll_timeout_ms: int = 120_000

    @property
    def from_files(self) -> bool:
        return bool(self.paths)


def read_options(given: Mapping[str, str], *, streaming: bool | None = None) -> ReadOptions:
    """All options of a read; ConfigError for the first that is wrong. ``streaming`` None: not known yet, or no matter."""
    options = GivenOptions(given, READ_OPTIONS)
    options.refuse_unknown()
    if streaming is not None:
        _refuse_misplaced(options, streaming)
    paths = _paths(options)
    choice = _choice(options, required=not paths)
    least, most = options.positive("minOffsetsPerTrigger"), options.positive("maxOffsetsPerTrigger")
    if least and most and least > most:
        raise wrong("minOffsetsPerTrigger", str(least), f"no more than maxOffsetsPerTrigger={most}")
    retries = options.number("fetchOffset.numRetries", 3, least=0)
    return ReadOptions(
        choice=choice,
        starting=starting_position(options.get, batch=streaming is False, default_latest=streaming is not False),
        ending=ending_position(options.get),
        client=client_options(options.kafka(), bootstrap=options.get("bootstrap.servers"), required=not paths),
        paths=paths,
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        include_headers=options.boolean("includeHeaders", False),
        pushdown=options.boolean("pushdown", False),
        group_id=_group_id(options),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", 15 * 60_000),
        min_partitions=options.positive("minPartitions") or 0,
        max_records_per_partition=options.positive("maxRecordsPerPartition"),
        offset_retries=retries,
        offset_retry_interval_ms=options.number("fetchOffset.retryIntervalMs", 10, least=0),
        poll_timeout_ms=options.number("kafkaConsumer.pollTimeoutMs", 120_000, least=1),
    )


def _refuse_misplaced(options: GivenOptions, streaming: bool) -> None:
    for name in BATCH_ONLY if streaming else STREAM_ONLY:
        value = options.get(name)
        if value is not None:
            kind, call = ("a batch", "spark.read") if streaming else ("a stream", "spark.readStream")
            text = f"option {name}={value!r} is for {kind} only ({call})"
            raise ConfigError(f"{text}; leave it out")


def _paths(options: GivenOptions) -> tuple[str, ...]:
    """The folders of mode=files; empty if brokers are read."""
    mode, path, paths = options.get("mode") or "brokers", options.get("path"), options.get("paths")
    if mode.strip().lower() not in ("brokers", "files"):
        raise wrong("mode", mode, "brokers or files")
    if mode.strip().lower() == "brokers":
        if path or paths:
            raise ConfigError(
                f"option path={path or paths!r} is for mode='files' only; give mode='files' or leave it out"
            )
        return ()
    for name in BROKERS_ONLY:
        if options.get(name) is not None:
            raise ConfigError(f"option {name} has no meaning with mode='files', which asks no broker; leave it out")
    found = [part.strip() for part in (path or "").split(",") if part.strip()]
    if paths:
        listed = _json("paths", paths, "a JSON list of folders")
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise wrong("paths", paths, "a JSON list of folders")
        found += listed
    if not found:
        raise ConfigError(
            "mode='files' needs option path: the data folder of a broker (its log.dirs), or several, by commas"
        )
    return tuple(dict.fromkeys(found))


def _choice(options: GivenOptions, *, required: bool) -> TopicChoice:
    given = [(name, value) for name in CHOICES if (value := options.get(name)) is not None]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(name for name, _ in given)} exclude each other; give one of them")
    if not given:
        if not required:
            return TopicChoice()
        raise ConfigError("which topics are to be read? Give one of the options subscribe, assign or subscribePattern")
    name, value = given[0]
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise wrong(name, value, "a topic's name, or several, by commas")
        return TopicChoice(topics=tuple(_checked(name, topic) for topic in topics))
    if name == "assign":
        return TopicChoice(assigned=_assigned(value))
    try:
        re.compile(value)
    except re.error as error:
        raise wrong(name, value, f"a regular expression ({error})") from None
    return TopicChoice(pattern=value)


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    allowed = 'JSON such as {"orders": [0, 1]}'
    found = _json("assign", text, allowed)
    if not isinstance(found, dict) or not found:
        raise wrong("assign", text, allowed)
    for topic, partitions in found.items():
        _checked("assign", topic)
        whole = isinstance(partitions, list) and bool(partitions)
        if not whole or not all(type(number) is int and number >= 0 for number in partitions):
            raise wrong("assign", text, allowed)
    return {topic: tuple(sorted(set(partitions))) for topic, partitions in found.items()}


def _checked(option: str, topic: str) -> str:
    try:
        return check_topic_name(topic)
    except InvalidTopic as error:
        raise ConfigError(f"option {option}: {error}") from None


def _group_id(options: GivenOptions) -> str:
    own, kafkas = options.get("groupId"), options.kafka().get("group.id")
    if own is not None and kafkas is not None and own != kafkas:
        raise ConfigError(
            f"options groupId={own!r} and kafka.group.id={kafkas!r} say different things; give one of them"
        )
    return own or kafkas or ""


def _json(name: str, text: str, allowed: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise wrong(name, text, f"{allowed} ({error})") from None
    return found
