"""Packets between brokers are dropped without a word, and every broker keeps its ZooKeeper session."""

import time
from collections.abc import Callable, Iterator

import pytest

from ottla.client import Admin
from tests.support.cluster import brokers_known_to, complete, wait_until
from tests.support.machine import scaled
from tests.support.network_namespaces import (
    NamespacedCluster,
    Network,
    running_namespaced_cluster,
    why_impossible,
)
from tests.support.workload import WAIT_S, Workload, all_in_sync, controller_of, leader_of, make_topic
from tests.support.znodes import broker_epoch, partition_state

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(300),
    pytest.mark.skipif(why_impossible() is not None, reason=why_impossible() or ""),
]

LAG_S = 3.0
PATIENT = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": f"{LAG_S * 1000:.0f}"}

Cut = tuple[NamespacedCluster, Network]


@pytest.fixture(scope="module")
def four() -> Iterator[Cut]:
    with running_namespaced_cluster(4, PATIENT) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(four: Cut) -> Iterator[None]:
    complete(four[0])
    yield
    four[1].heal()


@pytest.fixture
def admin(four: Cut) -> Iterator[Admin]:
    with Admin(bootstrap_servers=four[0].bootstrap, request_timeout_ms=2000) as running:
        yield running


def live_epochs(cluster: NamespacedCluster, brokers: list[int]) -> list[int]:
    return [broker_epoch(cluster, broker) for broker in brokers]


def others(cluster: NamespacedCluster, *brokers: int) -> list[int]:
    return [broker for broker in cluster.brokers if broker not in brokers]


def seconds_until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    wait_until(condition, WAIT_S)
    return time.monotonic() - began


def leader_in_zookeeper(cluster: NamespacedCluster, topic: str) -> int:
    return partition_state(cluster, topic).state.leader


def _cut_both_ways(network: Network, one: int, others: list[int]) -> None:
    network.cut(one, *others)


def _cut_what_it_sends(network: Network, one: int, others: list[int]) -> None:
    for other in others:
        network.cut_one_way(one, other)


def _cut_what_it_gets(network: Network, one: int, others: list[int]) -> None:
    for other in others:
        network.cut_one_way(other, one)


@pytest.mark.parametrize(
    "cut",
    [
        _cut_both_ways,
        pytest.param(_cut_what_it_sends, marks=pytest.mark.deep),
        pytest.param(_cut_what_it_gets, marks=pytest.mark.deep),
    ],
    ids=["both ways", "what it sends", "what it gets"],
)
def test_leader_that_no_broker_reaches_is_replaced_within_the_lag_time(
    four: Cut, admin: Admin, cut: Callable[[Network, int, list[int]], None]
) -> None:
    cluster, network = four
    controller = controller_of(admin)
    leader, *followers = others(cluster, controller)
    epoch = broker_epoch(cluster, leader)
    topic = make_topic(cluster, assignment=[[leader, *followers]])
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        cut(network, leader, others(cluster, leader))
        assert seconds_until(lambda: leader_in_zookeeper(cluster, topic) in followers) < scaled(LAG_S)
        load.wait_for_acks(300)
        state = partition_state(cluster, topic).state
        until = time.monotonic() + LAG_S
        while time.monotonic() < until:
            load.wait_for_acks(50)
        # It was fenced once and has registered again; it is neither fenced again nor taken for live.
        assert partition_state(cluster, topic).state == state
        assert broker_epoch(cluster, leader) == epoch + 2
        assert brokers_known_to(cluster, controller) == others(cluster, leader)
        network.heal()
        assert seconds_until(lambda: brokers_known_to(cluster, controller) == cluster.brokers) < scaled(2)
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        load.wait_for_acks(300)
    load.check()


def test_controller_that_no_broker_reaches_is_replaced_and_fences_nobody(four: Cut, admin: Admin) -> None:
    cluster, network = four
    controller = controller_of(admin)
    rest = others(cluster, controller)
    topic = make_topic(cluster, assignment=[[controller, *rest[1:]]])
    epochs = live_epochs(cluster, rest)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        network.cut(controller, *rest)
        assert seconds_until(lambda: leader_in_zookeeper(cluster, topic) in rest) < scaled(LAG_S)
        load.wait_for_acks(300)
        network.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        assert controller_of(admin) in rest
        assert live_epochs(cluster, rest) == epochs
        load.wait_for_acks(300)
    load.check()


def test_leader_that_only_its_followers_do_not_reach_hands_over_and_is_not_fenced(four: Cut, admin: Admin) -> None:
    cluster, network = four
    leader, *followers = others(cluster, controller_of(admin))
    topic = make_topic(cluster, assignment=[[leader, *followers]])
    epochs = live_epochs(cluster, cluster.brokers)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        network.cut(leader, *followers)
        assert seconds_until(lambda: leader_in_zookeeper(cluster, topic) in followers) < scaled(LAG_S)
        load.wait_for_acks(300)
        assert leader not in partition_state(cluster, topic).state.isr
        network.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        assert live_epochs(cluster, cluster.brokers) == epochs
        load.wait_for_acks(300)
    load.check()


def test_a_short_cut_moves_nothing_and_is_over_at_once(four: Cut, admin: Admin) -> None:
    cluster, network = four
    leader, *followers = others(cluster, controller_of(admin))
    topic = make_topic(cluster, assignment=[[leader, *followers]])
    epochs = live_epochs(cluster, cluster.brokers)
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        state = partition_state(cluster, topic).state
        network.cut(leader, *others(cluster, leader))
        time.sleep(LAG_S / 8)  # the length of the fault, not a hope
        network.heal()
        acked = load.acked
        assert seconds_until(lambda: load.acked > acked + 300) < scaled(3)
        assert partition_state(cluster, topic).state == state
        assert live_epochs(cluster, cluster.brokers) == epochs
    load.check()


@pytest.mark.deep
def test_of_two_brokers_that_do_not_reach_each_other_the_controller_goes_on() -> None:
    with (
        running_namespaced_cluster(2, PATIENT) as (cluster, network),
        Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2000) as admin,
    ):
        controller = controller_of(admin)
        [other] = others(cluster, controller)
        admin.create_topic("pair", -1, -1, assignment=[[other, controller]], timeout=WAIT_S)
        wait_until(lambda: leader_of(admin, "pair") == other, WAIT_S)
        network.cut(controller, other)
        wait_until(lambda: partition_state(cluster, "pair").state.leader == controller, scaled(LAG_S))
        state, epoch = partition_state(cluster, "pair").state, broker_epoch(cluster, other)
        assert state.isr == (controller,)
        time.sleep(2 * LAG_S)  # the length of the fault, not a hope
        assert partition_state(cluster, "pair").state == state
        assert broker_epoch(cluster, other) in (epoch, epoch + 1)
        assert controller_of(admin) == controller
        network.heal()
        wait_until(lambda: all_in_sync(admin, "pair", 2), WAIT_S)
