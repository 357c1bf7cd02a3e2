"""A bit flips in a leader's log: an intact replica takes its place, and everything is copied from there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer
from ottla.local import LocalCluster
from ottla.wire.batch import HEADER_SIZE, read_header
from ottla.wire.errors import CorruptMessage
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.small_topics import make_topic, read, write
from tests.support.workload import HASTY, WAIT_S, check_replicas
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

VALUES = [b"%03d" % number + b"x" * 1000 for number in range(40)]
DAMAGED = 17


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, broker_config={**HASTY, "log.segment.bytes": "4096"}) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


def written(cluster: LocalCluster, admin: Admin, replicas: list[int], min_insync: int = 1) -> str:
    """A topic of several segments with a batch for each value."""
    topic = make_topic(admin, replicas, min_insync)
    for value in VALUES:
        write(cluster, topic, [value])
    return topic


def flip_bit(folder: Path, offset: int, at: int = HEADER_SIZE + 50) -> None:
    """In the batch at ``offset``, so many bytes behind its first."""
    path = max(path for path in folder.glob("*.log") if int(path.stem) <= offset)
    data = memoryview(path.read_bytes())
    position = 0
    while (header := read_header(data, position)).base_offset < offset:
        position += header.size
    with path.open("r+b") as file:
        file.seek(position + at)
        file.write(bytes([data[position + at] ^ 1]))


def leader_and_isr(cluster: LocalCluster, topic: str) -> tuple[int, list[int]]:
    state = partition_state(cluster, topic).state
    return state.leader, sorted(state.isr)


def damaged_partitions(cluster: LocalCluster, broker: int) -> int:
    """What the broker has noted on its disk."""
    noted = cluster.data_path(broker) / ".damaged-partitions"
    return len(noted.read_text().splitlines()[2:]) if noted.exists() else 0


@pytest.mark.parametrize("at", [HEADER_SIZE + 50, 10, 20], ids=["payload", "length", "crc"])
def test_new_replica_is_completed_by_an_intact_leader(cluster: LocalCluster, admin: Admin, at: int) -> None:
    """The length stands outside of what the CRC covers: the leader itself cannot read such a batch."""
    topic = written(cluster, admin, [0, 1])
    flip_bit(cluster.data_path(0) / f"{topic}-0", DAMAGED, at)
    admin.reassign(topic, 0, [0, 1, 2], timeout=WAIT_S)
    wait_until(lambda: leader_and_isr(cluster, topic) == (1, [0, 1, 2]), WAIT_S)
    assert read(cluster, topic, len(VALUES)) == VALUES
    wait_until(lambda: not damaged_partitions(cluster, 0), WAIT_S)
    check_replicas(cluster, topic)
    assert (
        f"log is damaged, another replica in sync is asked to take its place: partition={topic}-0 offset={DAMAGED}"
        in (cluster.log_path(0).read_text())
    )
    follower = [line for line in cluster.log_path(2).read_text().splitlines() if f"partition={topic}-0" in line]
    warnings = [line for line in follower if "a leader sent damaged records" in line]
    assert [("WARNING" in line, f"offset={DAMAGED} leader=0" in line) for line in warnings] == [(True, True)]


def test_damage_without_another_replica_in_sync_costs_only_the_damaged_batch(
    cluster: LocalCluster, admin: Admin
) -> None:
    topic = written(cluster, admin, [0])
    flip_bit(cluster.data_path(0) / f"{topic}-0", DAMAGED)
    before = b"".join(path.read_bytes() for path in sorted((cluster.data_path(0) / f"{topic}-0").glob("*.log")))
    admin.reassign(topic, 0, [0, 1], timeout=WAIT_S)
    wait_until(lambda: damaged_partitions(cluster, 0) == 1, WAIT_S)
    assert leader_and_isr(cluster, topic) == (0, [0])
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek(topic, 0, DAMAGED)
        with pytest.raises(CorruptMessage):
            consumer.poll(timeout=scaled(10))
        consumer.seek(topic, 0, DAMAGED + 1)
        assert consumer.poll(timeout=scaled(10))[0].value == VALUES[DAMAGED + 1]
    write(cluster, topic, [b"after"])
    cluster.terminate(0)
    cluster.start(0)
    wait_until(lambda: leader_and_isr(cluster, topic) == (0, [0]), WAIT_S)
    after = b"".join(path.read_bytes() for path in sorted((cluster.data_path(0) / f"{topic}-0").glob("*.log")))
    assert after.startswith(before), "nothing is thrown away"
    assert damaged_partitions(cluster, 0) == 1
    # An operator puts the batch right (here: flips the bit back), and the partition is copied.
    cluster.terminate(0)
    flip_bit(cluster.data_path(0) / f"{topic}-0", DAMAGED)
    cluster.start(0)
    wait_until(lambda: leader_and_isr(cluster, topic)[1] == [0, 1], WAIT_S)
    check_replicas(cluster, topic)


def test_leader_that_dies_before_its_log_is_cut_does_not_count_with_it(cluster: LocalCluster, admin: Admin) -> None:
    topic = written(cluster, admin, [0, 1])
    noted = cluster.data_path(0) / ".damaged-partitions"
    cluster.kill(0)
    wait_until(lambda: leader_and_isr(cluster, topic) == (1, [1]), WAIT_S)
    flip_bit(cluster.data_path(0) / f"{topic}-0", DAMAGED)
    noted.write_text(f"0\n1\n{topic} 0 {DAMAGED}\n")
    cluster.start(0)
    wait_until(lambda: leader_and_isr(cluster, topic) == (1, [0, 1]), WAIT_S)
    wait_until(lambda: not damaged_partitions(cluster, 0), WAIT_S)
    check_replicas(cluster, topic)
