"""With log.flush.policy=durable a follower tells its leader of nothing that is not on its disk: acked means durable copies."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.replication import fetch_loop
from ottla.broker.replication.durable_loop import DurablePartitions
from ottla.broker.storage.flush_loop import Flusher
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.control import TopicConfig
from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import Broker, Cluster, running_cluster, turns
from tests.support.machine import scaled
from tests.support.waiting import eventually

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
DURABLE = LogConfig(flush_policy="durable")


class Disk:
    """os.fdatasync under one folder: counted, held until ``go_on`` is set, and failing if it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, under: Path) -> None:
        self.calls = 0
        self.go_on = threading.Event()
        self.broken = False
        self._under = under
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(self._under):
            self.calls += 1
            assert self.go_on.wait(scaled(20))
            if self.broken:
                raise OSError(5, "input/output error")
        self._real(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(monkeypatch, tmp_path / "broker-2")
    yield disk
    disk.go_on.set()


def make_durable(broker: Broker, *topics: str) -> None:
    broker.partitions.configure([TopicConfig(topic, "", {"flush.policy": "durable"}) for topic in topics])


def claimed(cluster: Cluster, where: TopicPartition) -> int:
    """How far the leader believes that its follower is."""
    return cluster.leader.leading(where).followers[2].log_end_offset


async def test_acked_with_two_in_sync_means_on_both_disks(tmp_path, disk):
    async with running_cluster(tmp_path, config=DURABLE) as cluster:
        durable = DurablePartitions(Flusher())
        cluster.leader.events.on_grown.append(durable.partition_grown)
        cluster.leader.events.on_changed.append(durable.partition_grown)
        make_durable(cluster.leader, "a")
        await cluster.create(A0)
        leader, follower = cluster.leader.partition(A0), cluster.follower.partition(A0)
        cluster.leader.append(A0)
        await eventually(lambda: disk.calls == 1 and leader.log.flushed_up_to == 1)
        await turns()
        assert (follower.log.log_end_offset, follower.log.flushed_up_to, leader.high_watermark) == (1, 0, 0)
        disk.go_on.set()
        await eventually(lambda: leader.high_watermark == 1)
        assert (leader.log.flushed_up_to, follower.log.flushed_up_to) == (1, 1)


async def test_a_follower_whose_flush_fails_does_not_count(tmp_path, disk):
    async with running_cluster(tmp_path, config=DURABLE) as cluster:
        await cluster.create(A0, B0)
        disk.go_on.set()
        cluster.leader.append(B0)
        await eventually(lambda: claimed(cluster, B0) == 1)
        disk.broken = True
        cluster.leader.append(A0)
        await eventually(lambda: cluster.follower.partition(A0).log.failed)
        disk.broken = False
        cluster.leader.append(B0)  # a disk that fails under one partition does not keep the others from their records
        await eventually(lambda: claimed(cluster, B0) == 2)
        cluster.follower.line.cut()  # nor does a new connection, over which everything is named
        cluster.leader.append(B0)
        await eventually(lambda: claimed(cluster, B0) == 3)
        assert claimed(cluster, A0) <= 0
        assert cluster.leader.partition(A0).high_watermark == 0


async def test_a_tail_from_before_is_flushed_before_it_is_named(tmp_path, disk):
    """Of its own time as a leader, of a crash, or of the time before the topic's policy was durable."""
    async with running_cluster(tmp_path) as cluster:
        await cluster.create(A0)
        cluster.leader.append(A0, 3)
        await eventually(lambda: claimed(cluster, A0) == 3)
        make_durable(cluster.follower, "a")
        cluster.decide(A0)
        await cluster.tell(cluster.leader, A0)
        cluster.follower.line.cut()
        await cluster.tell(cluster.follower, A0)
        await eventually(lambda: disk.calls == 1 or claimed(cluster, A0) > 0)
        await turns()
        assert claimed(cluster, A0) <= 0
        disk.go_on.set()
        await eventually(lambda: claimed(cluster, A0) == 3)
        assert cluster.follower.partition(A0).log.flushed_up_to == 3


async def test_a_disk_that_takes_its_time_keeps_no_other_partition_waiting(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(fetch_loop, "FLUSH_PATIENCE_S", 0.01)
    async with running_cluster(tmp_path) as cluster:
        await cluster.create(A0, B0)
        make_durable(cluster.follower, "a")
        cluster.leader.append(A0)
        await eventually(lambda: disk.calls == 1)
        for count in range(1, 4):
            cluster.leader.append(B0)
            await eventually(lambda: claimed(cluster, B0) == count)  # noqa: B023
        assert claimed(cluster, A0) <= 0
        disk.go_on.set()
        await eventually(lambda: claimed(cluster, A0) == 1)
        cluster.leader.append(A0)
        await eventually(lambda: claimed(cluster, A0) == 2)
        assert cluster.follower.partition(A0).log.flushed_up_to == 2
