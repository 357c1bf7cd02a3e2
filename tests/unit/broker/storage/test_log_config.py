"""A topic's settings: read, refused, merged."""

import pytest

from ottla.broker.storage.config_kinds import CONFIG_LIST_MAX
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.topic_configs import TOPIC_CONFIGS, parse_topic_config, plain_topic_config
from ottla.wire.errors import InvalidConfig


def test_values_are_read_by_their_kind():
    assert parse_topic_config(
        {
            "retention.ms": "60000",
            "min.insync.replicas": " 2 ",
            "unclean.leader.election.enable": "False",
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
        }
    ) == {
        "retention.ms": 60000,
        "min.insync.replicas": 2,
        "unclean.leader.election.enable": False,
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
    }


KAFKA_3_9_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.downconversion.enable": "true",
    "message.format.version": "3.0-IV1",
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.difference.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_every_topic_setting_of_kafka_is_accepted_at_kafkas_default() -> None:
    assert plain_topic_config(KAFKA_3_9_DEFAULTS) == KAFKA_3_9_DEFAULTS
    assert TOPIC_CONFIGS.keys() - KAFKA_3_9_DEFAULTS.keys() == {"flush.policy", "record.format"}


def test_refused_codec_comes_with_a_hint() -> None:
    with pytest.raises(InvalidConfig, match=r"set compression\.type of the producer"):
        parse_topic_config({"compression.type": "gzip"})


def test_replicas_of_a_large_topic_can_be_throttled() -> None:
    replicas = ",".join(f"{partition}:{broker}" for partition in range(1000) for broker in (1001, 1002, 1003))
    key = "leader.replication.throttled.replicas"
    assert plain_topic_config({key: replicas.replace(",", " , ")[:CONFIG_LIST_MAX]})
    for value in (replicas, "*", "", "none"):
        assert plain_topic_config({key: value}) == {key: value}
    with pytest.raises(InvalidConfig, match="has 45000 characters; allowed are 40000"):
        parse_topic_config({key: "1:2  ," * 7500})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "٣"),
        ("retention.ms", ""),
        ("retention.ms", "1e3"),
        ("retention.bytes", str(2**63)),
        ("segment.bytes", "13"),
        ("segment.bytes", str(2**31)),
        ("max.message.bytes", "60"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "createtime"),
        ("unclean.leader.election.enable", "yes"),
        ("flush.policy", "sometimes"),
        ("compression.type", "zstd"),
        ("remote.storage.enable", "true"),
        ("message.timestamp.difference.max.ms", "1000"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("message.format.version", "newest"),
        ("leader.replication.throttled.replicas", "0-1"),
        ("leader.replication.throttled.replicas", "0:1,"),
        ("follower.replication.throttled.replicas", "*,0:1"),
    ],
)
def test_a_refusal_names_key_value_and_what_is_allowed(key, value):
    with pytest.raises(InvalidConfig) as caught:
        parse_topic_config({key: value})
    message = str(caught.value)
    assert key in message
    assert repr(value) in message
    assert TOPIC_CONFIGS[key].kind.allowed in message


def test_an_unknown_key_is_refused_with_the_known_ones():
    with pytest.raises(InvalidConfig, match=r"'retention'.*retention\.ms"):
        parse_topic_config({"retention": "1"})


def test_a_topics_settings_stand_over_the_brokers():
    broker = LogConfig(retention_ms=5, segment_bytes=1000)
    topic = parse_topic_config({"retention.ms": "7", "flush.policy": "durable", "min.insync.replicas": "2"})
    assert broker.with_topic_config(topic) == LogConfig(retention_ms=7, segment_bytes=1000, flush_policy="durable")
    assert broker.with_topic_config({}) == broker


def test_every_field_of_a_log_config_can_be_set_for_a_topic():
    names = {key.replace(".", "_") for key in TOPIC_CONFIGS}
    assert set(LogConfig.__dataclass_fields__) - {"roll_interval_ms"} <= names
