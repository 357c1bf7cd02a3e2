"""More than half of the brokers look dead at once: it may be so, or the controller itself is cut off."""

import itertools
import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from ottla.chaos.links import LinkedCluster, running_linked_cluster
from ottla.chaos.proxy import from_broker
from ottla.client import Admin, Producer
from ottla.local import LocalCluster, LocalClusterError
from tests.support.cluster import brokers_known_to, complete, wait_until
from tests.support.machine import scaled
from tests.support.workload import WAIT_S, Workload, all_in_sync, controller_of, make_topic

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SESSION_S = 10.0
"""So long that no test here can wait for it: whoever is replaced sooner was fenced."""
CONFIG = {"zookeeper.session.timeout.ms": f"{SESSION_S * 1000:.0f}", "replica.lag.time.max.ms": "12000"}
PACE_S = 0.5
FENCES_MAX = 3


@pytest.fixture(scope="module")
def net() -> Iterator[LinkedCluster]:
    with running_linked_cluster(3, CONFIG) as running:
        yield running


@pytest.fixture
def admin(net: LinkedCluster) -> Iterator[Admin]:
    complete(net.cluster)
    with Admin(bootstrap_servers=net.cluster.bootstrap, request_timeout_ms=2000) as running:
        yield running
    net.heal()


def fences(cluster: LocalCluster, controller: int) -> list[tuple[float, int]]:
    """When the controller fenced whom, by its log."""
    log = cluster.log_path(controller).read_text(errors="replace")
    found = re.findall(r"^(\S+ \S+) .*broker fenced broker=(\d+)", log, re.MULTILINE)
    return [(datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").timestamp(), int(broker)) for at, broker in found]


def other_brokers(cluster: LocalCluster, controller: int) -> list[int]:
    return [broker for broker in cluster.brokers if broker != controller]


def test_controller_that_is_cut_off_from_all_others_fences_nobody(net: LinkedCluster, admin: Admin) -> None:
    cluster = net.cluster
    topic = make_topic(cluster)
    controller = controller_of(admin)
    log = cluster.log_path(controller)
    before, suspected = fences(cluster, controller), log.read_text().count("a broker is suspect")
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        for broker in other_brokers(cluster, controller):
            net.to[broker].cut(from_broker(controller))
        # Many times over it has found that it reaches nobody.
        wait_until(lambda: log.read_text().count("a broker is suspect") > suspected + 20, WAIT_S)
        assert fences(cluster, controller) == before
        net.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        load.wait_for_acks(300)
        assert controller_of(admin) == controller
    load.check()


def test_all_others_refuse_and_live_they_are_fenced_one_by_one_and_not_for_ever(
    net: LinkedCluster, admin: Admin
) -> None:
    """What stands in front of the others has died, so every knock is refused; the brokers register anew every time."""
    cluster = net.cluster
    topic = make_topic(cluster)
    controller = controller_of(admin)
    before = len(fences(cluster, controller))
    with Workload(cluster, topic) as load:
        load.wait_for_acks(300)
        for broker in other_brokers(cluster, controller):
            net.to[broker].refuse()
        left = "refused=True alive_to=0 dead_to=0 verdict=leave to its session"
        log = cluster.log_path(controller)
        wait_until(lambda: log.read_text().count(left) > 10, WAIT_S)
        seen = fences(cluster, controller)[before:]
        net.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
        load.wait_for_acks(300)
    load.check()
    times = [at for at, _ in seen]
    assert len(seen) >= 2, seen
    # Of the decisions; the log tells when each had been carried out, which takes now less and now more.
    assert min(later - at for at, later in itertools.pairwise(times)) > 0.5 * PACE_S, seen
    for broker in other_brokers(cluster, controller):
        # One fence is free if it was believed before the other one looked dead too.
        assert sum(fenced == broker for _, fenced in seen) <= FENCES_MAX + 1, seen


def test_broker_whose_address_is_wrong_is_fenced_a_few_times_and_then_left_to_its_session() -> None:
    """It starts, and nobody ever hears it where it says it is: a refusal there is no sign of a death."""
    with (
        running_linked_cluster(3, CONFIG) as net,
        Admin(bootstrap_servers=net.cluster.bootstrap, request_timeout_ms=2000) as admin,
    ):
        cluster = net.cluster
        controller = controller_of(admin)
        lost = other_brokers(cluster, controller)[0]
        cluster.terminate(lost)
        wait_until(
            lambda: lost not in brokers_known_to(cluster, controller), WAIT_S
        )  # or this incarnation is fenced, too
        net.to[lost].refuse()
        with pytest.raises(LocalClusterError, match="waiting for the controller"):
            cluster.start(lost, timeout_s=scaled(3.0))
        log, left = cluster.log_path(controller), f"broker={lost} refused=True .* verdict=leave to its session"
        wait_until(lambda: len(re.findall(left, log.read_text())) > 5, WAIT_S)
        assert [broker for _, broker in fences(cluster, controller)] == [lost] * FENCES_MAX
        net.heal()
        wait_until(lambda: cluster.is_ready(lost), WAIT_S)


@pytest.mark.parametrize("survivor", ["controller", "another broker"])
def test_two_of_three_processes_die_at_once_and_the_third_leads_long_before_their_sessions_end(survivor: str) -> None:
    with (
        LocalCluster(brokers=3, broker_config=CONFIG) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
    ):
        controller = controller_of(admin)
        stays = controller if survivor == "controller" else other_brokers(cluster, controller)[0]
        die = other_brokers(cluster, stays)
        admin.create_topic("alone", assignment=[[*die, stays], [stays, *die], [die[1], stays, die[0]]], timeout=WAIT_S)
        for partition in range(3):
            producer.send("alone", b"before", partition=partition).result(WAIT_S)
        for broker in die:
            cluster.kill(broker)
        began = time.monotonic()
        for partition in range(3):
            producer.send("alone", b"after", partition=partition).result(WAIT_S)
        took = time.monotonic() - began
        assert took < SESSION_S / 3, f"{took:.2f} s"
