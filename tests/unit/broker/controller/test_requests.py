"""What the controller checks before it does what it is asked for; the rest is told by tests/cases/controller."""

import pytest

from ottla.broker.controller.decisions import requests as requests_module
from ottla.broker.controller.decisions.actions import Tell, WriteBrokerConfig, WriteConfig, WriteGroupConfig
from ottla.broker.controller.decisions.cluster import Broker
from ottla.broker.controller.decisions.state import ControllerState
from ottla.wire.admin import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
    ConfigReplacement,
    NewTopic,
)
from ottla.wire.control import GroupSettings, UpdateMetadataRequest
from ottla.wire.errors import InvalidConfig, InvalidRequest, StaleBrokerEpoch, TopicAlreadyExists, UnknownTopicId
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import SEGMENT_BYTES_MIN
from ottla.zk.metadata import LoadedTopic, VersionedState
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode


def controller(segment_bytes_min: int = SEGMENT_BYTES_MIN, **config: str) -> ControllerState:
    made = ControllerState(controller_id=9, controller_epoch=3, segment_bytes_min=segment_bytes_min)
    state = VersionedState(PartitionStateZnode(1, 0, 1, (1,)), 0)
    of_topic = {name.replace("_", "."): value for name, value in config.items()}
    topic = LoadedTopic("orders", TopicZnode({0: (1,)}, "id-of-orders"), 0, of_topic, {0: state})
    made.loaded({1: Broker(BrokerEndpoint(1, "host", 9092), 4)}, [topic], [])
    return made


@pytest.mark.parametrize(("broker", "epoch"), [(1, 3), (1, 5), (2, 4)], ids=["earlier life", "later life", "unknown"])
def test_only_the_present_life_of_a_broker_may_ask(broker: int, epoch: int) -> None:
    requests = controller().requests
    requests.check_life(1, 4)
    with pytest.raises(StaleBrokerEpoch):
        requests.check_life(broker, epoch)


def test_topic_is_found_by_its_id() -> None:
    requests = controller().requests
    assert requests.name_of("id-of-orders") == "orders"
    with pytest.raises(UnknownTopicId):
        requests.name_of("another")


def test_settings_of_a_broker_are_replaced_as_a_whole() -> None:
    requests = controller().requests
    replaced = requests.replace_config(ConfigReplacement(BROKER_RESOURCE, "1", {"log.roll.ms": " 07 "}))
    assert replaced == [WriteBrokerConfig("1", {"log.roll.ms": "7"})]
    assert requests.replace_config(ConfigReplacement(BROKER_RESOURCE, "", {})) == [WriteBrokerConfig("", {})]


@pytest.mark.parametrize(
    ("kind", "name"), [(BROKER_RESOURCE, "77"), (BROKER_RESOURCE, "01"), (BROKER_RESOURCE, "x"), (8, "1")]
)
def test_settings_of_what_is_not_there_are_refused(kind: int, name: str) -> None:
    requests = controller().requests
    with pytest.raises(InvalidRequest):
        requests.replace_config(ConfigReplacement(kind, name, {}))
    with pytest.raises(InvalidRequest):
        requests.alter_config(ConfigAlteration(kind, name, []))


def test_topic_that_is_only_to_be_validated_is_never_taken_for_one_that_was_created_before() -> None:
    with pytest.raises(TopicAlreadyExists):
        controller().requests.create_topic(NewTopic("orders", 1, 1, {}), "")


SMALL = str(SEGMENT_BYTES_MIN - 1)


@pytest.mark.parametrize("value", ["14", SMALL])
def test_request_for_small_segments_is_refused_with_the_minimum(value: str) -> None:
    requests = controller().requests
    of_topic, of_brokers = {"segment.bytes": value}, {"log.segment.bytes": value}
    change = [ConfigChange("segment.bytes", ConfigOperation.SET, value)]
    change_of_brokers = [ConfigChange("log.segment.bytes", ConfigOperation.SET, value)]
    for asked in (
        lambda: requests.create_topic(NewTopic("new", 1, 1, of_topic), "id"),
        lambda: requests.replace_config(ConfigReplacement(TOPIC_RESOURCE, "orders", of_topic)),
        lambda: requests.alter_config(ConfigAlteration(TOPIC_RESOURCE, "orders", change)),
        lambda: requests.replace_config(ConfigReplacement(BROKER_RESOURCE, "", of_brokers)),
        lambda: requests.alter_config(ConfigAlteration(BROKER_RESOURCE, "1", change_of_brokers)),
    ):
        with pytest.raises(InvalidConfig, match=f"segment.bytes={value} .* at least {SEGMENT_BYTES_MIN}"):
            asked()


