"""A topic's settings, and where each comes from."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.broker.api.broker_loggers import BrokerLoggers
from ottla.broker.api.describe_configs import DescribeConfigsHandler
from ottla.broker.cluster_view import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.dynamic_config import BrokerSettings
from ottla.broker.storage.topic_configs import TOPIC_CONFIGS, plain_topic_config
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigSource,
    ConfigsToDescribe,
    ConfigSynonym,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from ottla.wire.control import TopicConfig, UpdateMetadataRequest
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest, InvalidTopic, UnknownTopicOrPartition
from tests.support.loop_time import loop_times
from tests.support.machine import scaled

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, LIST, PASSWORD = ConfigType.LONG, ConfigType.LIST, ConfigType.PASSWORD


def handler() -> DescribeConfigsHandler:
    view = ClusterView("cluster")
    topics = [TopicConfig("orders", "id", {"segment.ms": "7", "written.by.others": "nonsense"})]
    view.update(UpdateMetadataRequest(1, 1, 1, True, [], topics, [], []))
    settings = BrokerSettings(
        BrokerConfig(
            broker_id=7, num_partitions=4, zookeeper_digest="me:secret", log_retention_ms=5, min_insync_replicas=2
        )
    )
    settings.take(
        {"": {"log.roll.ms": "8", "num.partitions": "5"}, "7": {"log.roll.ms": "9"}, "8": {"log.roll.ms": "10"}}
    )
    return DescribeConfigsHandler(view, 7, settings, BrokerLoggers(7))


def test_every_setting_has_a_default_that_a_topic_could_set() -> None:
    described = handler()._describe(ConfigsToDescribe(TOPIC_RESOURCE, "orders"))
    defaults = {
        entry.key: entry.synonyms[-1].value if entry.synonyms else str(entry.value)
        for entry in described.entries
        if entry.key in TOPIC_CONFIGS
    }
    assert plain_topic_config(defaults) == defaults


def test_synonyms_have_the_names_of_the_brokers_settings() -> None:
    described = handler()._describe(ConfigsToDescribe(TOPIC_RESOURCE, "orders"))
    names = {entry.key: [one.key for one in entry.synonyms] for entry in described.entries}
    assert names["segment.ms"] == ["segment.ms", "log.roll.ms", "log.roll.ms", "log.roll.ms"]
    assert names["cleanup.policy"] == ["log.cleanup.policy"]
    assert names["delete.retention.ms"] == ["log.cleaner.delete.retention.ms"]
    assert names["leader.replication.throttled.replicas"] == []


def test_setting_comes_from_the_topic_or_the_broker_or_nobody() -> None:
    described = handler()._describe(ConfigsToDescribe(TOPIC_RESOURCE, "orders"))
    found = {entry.key: (entry.value, entry.source) for entry in described.entries}
    assert found["segment.ms"] == ("7", ConfigSource.TOPIC)
    assert found["written.by.others"] == ("nonsense", ConfigSource.TOPIC)
    assert found["retention.ms"] == ("5", ConfigSource.BROKER)
    assert found["min.insync.replicas"] == ("2", ConfigSource.BROKER)
    assert found["segment.bytes"] == (str(1024**3), ConfigSource.DEFAULT)
    assert found.keys() == {*TOPIC_CONFIGS, "written.by.others"}


def test_only_what_is_named_is_told() -> None:
    described = handler()._describe(ConfigsToDescribe(TOPIC_RESOURCE, "orders", ["segment.ms", "no.such"]))
    assert [entry.key for entry in described.entries] == ["segment.ms"]


def test_what_is_not_there_fails_alone() -> None:
    asked = handler()
    for resource, error in [
        (ConfigsToDescribe(TOPIC_RESOURCE, "unknown"), UnknownTopicOrPartition),
        (ConfigsToDescribe(TOPIC_RESOURCE, "no/name"), InvalidTopic),
        (ConfigsToDescribe(BROKER_RESOURCE, "1"), InvalidRequest),
    ]:
        assert asked._describe(resource).error_code == error.code


def test_a_broker_tells_its_own_settings_but_no_secret() -> None:
    asked = handler()
    described = asked._describe(ConfigsToDescribe(BROKER_RESOURCE, "7"))
    found = {entry.key: entry for entry in described.entries}
    assert (found["log.retention.ms"].value, found["log.retention.ms"].source) == ("5", ConfigSource.BROKER)
    assert (found["auto.create.topics.enable"].value, found["auto.create.topics.enable"].source) == (
        "true",
        ConfigSource.DEFAULT,
    )
    assert (found["zookeeper.digest"].value, found["zookeeper.digest"].sensitive) == (None, True)
    assert (found["broker.id"].read_only, found["num.partitions"].read_only) == (True, False)
    assert found["zookeeper.digest"].synonyms == ()
    assert asked._describe(ConfigsToDescribe(BROKER_RESOURCE, "7", ["broker.id"])).entries == (found["broker.id"],)


def test_what_is_set_for_one_broker_counts_more_than_for_all_and_that_more_than_the_start() -> None:
    asked = handler()
    found = {entry.key: entry for entry in asked._describe(ConfigsToDescribe(BROKER_RESOURCE, "7")).entries}
    assert found["log.roll.ms"].synonyms == (
        ConfigSynonym("log.roll.ms", "9", ConfigSource.DYNAMIC_BROKER),
        ConfigSynonym("log.roll.ms", "8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ConfigSynonym("log.roll.ms", str(7 * 24 * 3600 * 1000), ConfigSource.DEFAULT),
    )
    assert (found["num.partitions"].value, found["num.partitions"].source) == ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert [one.value for one in found["num.partitions"].synonyms] == ["5", "4", "1"]
    of_all = asked._describe(ConfigsToDescribe(BROKER_RESOURCE, "")).entries
    assert {entry.key: entry.value for entry in of_all} == {"log.roll.ms": "8", "num.partitions": "5"}
    topic = {entry.key: entry for entry in asked._describe(ConfigsToDescribe(TOPIC_RESOURCE, "orders")).entries}
    assert [one.value for one in topic["segment.ms"].synonyms] == ["7", "9", "8", str(7 * 24 * 3600 * 1000)]


def test_types_are_told_and_documentation_where_it_is_asked_for() -> None:
    asked = handler()
    for resource, name, types in [
        (
            TOPIC_RESOURCE,
            "orders",
            {"retention.ms": LONG, "segment.bytes": INT, "cleanup.policy": LIST, "preallocate": BOOLEAN},
        ),
        (
            BROKER_RESOURCE,
            "7",
            {"log.dirs": STRING, "broker.id": INT, "log.retention.ms": LONG, "zookeeper.digest": PASSWORD},
        ),
        (BROKER_RESOURCE, "", {"log.roll.ms": LONG, "num.partitions": INT}),
    ]:
        described = {one.key: one for one in asked._describe(ConfigsToDescribe(resource, name), True).entries}
        assert {key: described[key].config_type for key in types} == types
        ours = described.keys() - {"written.by.others"}
        assert all(described[key].config_type and described[key].documentation for key in ours)
        plain = asked._describe(ConfigsToDescribe(resource, name)).entries
        assert {one.documentation for one in plain} == {None}


@pytest.mark.parametrize("is_long", [True, False])
async def test_a_thousand_resources_are_described_in_slices(is_long: bool) -> None:
    asked = handler()
    names = [(TOPIC_RESOURCE, "orders"), (BROKER_LOGGER_RESOURCE, "7"), (BROKER_RESOURCE, "7"), (GROUP_RESOURCE, "g")]
    resources = [ConfigsToDescribe(*names[number % 4]) for number in range(999)]
    resources.append(ConfigsToDescribe(TOPIC_RESOURCE, "orders", ["segment.ms"]))
    resources[4:8] = [ConfigsToDescribe(GROUP_RESOURCE, f"g{number}") for number in range(4)]
    request = DescribeConfigsRequest(resources)
    incoming = cast(IncomingRequest, SimpleNamespace(message=request, is_long=is_long))
    with loop_times() as times:
        answer = asked(incoming, cast(Peer, None))
        assert isinstance(answer, asyncio.Future)
        message = (await answer).message
    assert incoming.is_long, "the answer is encoded in a thread"
    assert isinstance(message, DescribeConfigsResponse)
    assert message.resources == [asked._describe(resource) for resource in resources[:-1]] + [message.resources[-1]]
    assert [entry.key for entry in message.resources[-1].entries] == ["segment.ms"]
    assert times.longest_s < scaled(0.06)


async def test_few_resources_are_described_at_once() -> None:
    request = DescribeConfigsRequest([ConfigsToDescribe(TOPIC_RESOURCE, "orders")])
    incoming = cast(IncomingRequest, SimpleNamespace(message=request, is_long=False))
    assert isinstance(handler()(incoming, cast(Peer, None)), Reply)
