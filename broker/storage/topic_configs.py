"""Every setting that a topic may have: Kafka's and Ottla's. What each means, how it is read, and its default."""

import difflib
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from ottla.broker.storage.config_kinds import (
    INT_MAX,
    ConfigKind,
    ConfigValue,
    boolean,
    config_text,
    integer,
    matching,
    number,
    one_of,
    only,
    throttled_replicas,
)
from ottla.broker.storage.log_config import (
    CREATE_TIME,
    FLUSH_DURABLE,
    FLUSH_OS,
    LOG_APPEND_TIME,
    SEGMENT_BYTES_MAX,
)
from ottla.wire.admin import ConfigType
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.errors import InvalidConfig
from ottla.wire.names import RECORD_FORMAT_COLUMNAR, RECORD_FORMAT_KAFKA


class Use(StrEnum):
    """What becomes of a setting that a topic has."""

    IMPLEMENTED = "implemented"
    IGNORED = "stored and ignored"
    NOT_ENFORCED = "stored and returned, not enforced"
    ONE_VALUE = "one value; others are refused"


class TopicSetting(NamedTuple):
    kind: ConfigKind
    text: str
    """The documentation that DescribeConfigs returns."""
    broker_name: str = ""
    """The name of the broker's setting that counts where a topic has none, also where Ottla's brokers do not have it."""
    default: str | None = None
    """The value where neither topic nor broker has one. None: the broker always has one."""
    use: Use = Use.IMPLEMENTED


_NO_COMPACTION = "there is no log compaction"
_NO_TIERS = "there is no tiered storage"
_AS_PRODUCED = "brokers store batches as producers compress them; set compression.type of the producer"


def _ignored(kind: ConfigKind, default: str, broker_name: str, why: str) -> TopicSetting:
    return TopicSetting(kind, f"Ignored: {why}", broker_name, default, Use.IGNORED)


