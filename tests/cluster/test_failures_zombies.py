"""Brokers that sleep and wake, disks that forget, and a ZooKeeper that goes away, while idempotent producers write."""

import time
from collections.abc import Iterator

import pytest

from ottla.broker.storage.data_folder.shutdown_marker import BOOT_ID_FILE
from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.names import NO_LEADER
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.workload import (
    HASTY,
    SESSION_S,
    WAIT_S,
    Workload,
    all_in_sync,
    controller_of,
    in_sync,
    leader_of,
    make_topic,
)
from tests.support.znodes import partition_state, read_znode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ENSEMBLE_DOWN_S = 10.0
CLUSTER = {"brokers": 3, "zookeepers": 3, "broker_config": HASTY}

PAUSE_FAILOVER_MAX_S = SESSION_S + scaled(10.0)
"""The session must end first; the rest is patience with a busy machine."""


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2000) as running:
        yield running


def held_in_zookeeper(cluster: LocalCluster, topic: str, leader: int) -> bool:
    return any(partition_state(cluster, topic, partition).state.leader == leader for partition in range(3))


# --- sleepers ------------------------------------------------------------------------------------------------------------


def test_a3_leader_that_slept_through_its_replacement_steps_down_and_loses_nothing(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        sleeper, pid = leader_of(admin, topic), cluster.pid(leader_of(admin, topic))
        before = partition_state(cluster, topic).state
        cluster.pause(sleeper)
        try:
            wait_until(lambda: not held_in_zookeeper(cluster, topic, sleeper), PAUSE_FAILOVER_MAX_S)
            load.wait_for_acks(300)  # the others go on without it
        finally:
            cluster.resume(sleeper)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        assert cluster.pid(sleeper) == pid, "it came back without a restart"
        assert cluster.alive(sleeper)
        assert partition_state(cluster, topic).state.leader_epoch > before.leader_epoch
        load.wait_for_acks(300)
    load.check()


def test_a4_controller_that_slept_through_its_replacement_resigns(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    epoch = int(read_znode(cluster, "/controller_epoch").data)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        sleeper = controller_of(admin)
        cluster.pause(sleeper)
        try:
            wait_until(lambda: int(read_znode(cluster, "/controller_epoch").data) > epoch, PAUSE_FAILOVER_MAX_S)
            load.wait_for_acks(300)
        finally:
            cluster.resume(sleeper)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        wait_until(lambda: "controller term ended" in cluster.log_path(sleeper).read_text(), WAIT_S)
        assert controller_of(admin) != sleeper
        make_topic(cluster)  # the new one is obeyed by all three
        load.wait_for_acks(300)
    load.check()


# --- power cuts ----------------------------------------------------------------------------------------------------------


def lose_power(cluster: LocalCluster, broker: int, topic: str) -> int:
    """What a broker's machine looks like after a power cut: the ends of its logs are gone. How many bytes are."""
    lost = 0
    for folder in cluster.data_path(broker).glob(f"{topic}-*"):
        newest = max(folder.glob("*.log"))
        size = newest.stat().st_size
        with newest.open("r+b") as log:
            log.truncate(size // 2)
        lost += size - size // 2
    (cluster.data_path(broker) / BOOT_ID_FILE).write_text("the boot before the power cut\n")
    return lost


def test_a7_last_replica_standing_that_lost_its_tail_does_not_lead_before_one_that_has_it(
    cluster: LocalCluster, admin: Admin
) -> None:
    """ISR 3, 2, 1; the last one loses power; whoever has everything leads (KIP-966)."""
    topic = make_topic(cluster, partitions=1)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(1000)
        last = leader_of(admin, topic)
        first_gone, successor = (broker for broker in cluster.brokers if broker != last)
        cluster.kill(first_gone)
        wait_until(lambda: first_gone not in in_sync(admin, topic)[0], WAIT_S)
        load.wait_for_acks(300)
        cluster.kill(successor)
        wait_until(lambda: in_sync(admin, topic)[0] == [last], WAIT_S)
        assert successor in partition_state(cluster, topic).state.elr
        cluster.kill(last)
        assert lose_power(cluster, last, topic) > 0
        cluster.start(last)
        wait_until(lambda: last not in partition_state(cluster, topic).state.isr, WAIT_S)
        assert partition_state(cluster, topic).state.leader == NO_LEADER, "nobody knows what it has lost"
        cluster.start(successor)
        wait_until(lambda: leader_of(admin, topic) == successor, WAIT_S)
        cluster.start(first_gone)
        load.wait_for_acks(300)
    load.check()


def test_a8_follower_that_lost_its_tail_and_came_back_at_once_leaves_the_isr_first(
    cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(cluster, partitions=1)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(1000)
        leader = leader_of(admin, topic)
        follower = next(broker for broker in cluster.brokers if broker != leader)
        epoch = partition_state(cluster, topic).state.leader_epoch
        cluster.kill(follower)
        assert lose_power(cluster, follower, topic) > 0
        cluster.start(follower)
        assert partition_state(cluster, topic).state.leader_epoch > epoch, (
            "only the controller throws out with a new epoch"
        )
        cluster.kill(leader)
        wait_until(lambda: leader_of(admin, topic) != leader, WAIT_S)
        load.wait_for_acks(300)
        cluster.start(leader)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
    load.check()


# --- zookeeper -----------------------------------------------------------------------------------------------------------


def test_s90_a15_zookeeper_servers_that_die_in_turn_are_not_felt(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    servers = cluster.zookeeper_servers
    with Workload(cluster, topic) as load:
        for index in range(len(servers)):
            load.wait_for_acks(300)
            servers.kill(index)
            load.wait_for_acks(300)
            servers.start(index)
        make_topic(cluster)
        load.wait_for_acks(300)
    load.check()


def test_s91_a15_whole_ensemble_down_stops_neither_producers_nor_consumers_and_all_resumes_by_itself(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    servers = cluster.zookeeper_servers
    pids = [cluster.pid(broker) for broker in cluster.brokers]
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        for index in range(len(servers)):
            servers.kill(index)
        until = time.monotonic() + ENSEMBLE_DOWN_S
        while time.monotonic() < until:
            load.wait_for_acks(100, timeout_s=10)
        servers.start_all()
        load.wait_for_acks(300)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        make_topic(cluster)  # the controller works again
        victim = leader_of(admin, topic)
        assert [cluster.pid(broker) for broker in cluster.brokers] == pids
        cluster.kill(victim)  # and so does failover
        wait_until(lambda: leader_of(admin, topic) != victim, WAIT_S)
        load.wait_for_acks(300)
    load.check()
