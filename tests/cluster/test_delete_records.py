"""Records that were deleted do not come back: not with another leader, not after a crash of all."""

import uuid

import pytest

from ottla.client import Admin, AsyncAdmin, Consumer, Producer, TopicPartition
from ottla.client.errors import OffsetOutOfRange, OttlaError, UnknownTopicOrPartition
from ottla.local import LocalCluster
from tests.support.cluster import ottla, wait_until
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    name = f"deleted-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=2, replication_factor=3, config={"min.insync.replicas": "2"})
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(100):
            producer.send(name, b"%d" % number, partition=0).result(timeout=scaled(10))
    return name


def values(cluster: LocalCluster, topic: str) -> list[bytes]:
    options = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(topic, consumer_timeout_ms=2000, **options) as consumer:  # type: ignore[arg-type]
        return [record.value for record in consumer]


def test_deleted_records_do_not_come_back_when_the_leader_is_killed(cluster: LocalCluster, topic: str) -> None:
    t0 = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        assert admin.delete_records({t0: 60}) == {t0: 60}
        leader = admin.describe_topic(topic).partitions[0].leader
        cluster.kill(leader)
        wait_until(lambda: admin.describe_topic(topic).partitions[0].leader not in (leader, -1))
        assert admin.earliest_offsets(topic)[t0] == 60
        assert values(cluster, topic) == [b"%d" % number for number in range(60, 100)]
        cluster.start(leader)
        wait_until(lambda: len(admin.describe_topic(topic).partitions[0].isr) == 3)
        admin.elect_leaders([(topic, 0)])
        assert admin.earliest_offsets(topic)[t0] == 60


def test_deleted_records_do_not_come_back_when_all_brokers_are_killed(cluster: LocalCluster, topic: str) -> None:
    t0 = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        assert admin.delete_records({t0: -1}) == {t0: 100}
        for broker in range(3):
            cluster.kill(broker)
        for broker in range(3):
            cluster.start(broker)

        def begins() -> int | None:
            try:
                return admin.earliest_offsets(topic, timeout=5)[t0]
            except OttlaError:
                return None

        wait_until(lambda: begins() is not None)
        assert begins() == 100
        assert values(cluster, topic) == []


def test_what_fails_is_told_and_the_others_are_done(cluster: LocalCluster, topic: str) -> None:
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        with pytest.raises(OffsetOutOfRange, match="0 to 0"):
            admin.delete_records({t0: 10, t1: 10})
        assert admin.earliest_offsets(topic) == {t0: 10, t1: 0}
        with pytest.raises(UnknownTopicOrPartition):
            admin.delete_records({TopicPartition("nowhere", 0): 1}, timeout=1)
        assert admin.delete_records({}) == {}


def test_a_consumer_that_stands_before_the_beginning_is_reset_by_its_policy(cluster: LocalCluster, topic: str) -> None:
    t0 = TopicPartition(topic, 0)
    options = {"bootstrap_servers": cluster.bootstrap}
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_records({t0: 50})
    with Consumer(auto_offset_reset="earliest", **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([t0])
        consumer.seek(t0, 3)
        assert consumer.poll(timeout=scaled(10))[0].offset == 50
    with Consumer(auto_offset_reset="none", **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([t0])
        consumer.seek(t0, 3)
        with pytest.raises(OffsetOutOfRange):
            consumer.poll(timeout=scaled(10))


async def test_the_async_admin_deletes_too(cluster: LocalCluster, topic: str) -> None:
    t0 = TopicPartition(topic, 0)
    async with AsyncAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        assert await admin.delete_records({t0: 7}) == {t0: 7}


def test_the_command_deletes_what_it_is_told_and_asks_first(cluster: LocalCluster, topic: str) -> None:
    unsure = ottla("topic", "delete-records", topic, bootstrap=cluster.bootstrap)
    assert unsure.returncode == 2
    done = ottla("topic", "delete-records", f"{topic}:0", "--before", "30", "-y", bootstrap=cluster.bootstrap)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, [f"{topic}\t0\t0\t30"])
    done = ottla("topic", "delete-records", topic, "-y", bootstrap=cluster.bootstrap)
    assert done.stdout.splitlines()[1:] == [f"{topic}\t0\t30\t100", f"{topic}\t1\t0\t0"]
    missing = ottla("topic", "delete-records", "nowhere", "-y", bootstrap=cluster.bootstrap)
    assert missing.returncode == 4
