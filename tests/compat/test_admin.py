"""Kafka's admin clients: topics, settings, groups, offsets, records, and what brokers have on disk."""

import asyncio
from typing import Any

import aiokafka.admin
import confluent_kafka
import kafka.admin
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from ottla.local import LocalCluster
from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import WAIT_S, Confluent, Sent


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def _result(futures: Any) -> Any:
    """Of the one thing that was asked for."""
    (future,) = futures.values() if isinstance(futures, dict) else [futures]
    return future.result(WAIT_S)


def _describe(admin: AdminClient, name: str) -> Any:
    return _result(admin.describe_topics(TopicCollection([name]), request_timeout=WAIT_S))


def _value(admin: AdminClient, kind: ResourceType, name: str, key: str) -> Any:
    return _result(admin.describe_configs([ConfigResource(kind, name)], request_timeout=WAIT_S))[key]


def test_confluent_creates_grows_and_deletes_topics(admin: AdminClient, name: str) -> None:
    _result(admin.create_topics([NewTopic(name, 2, 3, config={"retention.ms": "5000"})], request_timeout=WAIT_S))
    assert [len(one.replicas) for one in _describe(admin, name).partitions] == [3, 3]
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        _result(admin.create_topics([NewTopic(name, 2, 3)], request_timeout=WAIT_S))
    _result(admin.create_partitions([NewPartitions(name, 5)], request_timeout=WAIT_S))
    assert len(_describe(admin, name).partitions) == 5
    _result(admin.delete_topics([name], request_timeout=WAIT_S, operation_timeout=WAIT_S))
    with pytest.raises(confluent_kafka.KafkaException, match="UNKNOWN_TOPIC"):
        _describe(admin, name)


def test_what_is_left_to_the_cluster_is_the_clusters_default(admin: AdminClient, name: str) -> None:
    _result(admin.create_topics([NewTopic(name, -1, -1)], request_timeout=WAIT_S))
    assert [len(one.replicas) for one in _describe(admin, name).partitions] == [1]


def test_confluent_describes_and_alters_settings(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="7000")
    assert _value(admin, ResourceType.TOPIC, topic, "retention.ms").value == "7000"
    assert _value(admin, ResourceType.TOPIC, topic, "segment.bytes").is_default
    entry = ConfigEntry("retention.ms", "9000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    _result(admin.incremental_alter_configs([changed], request_timeout=WAIT_S))
    assert _value(admin, ResourceType.TOPIC, topic, "retention.ms").value == "9000"
    replaced = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "60000"})
    _result(admin.alter_configs([replaced], request_timeout=WAIT_S))
    assert _value(admin, ResourceType.TOPIC, topic, "retention.ms").is_default
    assert _value(admin, ResourceType.TOPIC, topic, "segment.ms").value == "60000"
    nonsense = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "soon"})
    with pytest.raises(confluent_kafka.KafkaException, match="INVALID_CONFIG"):
        _result(admin.alter_configs([nonsense], request_timeout=WAIT_S))


def test_confluent_reads_authorized_operations(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    options = {"include_authorized_operations": True, "request_timeout": WAIT_S}
    described = _result(admin.describe_topics(TopicCollection([topic]), **options))
    assert {one.name for one in described.authorized_operations} == {
        "READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
    }  # fmt: skip
    cluster = admin.describe_cluster(**options).result(WAIT_S)
    assert len(cluster.authorized_operations) == 7


KAFKA_ONLY = {
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "flush.messages": "10000",
    "min.cleanable.dirty.ratio": "0.3",
    "preallocate": "true",
    "segment.index.bytes": "1048576",
    "segment.jitter.ms": "1000",
}


def test_topic_keeps_settings_of_kafka_that_brokers_ignore(admin: AdminClient, name: str) -> None:
    _result(admin.create_topics([NewTopic(name, 1, 3, config=KAFKA_ONLY)], request_timeout=WAIT_S))
    described = _result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)], request_timeout=WAIT_S))
    assert {key: described[key].value for key in KAFKA_ONLY} == KAFKA_ONLY
    refused = NewTopic(f"{name}-zstd", 1, 3, config={"compression.type": "zstd"})
    with pytest.raises(confluent_kafka.KafkaException, match=r"set compression\.type of the producer"):
        _result(admin.create_topics([refused], request_timeout=WAIT_S))


