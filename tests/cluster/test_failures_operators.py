"""What people do to a cluster at the wrong moment: lower a rule, move a partition twice. Nothing acknowledged is lost by it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.admin import CreateTopicsRequest, NewTopic
from ottla.wire.names import NO_LEADER
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.raw_client import RawClient, framed
from tests.support.small_topics import make_topic, read, write
from tests.support.tapped_broker import tapped_brokers
from tests.support.workload import HASTY, WAIT_S, leader_of
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4, broker_config=HASTY) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


def not_controller(cluster: LocalCluster, admin: Admin) -> list[int]:
    controller = admin.describe_cluster(timeout=WAIT_S).controller
    return [broker for broker in cluster.brokers if broker != controller]


def test_what_is_acked_after_min_insync_was_lowered_survives_the_death_of_its_only_holder(
    cluster: LocalCluster, admin: Admin
) -> None:
    first, second, _ = not_controller(cluster, admin)
    topic = make_topic(admin, [first, second], min_insync=2)
    write(cluster, topic, [b"by both"])
    cluster.kill(second)
    wait_until(lambda: partition_state(cluster, topic).state.isr == (first,), WAIT_S)
    assert partition_state(cluster, topic).state.elr == (second,), "nothing is committed without it"
    admin.alter_topic_config(topic, {"min.insync.replicas": "1"}, timeout=WAIT_S)
    write(cluster, topic, [b"by the first alone"])
    assert partition_state(cluster, topic).state.elr == (), "it does not have everything any more"
    cluster.kill(first)
    cluster.start(second)
    wait_until(lambda: partition_state(cluster, topic).state.leader == NO_LEADER, WAIT_S)
    cluster.start(first)
    wait_until(lambda: leader_of(admin, topic) == first, WAIT_S)
    assert read(cluster, topic, 2) == [b"by both", b"by the first alone"]


def test_partition_that_is_moved_twice_at_once_ends_where_it_was_sent_last(
    cluster: LocalCluster, admin: Admin, tmp_path: Path
) -> None:
    topic = make_topic(admin, [0, 1], min_insync=2)
    values = [b"%d" % i for i in range(200)]
    write(cluster, topic, values)
    with tapped_brokers(cluster, [8], HASTY, tmp_path) as tapped:
        tapped[8].shut()  # the first move cannot end
        admin.reassign(topic, 0, [8, 2], timeout=WAIT_S)
        admin.reassign(topic, 0, [8, 2], timeout=WAIT_S)  # as after a lost answer
        admin.reassign(topic, 0, [2, 1], timeout=WAIT_S)
        state = partition_state(cluster, topic).state
        assert {state.leader, *state.isr} <= {*replicas_of(admin, topic)}, "nobody that counts is left out"
        wait_until(lambda: sorted(replicas_of(admin, topic)) == [1, 2], WAIT_S)
    write(cluster, topic, [b"on the way"])
    wait_until(lambda: replicas_of(admin, topic) == [2, 1] and leader_of(admin, topic) in (2, 1), WAIT_S)
    assert set(partition_state(cluster, topic).state.isr) == {1, 2}
    wait_until(lambda: holders(cluster, topic) == {1, 2}, WAIT_S)
    assert read(cluster, topic, 201) == [*values, b"on the way"]


def test_replica_that_was_away_when_its_partition_moved_is_deleted_when_it_comes_back(
    cluster: LocalCluster, admin: Admin
) -> None:
    first, second, third = not_controller(cluster, admin)
    topic = make_topic(admin, [first, second], min_insync=1)
    write(cluster, topic, [b"x"])
    cluster.kill(second)
    admin.reassign(topic, 0, [first, third], timeout=WAIT_S)
    wait_until(lambda: replicas_of(admin, topic) == [first, third], WAIT_S)
    assert second in holders(cluster, topic)
    cluster.start(second)
    wait_until(lambda: holders(cluster, topic) == {first, third}, WAIT_S)
    assert read(cluster, topic, 1) == [b"x"]


def replicas_of(admin: Admin, topic: str) -> list[int]:
    return admin.describe_topic(topic, timeout=WAIT_S).partitions[0].replicas


def holders(cluster: LocalCluster, topic: str) -> set[int]:
    """The brokers whose disk has something of a topic."""
    return {broker for broker in cluster.brokers if (cluster.data_path(broker) / f"{topic}-0").exists()}


def test_failure_of_a_broker_is_dealt_with_while_clients_ask_for_more_than_can_be_done(
    cluster: LocalCluster, admin: Admin
) -> None:
    """Of hundreds of wishes, the askers of which have hung up, none is done before a broker's death, and most not at all."""
    controller = admin.describe_cluster(timeout=WAIT_S).controller
    first, second, _ = not_controller(cluster, admin)
    topic = make_topic(admin, [first, second], min_insync=1)
    write(cluster, topic, [b"x"])
    before = set(admin.list_topics(timeout=WAIT_S))
    host, _, port = cluster.address(controller).rpartition(":")
    for crowd in range(20):
        with RawClient((host, int(port))) as client:
            for wish in range(10):
                new = [NewTopic(f"wish-{crowd}-{wish}-{i}", 10, 1, {}) for i in range(10)]
                client.send(framed(CreateTopicsRequest(new, 60_000)))
    cluster.kill(first)
    wait_until(lambda: partition_state(cluster, topic).state.leader == second, scaled(10))
    cluster.start(first)
    made = set(admin.list_topics(timeout=WAIT_S)) - before
    assert len(made) < 200, "2,000 were asked for by clients that did not wait"


STOP_LIMIT_S = scaled(10.0)


@contextmanager
def asleep(pause: Callable[[int], None], resume: Callable[[int], None], which: int) -> Iterator[None]:
    pause(which)
    try:
        yield
    finally:
        resume(which)


def stops_cleanly(cluster: LocalCluster, broker: int) -> None:
    began = time.monotonic()
    assert cluster.terminate(broker, timeout_s=60) == 0
    took_s = time.monotonic() - began
    assert took_s < STOP_LIMIT_S, f"it took {took_s:.1f} s"
    assert "clean=True" in cluster.log_path(broker).read_text().rpartition("broker is told to stop")[2]


@pytest.mark.parametrize("sleeper", ["the controller", "zookeeper"])
def test_broker_that_is_told_to_stop_has_stopped_in_time_whoever_sleeps(sleeper: str) -> None:
    patient = {"zookeeper.session.timeout.ms": "20000", "replica.lag.time.max.ms": "30000"}
    with (
        LocalCluster(brokers=2, broker_config=patient) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        (broker,) = not_controller(cluster, admin)
        topic = make_topic(admin, [broker], min_insync=1)
        write(cluster, topic, [b"x"])
        if sleeper == "zookeeper":
            sleep = asleep(cluster.zookeeper_servers.pause, cluster.zookeeper_servers.resume, 0)
        else:
            sleep = asleep(cluster.pause, cluster.resume, 1 - broker)
        with sleep:
            stops_cleanly(cluster, broker)
        cluster.start(broker)
        assert read(cluster, topic, 1) == [b"x"]
