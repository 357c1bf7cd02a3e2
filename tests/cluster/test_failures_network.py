"""Links that break between healthy processes, while idempotent producers write."""

import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from ottla.chaos.history import Outcome, Send
from ottla.chaos.links import LinkedCluster, running_linked_cluster
from ottla.chaos.proxy import from_broker, from_clients
from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.errors import NotEnoughReplicas, NotLeaderOrFollower, OttlaError
from ottla.wire.messages import ACKS_ALL, ACKS_LEADER
from tests.support.cluster import complete, wait_until
from tests.support.machine import scaled
from tests.support.raw_client import RawClient, one_record
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
    replica_bytes,
)
from tests.support.znodes import broker_epoch, partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

RESETS = 10
FENCES_MAX = 3
"""A broker that cannot be reached is fenced so often, and then left to its session."""


@pytest.fixture(scope="module")
def net() -> Iterator[LinkedCluster]:
    with running_linked_cluster(3, HASTY) as running:
        yield running


@pytest.fixture(autouse=True)
def all_links_stand(net: LinkedCluster) -> Iterator[None]:
    complete(net.cluster)
    yield
    net.heal()


@pytest.fixture
def cluster(net: LinkedCluster) -> LocalCluster:
    return net.cluster


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2000) as running:
        yield running


def produce_error(load: Workload, broker: int, acks: int) -> type[OttlaError] | None:
    """What a broker says to a record of somebody who comes to it directly; an ack of all goes into the history."""
    host, _, port = load.cluster.address(broker).partition(":")
    send = Send(f"direct{uuid.uuid4().hex[:6]}", 0, time.monotonic())
    load.sends.append(send)
    with RawClient((host, int(port))) as client:
        try:
            result = client.produce(load.topic, one_record(send.value), acks=acks, timeout_ms=1000)
            result.raise_if_failed()
        except OttlaError as error:
            return type(error)
    if acks == ACKS_ALL:
        send.acknowledged(0, result.base_offset, time.monotonic())
    return None


def fences(cluster: LocalCluster, broker: int) -> int:
    return cluster.log_path(broker).read_text(errors="replace").count("broker was fenced")


def others(cluster: LocalCluster, broker: int) -> list[int]:
    return [other for other in cluster.brokers if other != broker]


# --- without zookeeper ---------------------------------------------------------------------------------------------------


