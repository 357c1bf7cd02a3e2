"""Receipts: what a producer is told of how safe a record was when it was acknowledged."""

import pytest

from ottla.client import Admin, Producer, Receipt
from ottla.local import LocalCluster
from tests.support.cluster import wait_until
from tests.support.machine import scaled

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

CLUSTER = {"brokers": 3}

WAIT_S = scaled(30.0)


def send(producer: Producer, topic: str) -> tuple[int, Receipt]:
    told = producer.send(topic, b"value").result(WAIT_S)
    assert told.receipt is not None
    return told.offset, told.receipt


def test_receipt_tells_leader_epoch_isr_and_high_watermark_at_the_ack(cluster: LocalCluster) -> None:
    with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all", receipts=True) as producer,
    ):
        admin.create_topic("receipts", 1, replication_factor=3, config={"min.insync.replicas": "2"})
        offset, receipt = send(producer, "receipts")
        partition = admin.describe_topic("receipts").partitions[0]
        assert receipt.leader == partition.leader
        assert receipt.leader_epoch == partition.leader_epoch
        assert set(receipt.isr) == {0, 1, 2}
        assert receipt.high_watermark > offset

        cluster.kill(partition.leader)
        later_offset, later = send(producer, "receipts")
        assert later.leader != receipt.leader
        assert later.leader_epoch > receipt.leader_epoch
        assert set(later.isr) == {0, 1, 2} - {receipt.leader}
        assert later.high_watermark > later_offset > offset
        cluster.start(partition.leader)
        wait_until(lambda: len(admin.describe_topic("receipts").partitions[0].isr) == 3)


def test_receipt_of_the_leader_alone_shows_that_nothing_else_vouches(cluster: LocalCluster) -> None:
    """acks=1 is answered before anybody has copied the record: the receipt says so by its high watermark."""
    with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks=1, receipts=True) as producer,
    ):
        admin.create_topic("alone", 1, replication_factor=3)
        leader = admin.describe_topic("alone").partitions[0].leader
        for follower in {0, 1, 2} - {leader}:
            cluster.pause(follower)
        try:
            offset, receipt = send(producer, "alone")
        finally:
            for follower in {0, 1, 2} - {leader}:
                cluster.resume(follower)
        assert receipt.leader == leader
        assert receipt.high_watermark <= offset


def test_without_the_option_there_is_none(cluster: LocalCluster) -> None:
    with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
    ):
        admin.create_topic("plain", 1, replication_factor=3)
        assert producer.send("plain", b"value").result(WAIT_S).receipt is None
        assert producer.send_many("plain", [b"a", b"b"]).result(WAIT_S)[1].receipt is None
