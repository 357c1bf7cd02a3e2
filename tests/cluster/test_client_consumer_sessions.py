"""Consumers of many partitions of a live cluster: what they want is kept by the brokers, and what changes is heard at once."""

import time

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.local import LocalCluster
from tests.support.client_topics import WAIT_S, take
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 3}
PARTITIONS = 60
FOR_EVER_MS = 60_000
"""How long a fetch waits at a broker: longer than any of these tests may take."""

AT_ONCE_S = scaled(5.0)


@pytest.fixture
def topic(cluster: LocalCluster, name: str) -> str:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "1"})
    return name


def reading(cluster: LocalCluster, topic: str, **options: int) -> Consumer:
    return Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FOR_EVER_MS,
        **options,  # type: ignore[arg-type]
    )


def write_everywhere(cluster: LocalCluster, topic: str, count: int = 1) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for partition in range(PARTITIONS):
            producer.send_many(topic, [b"x"] * count, partition=partition)
        producer.flush(WAIT_S)


def test_every_partition_is_read_in_order_by_small_answers(cluster: LocalCluster, topic: str) -> None:
    """Each answer has room for a few of the partitions only: all get their turn."""
    with reading(cluster, topic, fetch_max_bytes=200) as consumer:
        for round_number in range(3):
            write_everywhere(cluster, topic, 5)
            found = take(consumer, 5 * PARTITIONS)
            for partition in range(PARTITIONS):
                offsets = [record.offset for record in found if record.partition == partition]
                assert offsets == list(range(5 * round_number, 5 * round_number + 5))


def test_seek_pause_and_resume_do_not_wait_for_a_fetch_that_waits(cluster: LocalCluster, topic: str) -> None:
    write_everywhere(cluster, topic)
    with reading(cluster, topic) as consumer:
        take(consumer, PARTITIONS)
        assert consumer.poll(timeout=0.2) == []  # all fetches wait
        began = time.monotonic()
        consumer.seek(topic, 7, 0)
        assert [(r.partition, r.offset) for r in take(consumer, 1)] == [(7, 0)]
        consumer.pause(TopicPartition(topic, 8))
        write_everywhere(cluster, topic)
        assert 8 not in {record.partition for record in take(consumer, PARTITIONS - 1)}
        consumer.resume(TopicPartition(topic, 8))
        assert [(r.partition, r.offset) for r in take(consumer, 1)] == [(8, 1)]
        assert time.monotonic() - began < AT_ONCE_S


def test_partitions_that_get_another_leader_are_read_on_at_once(cluster: LocalCluster, topic: str) -> None:
    write_everywhere(cluster, topic)
    with reading(cluster, topic, session_timeout_ms=6000) as consumer:
        take(consumer, PARTITIONS)
        cluster.kill(1)
        write_everywhere(cluster, topic)
        found = take(consumer, PARTITIONS)
        assert sorted(record.partition for record in found) == list(range(PARTITIONS))
        assert {record.offset for record in found} == {1}
        cluster.start(1)
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.elect_leaders()
        write_everywhere(cluster, topic)
        assert {record.offset for record in take(consumer, PARTITIONS)} == {2}


def test_fetch_that_wants_much_is_answered_when_the_partitions_together_have_it(
    cluster: LocalCluster, topic: str
) -> None:
    with (
        reading(cluster, topic, fetch_min_bytes=50_000) as consumer,
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        consumer.position(topic, 0, timeout=WAIT_S)
        assert consumer.poll(timeout=0.3) == []
        for partition in range(PARTITIONS):
            producer.send(topic, b"x" * 5000, partition=partition).result(WAIT_S)
        assert consumer.poll(timeout=AT_ONCE_S)
