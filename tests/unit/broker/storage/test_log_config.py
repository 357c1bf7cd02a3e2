"""A topic's settings: read, refused, merged."""

import pytest

from ottla.broker.storage.log_config import TOPIC_CONFIGS, LogConfig, parse_topic_config
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
    ],
)
def test_a_refusal_names_key_value_and_what_is_allowed(key, value):
    with pytest.raises(InvalidConfig) as caught:
        parse_topic_config({key: value})
    message = str(caught.value)
    assert key in message
    assert repr(value) in message
    assert TOPIC_CONFIGS[key][0] in message


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
    assert set(LogConfig.__dataclass_fields__) <= names
