"""Records that were deleted while replicas were away do not come back with them."""

import uuid

import pytest

from ottla.client import Admin, Producer, TopicPartition
from ottla.client.errors import OttlaError
from ottla.local import LocalCluster
from ottla.wire.log_layout import LOG_START_OFFSETS
from ottla.wire.requests import PartitionMetadata
from tests.support.cluster import wait_until

pytestmark = pytest.mark.cluster

CLUSTER = {
    "brokers": 3,
    "broker_config": {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": "3000"},
}


def topic_of_two(cluster: LocalCluster, min_insync: int) -> TopicPartition:
    where = TopicPartition(f"away-{uuid.uuid4().hex[:8]}", 0)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        config = {"min.insync.replicas": str(min_insync)}
        admin.create_topic(where.topic, partitions=1, replication_factor=2, config=config)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(50):
            producer.send(where.topic, b"%d" % number)
    return where


def partition(admin: Admin, where: TopicPartition) -> PartitionMetadata:
    return admin.describe_topic(where.topic).partitions[0]


def begins(admin: Admin, where: TopicPartition) -> int | None:
    try:
        return admin.earliest_offsets(where.topic, timeout=5)[where]
    except OttlaError:
        return None


def test_a_deletion_is_not_answered_while_an_eligible_replica_has_not_heard_of_it(cluster: LocalCluster) -> None:
    where = topic_of_two(cluster, min_insync=2)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        leader = partition(admin, where).leader
        follower = next(broker for broker in partition(admin, where).replicas if broker != leader)
        cluster.pause(follower)
        try:
            wait_until(lambda: partition(admin, where).isr == [leader])
            with pytest.raises(OttlaError, match=rf"waited for broker {follower} \(not in sync, but it may be elected"):
                admin.delete_records({where: 50}, timeout=3)
        finally:
            cluster.resume(follower)
        assert admin.delete_records({where: 50}) == {where: 50}
        cluster.kill(leader)
        wait_until(lambda: partition(admin, where).leader == follower)
        wait_until(lambda: begins(admin, where) is not None)
        assert begins(admin, where) == 50


def test_a_follower_that_was_away_joins_the_isr_only_when_its_disk_knows_what_was_deleted(
    cluster: LocalCluster,
) -> None:
    where = topic_of_two(cluster, min_insync=1)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        leader = partition(admin, where).leader
        follower = next(broker for broker in partition(admin, where).replicas if broker != leader)
        cluster.kill(follower)
        wait_until(lambda: partition(admin, where).isr == [leader])
        assert admin.delete_records({where: 50}) == {where: 50}
        in_the_way = cluster.data_path(follower) / f"{LOG_START_OFFSETS}.tmp"  # so that it can note nothing
        in_the_way.mkdir()
        log = cluster.log_path(follower)
        cluster.start(follower)
        # It has fetched, or it would not have heard of it; and again, a second later.
        wait_until(lambda: log.read_text().count("log starts were not noted") >= 2)
        assert partition(admin, where).isr == [leader]
        in_the_way.rmdir()
        wait_until(lambda: sorted(partition(admin, where).isr) == sorted([leader, follower]))
        cluster.kill(leader)
        wait_until(lambda: partition(admin, where).leader == follower)
        wait_until(lambda: begins(admin, where) is not None)
        assert begins(admin, where) == 50