TOPIC_CONFIGS: dict[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(
        only("delete", _NO_COMPACTION, ConfigType.LIST), "what becomes of old segments", "log.cleanup.policy", "delete",
        Use.ONE_VALUE,
    ),
    "compression.gzip.level": _ignored(integer(-1, 9), "-1", "compression.gzip.level", _AS_PRODUCED),
    "compression.lz4.level": _ignored(integer(1, 17), "9", "compression.lz4.level", _AS_PRODUCED),
    "compression.type": TopicSetting(
        only("producer", _AS_PRODUCED), "the codec of stored batches: the producer's", "compression.type", "producer",
        Use.ONE_VALUE,
    ),
    "compression.zstd.level": _ignored(integer(-131_072, 22), "3", "compression.zstd.level", _AS_PRODUCED),
    "delete.retention.ms": _ignored(integer(0), "86400000", "log.cleaner.delete.retention.ms", _NO_COMPACTION),
    "file.delete.delay.ms": _ignored(
        integer(0), "60000", "log.segment.delete.delay.ms", "files of deleted segments are removed as soon as nobody reads them"
    ),
    "flush.messages": _ignored(
        integer(1), str(2**63 - 1), "log.flush.interval.messages", "set flush.policy=durable to flush before acknowledgements"
    ),
    "flush.ms": _ignored(
        integer(0), str(2**63 - 1), "log.flush.interval.ms", "set flush.policy=durable to flush before acknowledgements"
    ),
    "flush.policy": TopicSetting(
        one_of(FLUSH_OS, FLUSH_DURABLE),
        "os: the kernel writes to disk when it likes; durable: acknowledgements wait for fdatasync (Ottla's own)",
        "log.flush.policy",
    ),
    "follower.replication.throttled.replicas": TopicSetting(
        throttled_replicas(), "the replicas whose fetching Kafka throttles; Ottla does not", "", "", Use.NOT_ENFORCED
    ),
    "index.interval.bytes": TopicSetting(
        integer(0, SEGMENT_BYTES_MAX), "an index entry for each so many bytes of a log", "log.index.interval.bytes"
    ),
    "leader.replication.throttled.replicas": TopicSetting(
        throttled_replicas(), "the replicas whose sending Kafka throttles; Ottla does not", "", "", Use.NOT_ENFORCED
    ),
    "local.retention.bytes": _ignored(integer(-2), "-2", "log.local.retention.bytes", _NO_TIERS),
    "local.retention.ms": _ignored(integer(-2), "-2", "log.local.retention.ms", _NO_TIERS),
    "max.compaction.lag.ms": _ignored(
        integer(1), str(2**63 - 1), "log.cleaner.max.compaction.lag.ms", _NO_COMPACTION
    ),
    "max.message.bytes": TopicSetting(
        integer(HEADER_SIZE, SEGMENT_BYTES_MAX), "the largest record batch", "message.max.bytes"
    ),
    "message.downconversion.enable": _ignored(
        boolean(), "true", "log.message.downconversion.enable", "nothing is converted to formats before magic 2"
    ),
    "message.format.version": _ignored(
        matching(r"[0-9]{1,2}(\.[0-9]{1,2}){1,3}(-IV[0-9]{1,2})?", "a version, as 3.0-IV1"),
        "3.0-IV1", "log.message.format.version", "the format is magic 2 or columns",
    ),
    "message.timestamp.after.max.ms": TopicSetting(
        integer(0), "how far ahead of the broker's clock a producer's timestamp may be", "log.message.timestamp.after.max.ms"
    ),
    "message.timestamp.before.max.ms": TopicSetting(
        integer(0), "how far behind the broker's clock a producer's timestamp may be", "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.difference.max.ms": TopicSetting(
        only(str(2**63 - 1), "set message.timestamp.before.max.ms and message.timestamp.after.max.ms", ConfigType.LONG),
        "replaced by message.timestamp.before.max.ms and message.timestamp.after.max.ms",
        "log.message.timestamp.difference.max.ms", str(2**63 - 1), Use.ONE_VALUE,
    ),
    "message.timestamp.type": TopicSetting(
        one_of(CREATE_TIME, LOG_APPEND_TIME), "whose clock times records: the producer's or the broker's",
        "log.message.timestamp.type",
    ),
    "min.cleanable.dirty.ratio": _ignored(number(0, 1), "0.5", "log.cleaner.min.cleanable.ratio", _NO_COMPACTION),
    "min.compaction.lag.ms": _ignored(integer(0), "0", "log.cleaner.min.compaction.lag.ms", _NO_COMPACTION),
    "min.insync.replicas": TopicSetting(
        integer(1, INT_MAX), "how many replicas must have a record before acks=all is answered", "min.insync.replicas"
    ),
    "preallocate": _ignored(boolean(), "false", "log.preallocate", "files grow as they are written"),
    "record.format": TopicSetting(
        one_of(RECORD_FORMAT_COLUMNAR, RECORD_FORMAT_KAFKA),
        "the format in which Ottla's own producers write (Ottla's own)", "", RECORD_FORMAT_COLUMNAR,
    ),
    "remote.log.copy.disable": _ignored(boolean(), "false", "", _NO_TIERS),
    "remote.log.delete.on.disable": _ignored(boolean(), "false", "", _NO_TIERS),
    "remote.storage.enable": TopicSetting(
        only("false", _NO_TIERS, ConfigType.BOOLEAN), "whether segments are copied to remote storage", "", "false",
        Use.ONE_VALUE,
    ),
    "retention.bytes": TopicSetting(
        integer(-1), "a partition larger than this loses its oldest segments; -1 keeps them", "log.retention.bytes"
    ),
    "retention.ms": TopicSetting(
        integer(-1), "segments whose records are older than this are deleted; -1 keeps them", "log.retention.ms"
    ),
    "segment.bytes": TopicSetting(
        integer(14, SEGMENT_BYTES_MAX),
        "a segment of a log is at most this large; requests may set log.segment.bytes.min of the controller or more",
        "log.segment.bytes",
    ),
    "segment.index.bytes": _ignored(
        integer(4, INT_MAX), "10485760", "log.index.size.max.bytes", "an index grows with its segment"
    ),
    "segment.jitter.ms": _ignored(
        integer(0), "0", "log.roll.jitter.ms", "the timestamps of a partition's own records time its segments"
    ),
    "segment.ms": TopicSetting(
        integer(1), "a segment of a log spans at most this time; below 64 KB it is rolled once a second at most",
        "log.roll.ms",
    ),
    "unclean.leader.election.enable": TopicSetting(
        boolean(), "whether a replica that may lack acknowledged records is elected where no other one lives",
        "unclean.leader.election.enable", "false",
    ),
}  # fmt: skip
"""In the order of their names."""

DEFAULT_OF = {name: setting.broker_name for name, setting in TOPIC_CONFIGS.items() if setting.default is None}
"""A topic's settings, and those of brokers that count where a topic says nothing."""


def check_topic_key(key: str) -> TopicSetting:
    """The setting of that name; InvalidConfig if there is none."""
    if key not in TOPIC_CONFIGS:
        near = difflib.get_close_matches(key[:100], TOPIC_CONFIGS)
        hint = f"did you mean {' or '.join(near)}?" if near else "docs/configuration.md lists all of them"
        raise InvalidConfig(f"unknown topic config {key[:100]!r}; {hint}")
    return TOPIC_CONFIGS[key]


def parse_setting(what: str, key: str, text: str, kind: ConfigKind) -> ConfigValue:
    """Read one value; InvalidConfig names the key, the value and what is allowed. ``what`` says whose setting it is."""
    if len(text) > kind.length_max:
        raise InvalidConfig(f"{what} {key} has {len(text)} characters; allowed are {kind.length_max}")
    try:
        return kind.parse(text.strip())
    except (ValueError, KeyError, AttributeError):
        raise InvalidConfig(f"{what} {key} = {text[:1000]!r} is not allowed: it must be {kind.allowed}") from None


def parse_topic_config(config: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Read a topic's settings; InvalidConfig names the first key or value that is not allowed."""
    return {key: parse_setting("topic config", key, text, check_topic_key(key).kind) for key, text in config.items()}


def sensible_topic_config(config: Mapping[str, str]) -> tuple[dict[str, ConfigValue], list[InvalidConfig]]:
    """The same without what somebody wrote into ZooKeeper by other means, or a newer version; and why each means nothing."""
    found: dict[str, ConfigValue] = {}
    nonsense: list[InvalidConfig] = []
    for key, text in config.items():
        try:
            found |= parse_topic_config({key: text})
        except InvalidConfig as error:
            nonsense.append(error)
    return found, nonsense


def plain_topic_config(config: Mapping[str, str]) -> dict[str, str]:
    """The same settings as they are stored: each in the one way in which its value is written."""
    return {key: config_text(value) for key, value in parse_topic_config(config).items()}
