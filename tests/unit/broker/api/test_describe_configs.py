"""A topic's settings, and where each comes from."""

from ottla.broker.api.describe_configs import BUILT_IN, DescribeConfigsHandler, broker_defaults, broker_settings
from ottla.broker.cluster_view import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.storage.log_config import TOPIC_CONFIGS, LogConfig, plain_topic_config
from ottla.wire.admin import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigSource, ConfigsToDescribe
from ottla.wire.control import TopicConfig, UpdateMetadataRequest
from ottla.wire.errors import InvalidRequest, InvalidTopic, UnknownTopicOrPartition


def handler() -> DescribeConfigsHandler:
    view = ClusterView("cluster")
    topics = [TopicConfig("orders", "id", {"segment.ms": "7", "written.by.others": "nonsense"})]
    view.update(UpdateMetadataRequest(1, 1, 1, True, [], topics, [], []))
    settings = broker_settings(BrokerConfig(broker_id=7, num_partitions=4, zookeeper_digest="me:secret"))
    return DescribeConfigsHandler(view, broker_defaults(LogConfig(retention_ms=5), 2), 7, settings)


def test_every_setting_has_a_default_that_a_topic_could_set() -> None:
    assert BUILT_IN.keys() == TOPIC_CONFIGS.keys()
    assert plain_topic_config(BUILT_IN) == BUILT_IN


def test_setting_comes_from_the_topic_or_the_broker_or_nobody() -> None:
    described = handler()._describe(ConfigsToDescribe(TOPIC_RESOURCE, "orders"))
    found = {entry.key: (entry.value, entry.source) for entry in described.entries}
    assert found["segment.ms"] == ("7", ConfigSource.TOPIC)
    assert found["written.by.others"] == ("nonsense", ConfigSource.TOPIC)
    assert found["retention.ms"] == ("5", ConfigSource.BROKER)
    assert found["min.insync.replicas"] == ("2", ConfigSource.BROKER)
    assert found["segment.bytes"] == (BUILT_IN["segment.bytes"], ConfigSource.DEFAULT)
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
    assert (found["num.partitions"].value, found["num.partitions"].source) == ("4", ConfigSource.BROKER)
    assert (found["auto.create.topics.enable"].value, found["auto.create.topics.enable"].source) == (
        "true",
        ConfigSource.DEFAULT,
    )
    assert (found["zookeeper.digest"].value, found["zookeeper.digest"].sensitive) == (None, True)
    assert all(entry.read_only for entry in described.entries)
    assert asked._describe(ConfigsToDescribe(BROKER_RESOURCE, "7", ["broker.id"])).entries == (found["broker.id"],)
    assert asked._describe(ConfigsToDescribe(BROKER_RESOURCE, "")).entries == ()
