"""Admin requests with a timeout of 0: everything is done, and nobody waits for what the other brokers make of it."""

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.local import LocalCluster
from tests.compat.conftest import MakeTopic
from tests.support.cluster import wait_until
from tests.support.kafka_clients import WAIT_S, Confluent, Sent
from tests.support.raw_kafka import RawKafka

DESCRIBE_CLUSTER, DELETE_RECORDS, ELECT_LEADERS = 60, 21, 43
TOPICS = 40


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def _partitions(admin: AdminClient, prefix: str) -> dict[str, int]:
    topics = admin.list_topics(timeout=WAIT_S).topics
    return {topic: len(found.partitions) for topic, found in topics.items() if topic.startswith(prefix)}


def _wait(futures: dict[str, Any]) -> None:
    for future in futures.values():
        future.result(WAIT_S)


def test_all_topics_are_created_grown_and_deleted(admin: AdminClient, name: str) -> None:
    names = [f"{name}-{number}" for number in range(TOPICS)]
    _wait(admin.create_topics([NewTopic(one, 1, 1) for one in names], operation_timeout=0))
    wait_until(lambda: _partitions(admin, name) == dict.fromkeys(names, 1), WAIT_S)
    _wait(admin.create_partitions([NewPartitions(one, 2) for one in names], operation_timeout=0))
    wait_until(lambda: _partitions(admin, name) == dict.fromkeys(names, 2), WAIT_S)
    _wait(admin.delete_topics(names, operation_timeout=0))
    wait_until(lambda: _partitions(admin, name) == {}, WAIT_S)


def test_what_cannot_be_done_is_an_error_all_the_same(admin: AdminClient, make_topic: MakeTopic) -> None:
    (future,) = admin.create_topics([NewTopic(make_topic(), 1, 1)], operation_timeout=0).values()
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        future.result(WAIT_S)


def test_all_elections_are_held(kafka_cluster: LocalCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(100)
    with RawKafka(kafka_cluster.bootstrap.split(",")[0]) as raw:
        asked = {"include_cluster_authorized_operations": False}
        controller = raw.ask(DESCRIBE_CLUSTER, 0, asked)["controller_id"]
    with RawKafka(kafka_cluster.bootstrap.split(",")[controller]) as raw:
        parts = [{"topic": topic, "partitions": list(range(100))}]
        answer = raw.ask(ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": parts, "timeout": 0})
    assert answer["error_code"] == 0
    (told,) = answer["replica_election_results"]
    assert {one["error_code"] for one in told["partition_result"]} == {84}, "preferred leaders lead already"


def test_records_are_deleted(bootstrap: str, admin: AdminClient, name: str) -> None:
    _wait(admin.create_topics([NewTopic(name, 1, 1)]))
    Confluent().write(bootstrap, name, [Sent(str(i).encode()) for i in range(10)])
    gone = admin.delete_records([TopicPartition(name, 0, 4)], operation_timeout=0)
    (future,) = gone.values()
    assert future.result(WAIT_S).low_watermark == 4
