"""Settings that are changed while brokers run: which, what is refused, and what comes into force."""

from dataclasses import fields

import pytest

from ottla.broker.config import BrokerConfig, property_name
from ottla.broker.dynamic_config import ALL_BROKERS, CHANGEABLE, BrokerSettings, is_broker_name, plain_broker_config
from ottla.wire.errors import InvalidConfig


def settings(num_partitions: int = 1) -> tuple[BrokerSettings, list[BrokerConfig]]:
    made, heard = BrokerSettings(BrokerConfig(broker_id=3, num_partitions=num_partitions)), list[BrokerConfig]()
    made.on_changed.append(heard.append)
    return made, heard


def test_the_docs_say_changeable_of_what_can_be_changed() -> None:
    told = {property_name(field.name) for field in fields(BrokerConfig) if field.metadata["running"]}
    assert told == CHANGEABLE.keys()


def test_defaults_are_allowed() -> None:
    for field in fields(BrokerConfig):
        key = property_name(field.name)
        if key in CHANGEABLE:
            text = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            assert plain_broker_config({key: text}, ALL_BROKERS) == {key: text}


@pytest.mark.parametrize(
    ("name", "key", "value", "why"),
    [
        ("", "log.dirs", "/x", "is read when a broker starts"),
        ("3", "broker.id", "4", "is read when a broker starts"),
        ("", "no.such.setting", "1", "unknown broker config"),
        ("", "log.segment.bytes", "13", "must be an integer from 14"),
        ("", "num.partitions", "many", "must be an integer from 1"),
        ("", "num.partitions", "0", "must be an integer from 1"),
        ("", "auto.create.topics.enable", "perhaps", "must be true or false"),
        ("", "log.flush.policy", "never", "must be os or durable"),
        ("", "group.max.size", "9" * 2000, "2000 characters"),
        ("3", "min.insync.replicas", "2", "for all brokers only"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, key: str, value: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=why) as refused:
        plain_broker_config({key: value}, name)
    assert key in str(refused.value)


def test_what_is_told_comes_into_force_and_is_taken_back() -> None:
    made, heard = settings(num_partitions=7)
    made.take(
        {"": {"num.partitions": "2", "group.max.size": "9"}, "3": {"num.partitions": "5"}, "4": {"num.partitions": "6"}}
    )
    assert [(config.num_partitions, config.group_max_size) for config in heard] == [(5, 9)]
    made.take({"": {"num.partitions": "2", "group.max.size": "9"}, "3": {"num.partitions": "5"}, "5": {}})
    assert len(heard) == 1, "nothing of its own has changed"
    made.take({"": {"num.partitions": "2"}})
    made.take({})
    assert [config.num_partitions for config in heard] == [5, 2, 7]
    assert made.config == BrokerConfig(broker_id=3, num_partitions=7)


def test_nonsense_that_stands_in_zookeeper_is_left_out_alone() -> None:
    made, heard = settings()
    made.take(
        {"": {"num.partitions": "2", "log.dirs": "/x", "group.max.size": "no"}, "3": {"min.insync.replicas": "9"}}
    )
    assert [(config.num_partitions, config.min_insync_replicas) for config in heard] == [(2, 1)]


def test_part_that_fails_keeps_no_other_from_hearing() -> None:
    made, heard = settings()

    def fails(config: BrokerConfig) -> None:
        raise RuntimeError

    made.on_changed.insert(0, fails)
    made.take({"": {"num.partitions": "2"}})
    assert [config.num_partitions for config in heard] == [2]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("0", True),
        ("17", True),
        ("007", False),
        ("-1", False),
        ("", False),
        ("x", False),
        ("9" * 12, False),
        ("²", False),
    ],
)
def test_brokers_are_named_by_their_numbers(name: str, is_one: bool) -> None:
    assert is_broker_name(name) is is_one