def test_move_is_throttled_and_verified_as_kafkas_tool_does_it(
    kafka_cluster: LocalCluster, admin: AdminClient, make_topic: MakeTopic
) -> None:
    """kafka-reassign-partitions: --execute --throttle sets and appends; --verify deletes, also what was never set."""
    topic, replicas = make_topic(), "leader.replication.throttled.replicas"
    rates = ["leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"]

    def alter(operation: AlterConfigOpType, value: str | None) -> None:
        resources = [(ResourceType.TOPIC, topic, [replicas], value and "0:1")] + [
            (ResourceType.BROKER, str(broker), rates, value) for broker in range(3)
        ]
        changed = [
            ConfigResource(
                kind, name, incremental_configs=[ConfigEntry(key, to, incremental_operation=operation) for key in keys]
            )
            for kind, name, keys, to in resources
        ]
        for one in changed:  # librdkafka takes one broker a request
            _result(admin.incremental_alter_configs([one], request_timeout=WAIT_S))

    alter(AlterConfigOpType.DELETE, None)
    for _ in range(2):
        alter(AlterConfigOpType.SET, "1000000")
    assert _value(admin, ResourceType.TOPIC, topic, replicas).value == "0:1"
    assert _value(admin, ResourceType.BROKER, "2", rates[0]).value == "1000000"
    alter(AlterConfigOpType.DELETE, None)
    assert _value(admin, ResourceType.TOPIC, topic, replicas).value == ""
    assert _value(admin, ResourceType.BROKER, "2", rates[0]).is_default
    logs = "".join(kafka_cluster.log_path(broker).read_text() for broker in range(3))
    assert logs.count("replication throttles are stored but not enforced") == 1


def test_confluent_describes_a_brokers_settings(admin: AdminClient) -> None:
    found = _value(admin, ResourceType.BROKER, "1", "broker.id")
    assert (found.value, found.is_read_only) == ("1", True)
    assert _value(admin, ResourceType.BROKER, "1", "auto.create.topics.enable").value == "true"
    assert _value(admin, ResourceType.BROKER, "1", "zookeeper.digest").value is None


def test_confluent_looks_after_groups(bootstrap: str, admin: AdminClient, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(2)
    Confluent().write(bootstrap, topic, [Sent(b"one"), Sent(b"two")])
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest", "client.id": "looked at"}
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(2, WAIT_S)) == 2
    consumer.commit(asynchronous=False)
    described = _result(admin.describe_consumer_groups([name], request_timeout=WAIT_S))
    assert (described.state.name, [one.client_id for one in described.members]) == ("STABLE", ["looked at"])
    held = {one.partition for one in described.members[0].assignment.topic_partitions}
    assert held == {0, 1}
    listed = _result(admin.list_consumer_groups(request_timeout=WAIT_S))
    assert name in {one.group_id for one in listed.valid}
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        _result(admin.delete_consumer_groups([name], request_timeout=WAIT_S))
    consumer.close()
    assert _offsets(admin, name) == {(topic, 0): 2}
    wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 1, 0), TopicPartition(topic, 0, 1)])
    _result(admin.alter_consumer_group_offsets([wanted], request_timeout=WAIT_S))
    assert _offsets(admin, name) == {(topic, 0): 1, (topic, 1): 0}
    _result(admin.delete_consumer_groups([name], request_timeout=WAIT_S))
    listed = _result(admin.list_consumer_groups(request_timeout=WAIT_S))
    assert name not in {one.group_id for one in listed.valid}


def _offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    asked = [ConsumerGroupTopicPartitions(group)]
    found = _result(admin.list_consumer_group_offsets(asked, request_timeout=WAIT_S))
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions}


def test_confluent_deletes_records(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent().write(bootstrap, topic, [Sent(str(i).encode()) for i in range(10)])
    gone = _result(admin.delete_records([TopicPartition(topic, 0, 4)], request_timeout=WAIT_S))
    assert gone.low_watermark == 4
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (4, 10)
    consumer.close()


def test_confluent_describes_the_cluster_and_elects_leaders(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    cluster = _result(admin.describe_cluster(request_timeout=WAIT_S))
    assert sorted(one.id for one in cluster.nodes) == [0, 1, 2]
    assert cluster.controller.id in (0, 1, 2)
    elected = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(WAIT_S)
    assert [error.name() if error else None for error in elected.values()] == ["ELECTION_NOT_NEEDED"]


# --- the others --------------------------------------------------------------------------------------------------------------


def test_kafka_pythons_admin(bootstrap: str, name: str) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([kafka.admin.NewTopic(name, num_partitions=3, replication_factor=3)])
        assert name in admin.list_topics()
        (described,) = admin.describe_topics([name])
        assert len(described["partitions"]) == 3
        admin.create_partitions({name: kafka.admin.NewPartitions(4)})
        assert len(admin.describe_topics([name])[0]["partitions"]) == 4
        folders = admin.describe_log_dirs()
        assert folders, "what brokers have on disk"
        admin.delete_topics([name])
        assert name not in admin.list_topics()
    finally:
        admin.close()


def test_aiokafkas_admin(bootstrap: str, name: str) -> None:
    async def administer() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([aiokafka.admin.NewTopic(name, 2, 3)])
            assert name in await admin.list_topics()
            (described,) = await admin.describe_topics([name])
            assert len(described["partitions"]) == 2
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(asyncio.wait_for(administer(), WAIT_S))
