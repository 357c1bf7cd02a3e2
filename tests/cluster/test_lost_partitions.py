"""A partition folder that is missing or was shortened under a stopped broker: no acknowledged record is lost anywhere."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from ottla.wire.batch import read_header
from ottla.wire.names import NO_LEADER
from tests.support.cluster import wait_until
from tests.support.small_topics import make_topic, read, write
from tests.support.workload import HASTY, WAIT_S, check_replicas, leader_of
from tests.support.znodes import partition_state, read_znode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

VALUES = [b"%d" % i for i in range(500)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, broker_config={**HASTY, "log.segment.bytes": "4096"}) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    for broker in cluster.brokers:
        if not cluster.alive(broker):
            cluster.start(broker)
    cluster.wait_ready()
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


def write_in_batches(cluster: LocalCluster, *topics: str) -> None:
    """All values, a hundred in a batch; three batches fill a segment."""
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for start in range(0, len(VALUES), 100):
            sent = [producer.send(topic, value) for topic in topics for value in VALUES[start : start + 100]]
            for one in sent:
                one.result(WAIT_S)


def wait_for_leader(cluster: LocalCluster, topic: str, leader: int) -> None:
    wait_until(lambda: partition_state(cluster, topic).state.leader == leader, WAIT_S)


def wait_for_isr(cluster: LocalCluster, topic: str, count: int) -> None:
    wait_until(lambda: len(partition_state(cluster, topic).state.isr) == count, WAIT_S)


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def empty(folder: Path) -> None:
    """One segment is left, and it has no bytes."""
    first, *others = sorted(folder.glob("*.log"))
    first.write_bytes(b"")
    for path in others:
        path.unlink()


def cut_at_a_batch(folder: Path) -> None:
    last = sorted(folder.glob("*.log"))[-1]
    data = memoryview(last.read_bytes())
    position = before = 0
    while position < len(data):
        before, position = position, position + read_header(data, position).size
    last.write_bytes(data[:before])
    for path in (last.with_suffix(".index"), last.with_suffix(".timeindex")):
        path.unlink(missing_ok=True)


def cut_the_beginning(folder: Path) -> None:
    sorted(folder.glob("*.log"))[0].unlink()


DAMAGES = (remove, empty, cut_at_a_batch, cut_the_beginning)


def test_partition_that_lost_records_after_a_clean_stop_does_not_lead_and_is_copied_anew(
    cluster: LocalCluster, admin: Admin
) -> None:
    topics = {damage: make_topic(admin, [0, 1, 2]) for damage in DAMAGES}
    intact = make_topic(admin, [0, 1, 2])
    write_in_batches(cluster, *topics.values(), intact)
    for topic in (*topics.values(), intact):
        wait_for_isr(cluster, topic, 3)
    for broker in (2, 1, 0):  # the last one may lead without the others
        assert cluster.terminate(broker) == 0
    for damage, topic in topics.items():
        damage(cluster.data_path(0) / f"{topic}-0")
    cluster.start(0)
    wait_for_leader(cluster, intact, 0)
    for damage, topic in topics.items():
        wait_for_leader(cluster, topic, NO_LEADER)
        assert f"partition={topic}-0 missing" in cluster.log_path(0).read_text(), damage.__name__
    cluster.start(1)
    cluster.start(2)
    for damage, topic in topics.items():
        assert read(cluster, topic, len(VALUES)) == VALUES, damage.__name__
        wait_for_isr(cluster, topic, 3)
        check_replicas(cluster, topic)
    assert not (cluster.data_path(0) / ".lost-partitions").read_text().splitlines()[2:], "the losses are settled"


def test_missing_folder_after_a_crash_is_told_from_a_new_partition(cluster: LocalCluster, admin: Admin) -> None:
    lost, alone = make_topic(admin, [1, 2, 0]), make_topic(admin, [1], min_insync=1)
    write_in_batches(cluster, lost, alone)
    for broker in cluster.brokers:
        cluster.kill(broker)
    for topic in (lost, alone):
        shutil.rmtree(cluster.data_path(1) / f"{topic}-0")
    cluster.start(1)
    wait_for_leader(cluster, lost, NO_LEADER)
    wait_until(lambda: partition_state(cluster, alone).state.lost == (1,), WAIT_S)
    cluster.terminate(1)
    cluster.start(1)
    cluster.start(0)
    cluster.start(2)
    assert read(cluster, lost, len(VALUES)) == VALUES
    wait_for_isr(cluster, lost, 3)
    check_replicas(cluster, lost)
    assert partition_state(cluster, alone).state.lost == (1,), "a restart does not make it forget"
    admin.elect_leaders([(alone, 0)], unclean=True, timeout=WAIT_S)
    write(cluster, alone, [b"after"])
    assert read(cluster, alone, 1) == [b"after"]
    cluster.terminate(1)
    cluster.start(1)
    wait_until(lambda: leader_of(admin, alone) == 1, WAIT_S)
    assert b"lost_partitions" not in read_znode(cluster, "/brokers/ids/1").data
    assert read(cluster, alone, 1) == [b"after"]
