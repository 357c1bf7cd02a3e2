"""What people do to a cluster at the wrong moment: lower a rule, move a partition twice. Nothing acknowledged is lost by it."""

import uuid
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.names import NO_LEADER
from tests.support.cluster import wait_until
from tests.support.workload import HASTY, WAIT_S, leader_of
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

CONTROLLER, FIRST, SECOND = 0, 1, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4, broker_config=HASTY) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


def make_topic(admin: Admin, assignment: list[list[int]], min_insync: int) -> str:
    name = f"operators-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name, assignment=assignment, config={"min.insync.replicas": str(min_insync)}, timeout=WAIT_S)
    return name


def write(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for value in values:
            producer.send(topic, value).result(WAIT_S)


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        while len(found) < count and (records := consumer.poll(timeout=10.0)):
            found += [record.value for record in records]
    return found


def test_what_is_acked_after_min_insync_was_lowered_survives_the_death_of_its_only_holder(
    cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(admin, [[FIRST, SECOND]], min_insync=2)
    write(cluster, topic, [b"by both"])
    cluster.kill(SECOND)
    wait_until(lambda: partition_state(cluster, topic).state.isr == (FIRST,), WAIT_S)
    assert partition_state(cluster, topic).state.elr == (SECOND,), "nothing is committed without it"
    admin.alter_topic_config(topic, {"min.insync.replicas": "1"}, timeout=WAIT_S)
    write(cluster, topic, [b"by the first alone"])
    assert partition_state(cluster, topic).state.elr == (), "it does not have everything any more"
    cluster.kill(FIRST)
    cluster.start(SECOND)
    wait_until(lambda: partition_state(cluster, topic).state.leader == NO_LEADER, WAIT_S)
    cluster.start(FIRST)
    wait_until(lambda: leader_of(admin, topic) == FIRST, WAIT_S)
    assert read(cluster, topic, 2) == [b"by both", b"by the first alone"]