def test_small_segments_that_were_stored_before_hinder_no_other_change() -> None:
    requests = controller(segment_bytes=SMALL).requests
    kept = {"segment.bytes": SMALL, "retention.ms": "7"}
    change = [ConfigChange("retention.ms", ConfigOperation.SET, "7")]
    assert requests.alter_config(ConfigAlteration(TOPIC_RESOURCE, "orders", change)) == [WriteConfig("orders", kept)]
    assert requests.replace_config(ConfigReplacement(TOPIC_RESOURCE, "orders", kept)) == [WriteConfig("orders", kept)]
    with pytest.raises(InvalidConfig):
        requests.replace_config(ConfigReplacement(TOPIC_RESOURCE, "orders", {"segment.bytes": "14"}))


def test_operators_may_lower_the_smallest_segment() -> None:
    requests = controller(segment_bytes_min=1000).requests
    config = {"segment.bytes": "1000"}
    assert requests.replace_config(ConfigReplacement(TOPIC_RESOURCE, "orders", config)) == [
        WriteConfig("orders", config)
    ]


SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_settings_of_a_group_are_written_and_told_to_all_brokers() -> None:
    made = controller()
    change = [ConfigChange(SESSION, ConfigOperation.SET, " 050000 "), ConfigChange(HEARTBEAT, ConfigOperation.DELETE)]
    assert made.requests.alter_config(ConfigAlteration(GROUP_RESOURCE, "g", change)) == [
        WriteGroupConfig("g", {SESSION: "50000"})
    ]
    (told,) = made.group_config_changed("g", {SESSION: "50000"})
    assert isinstance(told, Tell)
    assert isinstance(told.request, UpdateMetadataRequest)
    assert told.request.groups == (GroupSettings("g", {SESSION: "50000"}),)
    more = ConfigReplacement(GROUP_RESOURCE, "g", {HEARTBEAT: "1000"})
    assert made.requests.replace_config(more) == [WriteGroupConfig("g", {HEARTBEAT: "1000"})]
    (other,) = made.broker_config_changed("", {})[:1]
    assert isinstance(other, Tell)
    assert isinstance(other.request, UpdateMetadataRequest)
    assert other.request.groups is None, "as they were"
    (told,) = made.group_config_changed("g", {})
    assert isinstance(told, Tell)
    assert isinstance(told.request, UpdateMetadataRequest)
    assert told.request.groups == ()


@pytest.mark.parametrize(
    "config",
    [
        {SESSION: "999"},
        {SESSION: "soon"},
        {HEARTBEAT: "99"},
        {HEARTBEAT: "5000", SESSION: "5000"},
        {"share.session.timeout.ms": "50000"},
    ],
)
def test_senseless_settings_of_a_group_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        controller().requests.replace_config(ConfigReplacement(GROUP_RESOURCE, "g", config))


def test_groups_with_settings_of_their_own_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    made = controller()
    monkeypatch.setattr(requests_module, "GROUPS_WITH_SETTINGS_MAX", 1)
    made.group_config_changed("g", {SESSION: "50000"})
    one = {SESSION: "60000"}
    assert made.requests.replace_config(ConfigReplacement(GROUP_RESOURCE, "g", one)) == [WriteGroupConfig("g", one)]
    assert made.requests.replace_config(ConfigReplacement(GROUP_RESOURCE, "h", {})) == [WriteGroupConfig("h", {})]
    with pytest.raises(InvalidRequest, match="allowed are 1"):
        made.requests.replace_config(ConfigReplacement(GROUP_RESOURCE, "h", one))
