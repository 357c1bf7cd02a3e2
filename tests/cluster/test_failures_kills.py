"""Brokers killed with -9 while idempotent producers write: nothing acknowledged is lost, nothing is there twice."""

import os
import random
import time
import uuid
from contextlib import ExitStack

import pytest

from ottla.chaos.history import Send
from ottla.chaos.readers import read_everything
from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.raw_client import RawClient, one_record
from tests.support.workload import (
    HASTY,
    WAIT_S,
    Workload,
    all_in_sync,
    controller_of,
    in_sync,
    leader_of,
    make_topic,
)
from tests.support.znodes import broker_epoch, partition_state, read_znode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

KILLS = int(os.environ.get("OTTLA_KILLS", "5"))
CLUSTER = {"brokers": 3, "zookeepers": 3, "broker_config": HASTY}

ALONE_S = 0.1
"""How long followers stand still before their leader dies."""

FAILOVER_MAX_S = scaled(10.0)
"""Far more than a failover takes, even on a machine that is busy with other tests."""


def kill_ahead_of_followers(cluster: LocalCluster, victim: int) -> None:
    """Kill a broker that has taken records for a moment in which nobody could fetch them.

    Followers are so quick that without this even a leader that acknowledges too early is hardly ever caught.
    """
    others = [broker for broker in cluster.brokers if broker != victim]
    try:
        for broker in others:
            cluster.pause(broker)
        time.sleep(ALONE_S)
        cluster.kill(victim)
    finally:
        for broker in others:
            cluster.resume(broker)


