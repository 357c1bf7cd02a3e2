"""Disks that fail, vanish or come back as they once were: whoever lacks what was acknowledged neither leads nor counts."""

import uuid
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from tests.support.cluster import wait_until
from tests.support.workload import HASTY, WAIT_S, leader_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4, broker_config=HASTY) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


def make_topic(admin: Admin, replicas: list[int], min_insync: int = 2) -> str:
    name = f"disks-{uuid.uuid4().hex[:8]}"
    settings = {"min.insync.replicas": str(min_insync)}
    admin.create_topic(name, assignment=[replicas], config=settings, timeout=WAIT_S)
    return name


def write(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.result(WAIT_S)


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        while len(found) < count and (records := consumer.poll(timeout=10.0)):
            found += [record.value for record in records]
    return found


VALUES = [b"%d" % i for i in range(500)]


def test_replica_whose_disk_fails_as_it_is_elected_is_replaced(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(admin, [1, 2, 3])
    write(cluster, topic, VALUES)
    # The file of epochs is put in place by a rename, and its name is taken by a folder: it cannot be written.
    (cluster.data_path(2) / f"{topic}-0" / "leader-epoch-checkpoint.tmp").mkdir()
    cluster.kill(1)
    wait_until(lambda: leader_of(admin, topic) == 3, WAIT_S)
    assert read(cluster, topic, len(VALUES)) == VALUES
    assert cluster.alive(2), "one bad disk ends no broker"
