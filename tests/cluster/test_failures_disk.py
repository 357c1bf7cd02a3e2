"""A disk that fails under one broker: another one leads, and no user notices."""

import resource

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from tests.support.cluster import wait_until
from tests.support.machine import scaled

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

WAIT_S = scaled(60.0)


def fail_disk_of(cluster: LocalCluster, broker: int) -> None:
    """From now on every write of this broker fails, as on a disk that is full."""
    _, hard = resource.prlimit(cluster.pid(broker), resource.RLIMIT_FSIZE)
    resource.prlimit(cluster.pid(broker), resource.RLIMIT_FSIZE, (1, hard))


def test_a21_disk_of_a_leader_fails_and_another_leads_at_once() -> None:
    with (
        LocalCluster(brokers=3) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=int(WAIT_S * 1000)) as producer,
    ):
        admin.create_topic("t", 3, replication_factor=3, config={"min.insync.replicas": "2"})
        for partition in range(3):
            producer.send("t", b"before", partition=partition).result(WAIT_S)
        leader = admin.describe_topic("t").partitions[0].leader
        fail_disk_of(cluster, leader)
        sent = [producer.send("t", b"%d" % number, partition=number % 3) for number in range(300)]
        for delivery in sent:
            delivery.result(WAIT_S)  # raises if the user were to notice
        after = admin.describe_topic("t").partitions
        assert all(partition.leader != leader for partition in after if partition.partition == 0)
        assert leader not in after[0].isr

        cluster.kill(leader)
        cluster.start(leader)
        wait_until(lambda: all(len(p.isr) == 3 for p in admin.describe_topic("t").partitions), WAIT_S)
        with Consumer("t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            read: list[bytes] = []
            while len(read) < 303:
                read += [record.value for record in consumer.poll(timeout=WAIT_S, max_records=1000)]
            read += [record.value for record in consumer.poll(timeout=0.2, max_records=1000)]
    assert sorted(read) == sorted([b"before"] * 3 + [b"%d" % number for number in range(300)])


def test_disk_fails_where_nobody_else_can_lead_and_the_records_can_still_be_read() -> None:
    with (
        LocalCluster(brokers=2) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, delivery_timeout_ms=3000, request_timeout_ms=1000) as producer,
    ):
        admin.create_topic("alone", 1, replication_factor=1)
        producer.send("alone", b"before").result(WAIT_S)
        leader = admin.describe_topic("alone").partitions[0].leader
        fail_disk_of(cluster, leader)
        assert producer.send("alone", b"lost").exception(WAIT_S) is not None
        with Consumer("alone", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(timeout=WAIT_S, max_records=10)] == [b"before"]
        assert admin.describe_topic("alone").partitions[0].leader == leader
        cluster.kill(leader)
        cluster.start(leader)
        assert producer.send("alone", b"after").result(WAIT_S).offset == 1