def test_many_kills_of_leaders_and_controllers_lose_nothing_and_double_nothing(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    """OTTLA_KILLS=20 for the long way, OTTLA_SEED to see the same row of victims again."""
    seed = int(os.environ.get("OTTLA_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    with Workload(cluster, topic) as load:
        for _ in range(KILLS):
            load.wait_for_acks(500)
            victim = controller_of(admin) if chance.random() < 0.4 else leader_of(admin, topic, chance.randrange(3))
            if chance.random() < 0.5:
                cluster.kill(victim)
            else:
                kill_ahead_of_followers(cluster, victim)
            load.wait_for_acks(chance.choice((1, 200, 1000)))  # progress while it is dead
            cluster.start(victim)
            wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
    print(f"{load.acked} acknowledged of {len(load.sends)}")
    load.check()


def test_a1_killed_leader_is_replaced_out_of_the_isr_and_comes_back_as_follower(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    with Workload(cluster, topic) as load:
        for _ in range(3):
            load.wait_for_acks(300)
            before = partition_state(cluster, topic).state
            cluster.kill(before.leader)
            killed_at = time.monotonic()
            wait_until(lambda: leader_of(admin, topic) != before.leader, FAILOVER_MAX_S)  # noqa: B023
            load.wait_for_acks(1, FAILOVER_MAX_S)
            assert time.monotonic() - killed_at < FAILOVER_MAX_S
            after = partition_state(cluster, topic).state
            assert after.leader in before.isr
            assert after.leader_epoch > before.leader_epoch
            assert before.leader not in after.isr
            cluster.start(before.leader)
            wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
            assert leader_of(admin, topic) != before.leader, "who comes back follows first"
    load.check()


def test_a2_killed_controller_that_also_leads_is_replaced_in_both_offices(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    controller = controller_of(admin)
    led = [part.partition for part in admin.describe_topic(topic).partitions if part.leader == controller]
    assert led, "three partitions on three brokers: each leads one"
    epoch = int(read_znode(cluster, "/controller_epoch").data)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        cluster.kill(controller)
        wait_until(lambda: controller_of(admin) != controller, FAILOVER_MAX_S)
        for partition in range(3):
            assert leader_of(admin, topic, partition) in set(cluster.brokers)
        wait_until(lambda: all(leader_of(admin, topic, partition) != controller for partition in led), FAILOVER_MAX_S)
        load.wait_for_acks(300)
        assert int(read_znode(cluster, "/controller_epoch").data) > epoch
        cluster.start(controller)
        load.wait_for_acks(300)
    load.check()


def test_a9_double_failover_with_tails_that_nobody_else_has_ends_with_equal_replicas(
    cluster: LocalCluster, admin: Admin
) -> None:
    """From one leader to the next and on, and each dies with records of acks=1 that it alone has (KIP-279)."""
    topic = make_topic(cluster, partitions=1)
    sends: list[Send] = []
    tails: list[Send] = []
    for _ in range(3):
        with Workload(cluster, topic, producers=1) as load:
            load.wait_for_acks(200)
            wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        sends += load.sends
        leader = leader_of(admin, topic)
        tails.append(_die_with_a_tail(cluster, topic, leader, sends))
        wait_until(lambda: leader_of(admin, topic) != leader, FAILOVER_MAX_S)  # noqa: B023
        with Workload(cluster, topic, producers=1) as load:
            load.wait_for_acks(200)
        sends += load.sends
        cluster.start(leader)
    load.sends = sends
    load.check()
    values = {read.value for read in read_everything(cluster.bootstrap, topic)[0]}
    assert not values & {tail.value for tail in tails}, "no tail was ever cut, so this proved nothing"


def _die_with_a_tail(cluster: LocalCluster, topic: str, leader: int, sends: list[Send]) -> Send:
    """Kill a leader that has just taken records which no follower could fetch; gives the last of them.

    The first ones may have travelled as the answer to a fetch that waited already, so nobody knows what becomes of them.
    """
    others = [broker for broker in cluster.brokers if broker != leader]
    host, _, port = cluster.address(leader).partition(":")
    name = f"tail{uuid.uuid4().hex[:6]}"
    tail = [Send(name, number, time.monotonic()) for number in range(10)]
    try:
        for broker in others:
            cluster.pause(broker)
        with RawClient((host, int(port))) as client:
            for send in tail:
                client.produce(topic, one_record(send.value)).raise_if_failed()
        cluster.kill(leader)
    finally:
        for broker in others:
            cluster.resume(broker)
    sends += tail
    return tail[-1]


def test_a10_stale_high_watermark_on_disk_cuts_nothing(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    """A follower comes back with a high watermark of long ago, and the leader dies at once (KAFKA-1211)."""
    with Workload(cluster, topic) as load:
        load.wait_for_acks(1000)
        leader = leader_of(admin, topic)
        follower = next(broker for broker in cluster.brokers if broker != leader)
        cluster.kill(follower)
        (cluster.data_path(follower) / "replication-offset-checkpoint").unlink(missing_ok=True)
        load.wait_for_acks(300)
        cluster.start(follower)
        wait_until(lambda: follower in in_sync(admin, topic)[0], WAIT_S)
        cluster.kill(leader)
        load.wait_for_acks(300)
    load.check()


def test_a11_follower_that_has_not_caught_up_is_never_the_next_leader(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(cluster, partitions=1)
    with Workload(cluster, topic) as load:
        leader = leader_of(admin, topic)
        late, other = (broker for broker in cluster.brokers if broker != leader)
        cluster.kill(late)
        wait_until(lambda: late not in in_sync(admin, topic)[0], WAIT_S)
        load.wait_for_acks(3000)
        cluster.kill(leader)
        cluster.start(late)
        wait_until(lambda: leader_of(admin, topic) != leader, FAILOVER_MAX_S)
        assert leader_of(admin, topic) == other
        load.wait_for_acks(300)  # two are in sync again: the late one had to catch up for that
        assert late in partition_state(cluster, topic).state.isr
        cluster.start(leader)
    load.check()


def test_a14_bounce_within_the_session_is_a_death_and_a_birth(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        victim = leader_of(admin, topic)
        life, before = broker_epoch(cluster, victim), partition_state(cluster, topic).state
        cluster.kill(victim)
        began = time.monotonic()
        cluster.start(victim)
        assert time.monotonic() - began < FAILOVER_MAX_S, "it need not wait for its old session"
        assert broker_epoch(cluster, victim) > life
        wait_until(lambda: partition_state(cluster, topic).state.leader_epoch > before.leader_epoch, WAIT_S)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        load.wait_for_acks(300)
    load.check()


def test_a24_kill_of_all_brokers_at_once_loses_nothing(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    with Workload(cluster, topic) as load:
        load.wait_for_acks(1000)
        order = random.sample(cluster.brokers, 3)
        for broker in order:
            cluster.kill(broker)
        random.shuffle(order)
        print(f"started in the order {order}")
        for broker in order:
            cluster.start(broker)
        wait_until(lambda: all(leader_of(admin, topic, partition) >= 0 for partition in range(3)), WAIT_S)
        load.wait_for_acks(300)
    load.check()


def test_a24_readers_go_on_after_all_brokers_were_killed_and_came_back(cluster: LocalCluster, topic: str) -> None:
    """A broker that has just come back may not know of the leader of a partition yet: whoever asks it must ask again."""
    readers = [Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") for _ in range(6)]
    with ExitStack() as stack, Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for reader in readers:
            stack.enter_context(reader)

        def every_partition_is_read(value: bytes) -> None:
            for partition in range(3):
                producer.send(topic, value, partition=partition).result(WAIT_S)
            for reader in readers:
                left, deadline = {0, 1, 2}, time.monotonic() + WAIT_S
                while left:
                    assert time.monotonic() < deadline, f"a reader got nothing more of {left}"
                    left -= {record.partition for record in reader.poll(timeout=0.5) if record.value == value}

        every_partition_is_read(b"before")
        for broker in cluster.brokers:
            cluster.kill(broker)
        for broker in cluster.brokers:
            cluster.start(broker)
        every_partition_is_read(b"after")