def test_a5_leader_cut_from_zookeeper_is_replaced_takes_no_acks_1_and_loses_nothing(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(cluster)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        cut = leader_of(admin, topic)
        pid = cluster.pid(cut)
        net.zookeeper_of[cut][0].cut()
        wait_until(lambda: partition_state(cluster, topic).state.leader != cut, WAIT_S)
        wait_until(lambda: produce_error(load, cut, ACKS_LEADER) is NotLeaderOrFollower, WAIT_S)
        # Until its followers have heard of the next leader it may still acknowledge, and then the next leader has it.
        wait_until(lambda: produce_error(load, cut, ACKS_ALL) is not None, WAIT_S)
        load.wait_for_acks(300)
        net.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        assert cluster.pid(cut) == pid
        load.wait_for_acks(300)
    load.check()


def test_a13_sessions_that_expire_come_back_and_the_isr_can_change_again_without_a_restart(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(cluster)
    pids = [cluster.pid(broker) for broker in cluster.brokers]
    lives = [_expired(cluster, broker) for broker in cluster.brokers]
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        for [proxy] in net.zookeeper_of:
            proxy.cut()
        wait_until(lambda: all(_expired(cluster, broker) > lives[broker] for broker in cluster.brokers), WAIT_S)
        load.wait_for_acks(100)  # nobody could be replaced, so all go on
        net.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        assert [cluster.pid(broker) for broker in cluster.brokers] == pids
        bounced = others(cluster, leader_of(admin, topic))[0]
        cluster.kill(bounced)
        wait_until(lambda: all(bounced not in isr for isr in in_sync(admin, topic)), WAIT_S)
        load.wait_for_acks(300)
        cluster.start(bounced)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
    load.check()


def _expired(cluster: LocalCluster, broker: int) -> int:
    return cluster.log_path(broker).read_text(errors="replace").count("session changed state=EXPIRED")


def isr_write_lost_its_answer(net: LinkedCluster, cluster: LocalCluster, admin: Admin, topic: str) -> bool:
    """Let a follower come back while the leader hears nothing of ZooKeeper; whether an ISR write was unsettled then."""
    leader = leader_of(admin, topic)
    follower = next(broker for broker in others(cluster, leader) if broker != controller_of(admin))
    log = cluster.log_path(leader)
    epoch = broker_epoch(cluster, follower)
    cluster.kill(follower)
    wait_until(lambda: follower not in in_sync(admin, topic)[0], WAIT_S)
    net.to[leader].silence(from_broker(follower))
    starting = threading.Thread(target=cluster.start, args=(follower,))
    starting.start()  # it is ready when it has caught up, which it cannot yet
    wait_until(lambda: broker_epoch(cluster, follower) > epoch, WAIT_S)
    before = log.read_text().count("isr change unsettled")
    net.zookeeper_of[leader][0].silence(answers_only=True)
    net.to[leader].heal()  # now the follower catches up, and is written into the ISR
    deadline = time.monotonic() + WAIT_S
    while (lost := log.read_text().count("isr change unsettled") > before) is False and time.monotonic() < deadline:
        if leader_of(admin, topic) != leader:
            break
        time.sleep(0.02)
    net.zookeeper_of[leader][0].heal()
    starting.join()
    wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
    return lost


def test_a12_isr_write_whose_answer_is_lost_is_settled_by_reading(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    """The leader's session may end before the follower has caught up, on a busy machine: then the next one is tried."""
    controller = controller_of(admin)
    topic = make_topic(cluster, assignment=[[*others(cluster, controller), controller]])
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        for _ in range(3):
            if isr_write_lost_its_answer(net, cluster, admin, topic):
                break
        else:
            pytest.fail("no ISR write lost its answer")
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        load.wait_for_acks(300)
    load.check()


# --- between brokers -----------------------------------------------------------------------------------------------------


def test_a6_leader_cut_from_its_followers_takes_nothing_and_dies_without_losing_anything(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    """The leader is the controller too, and answers probes, so that nobody replaces it (see test_network_cuts.py, too)."""
    leader = controller_of(admin)
    followers = others(cluster, leader)
    topic = make_topic(cluster, assignment=[[leader, *followers]])
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        net.to[leader].cut(
            lambda greeting: b"probe" not in greeting and any(from_broker(broker)(greeting) for broker in followers)
        )
        wait_until(lambda: partition_state(cluster, topic).state.isr == (leader,), WAIT_S)
        assert set(partition_state(cluster, topic).state.elr) == set(followers)
        assert produce_error(load, leader, ACKS_ALL) is NotEnoughReplicas
        cluster.kill(leader)
        wait_until(lambda: partition_state(cluster, topic).state.leader in followers, WAIT_S)
        net.heal()
        load.wait_for_acks(300)
        cluster.start(leader)
    load.check()


def test_a23_healthy_broker_that_nobody_reaches_is_fenced_a_few_times_and_comes_back(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(cluster)
    controller = controller_of(admin)
    lonely = others(cluster, controller)[0]
    pid, before = cluster.pid(lonely), fences(cluster, lonely)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        net.to[lonely].cut()
        wait_until(lambda: fences(cluster, lonely) > before, WAIT_S)
        until = time.monotonic() + 2 * SESSION_S
        while time.monotonic() < until:
            load.wait_for_acks(100)
        net.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        assert 1 <= fences(cluster, lonely) - before <= FENCES_MAX
        assert cluster.pid(lonely) == pid
        load.wait_for_acks(300)
    load.check()


def test_a23_broker_that_only_the_controller_has_lost_is_not_fenced(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(cluster)
    controller = controller_of(admin)
    broker = others(cluster, controller)[0]
    before = fences(cluster, broker)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        net.to[broker].cut(from_broker(controller))
        until = time.monotonic() + SESSION_S
        while time.monotonic() < until:
            load.wait_for_acks(100)
        net.heal()
        load.wait_for_acks(300)
        assert fences(cluster, broker) == before
    load.check()


# --- between producers and brokers ---------------------------------------------------------------------------------------


def lose_acks(net: LinkedCluster, load: Workload, leader: int) -> None:
    """Records are stored, and every connection ends before their acks have arrived."""

    def stored_without_ack() -> bool:
        log = replica_bytes(net.cluster, leader, load.topic, 0)
        return any(send.outcome is Outcome.UNKNOWN and send.value in log for send in load.sends[-1000:])

    net.to[leader].silence(from_clients, answers_only=True)
    try:
        wait_until(stored_without_ack, scaled(20))
    finally:
        net.to[leader].reset(from_clients)
        net.to[leader].heal()


def test_a18_idempotent_producers_whose_acks_are_lost_store_nothing_twice(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(cluster, partitions=1)
    with Workload(cluster, topic) as load:
        for _ in range(RESETS):
            load.wait_for_acks(200)
            lose_acks(net, load, leader_of(admin, topic))
        load.wait_for_acks(200)
        leader = leader_of(admin, topic)
        net.to[leader].silence(from_clients, answers_only=True)
        cluster.kill(leader)
        net.heal()
        load.wait_for_acks(200)
    load.check()


def test_a18_the_same_without_idempotence_stores_records_twice(
    net: LinkedCluster, cluster: LocalCluster, admin: Admin
) -> None:
    """The proof that the test above can fail."""
    topic = make_topic(cluster, partitions=1)
    with Workload(cluster, topic, enable_idempotence=False) as load:
        for _ in range(3):
            load.wait_for_acks(200)
            lose_acks(net, load, leader_of(admin, topic))
        load.wait_for_acks(200)
    kinds = {violation.kind for violation in load.violations()}
    assert "duplicate" in kinds
    assert "lost" not in kinds
