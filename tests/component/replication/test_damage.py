"""Batches that are said to be damaged: only what this broker finds on its own disk counts. Cut is what does not count."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.broker.replication.damage_loop import DamageLoop
from ottla.broker.replication.partition import Damage, Partition
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.incoming import DamagedRecords
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.batch import LENGTH_OVERHEAD, stamp
from ottla.wire.control import PartitionState
from ottla.wire.errors import CorruptMessage
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch
from tests.component.replication.brokers import Cluster
from tests.support.descriptors import few_descriptors
from tests.support.waiting import eventually

ONE = TopicPartition("one", 0)
ME, OTHER = 1, 2


class Broker:
    """One broker that leads a partition of ten batches."""

    def __init__(self, folder: Path) -> None:
        self.log_dir = LogDir.open(folder, broker_id=ME, cluster_id="c", config_for=lambda _: LogConfig())
        events = PartitionEvents()
        self.partitions = Partitions(ME, [self.log_dir], LogConfig(), 1, events)
        self.asked: list[list[TopicPartition]] = []
        self.loop = DamageLoop([self.log_dir], self._ask)
        events.on_suspected.append(self.loop.suspect)

    async def _ask(self, damaged: list[TopicPartition]) -> None:
        self.asked.append(damaged)

    async def told(self, leader: int, isr: list[int], epoch: int) -> Partition:
        state = PartitionState(*ONE[:1], "id", 0, leader, epoch, [ME, OTHER], isr, epoch, 1, [])
        assert await self.partitions.apply([state], [], 1) == {}
        partition = self.partitions.get(*ONE)
        assert partition is not None
        return partition

    async def leads(self) -> Partition:
        partition = await self.told(ME, [ME, OTHER], 0)
        for _ in range(10):
            partition.log.append_as_leader(memoryview(encode_batch([b"x" * 50], timestamps=0)), 0, 0)
        return partition

    def flip_bit(self, partition: Partition, offset: int) -> None:
        location = partition.log.locate(offset)
        with location.path.open("r+b") as file:
            file.seek(location.place.position + location.place.size - 1)
            last = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([last ^ 1]))

    @property
    def noted(self) -> dict[TopicPartition, int]:
        return dict(self.log_dir.damaged.offsets)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    await broker.loop.stop()
    await broker.partitions.close()


async def test_report_of_a_batch_that_is_intact_changes_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = await broker.leads()
    for _ in range(100):
        broker.loop.suspect(partition, 5)
    await eventually(lambda: "batch is intact here" in caplog.text)
    assert caplog.text.count("batch is intact here") == 1, "however often it is reported"
    assert (partition.damage, broker.noted, broker.asked) == (None, {}, [])


async def test_damaged_batch_is_noted_before_the_controller_is_asked_and_readers_are_told(broker: Broker) -> None:
    partition = await broker.leads()
    broker.flip_bit(partition, 5)
    broker.loop.suspect(partition, 5)
    await eventually(lambda: bool(broker.asked))
    assert (broker.asked[0], broker.noted) == ([ONE], {ONE: 5})
    partition.high_watermark = 10
    whole = sum(len(view) for view in partition.read(0, 1 << 20, at_least_one=True))
    assert whole == partition.log.locate(5).place.position
    with pytest.raises(CorruptMessage, match="damaged at offset 5"):
        partition.read(5, 1 << 20, at_least_one=True)
    assert partition.read(6, 1 << 20, at_least_one=True)
    with pytest.raises(CorruptMessage):
        partition.read_for_replica(5, 1 << 20, at_least_one=True)


async def test_damaged_log_is_cut_only_when_the_controller_does_not_count_it(broker: Broker) -> None:
    partition = await broker.leads()
    broker.flip_bit(partition, 5)
    broker.loop.suspect(partition, 5)
    await eventually(lambda: bool(broker.asked))
    await broker.told(OTHER, [OTHER, ME], 1)
    assert partition.log.log_end_offset == 10, "still in sync"
    await broker.told(OTHER, [OTHER], 2)
    assert partition.log.log_end_offset == 5
    assert (partition.damage, broker.noted) == (None, {})
    asked = len(broker.asked)
    await asyncio.sleep(0.3)
    assert len(broker.asked) <= asked + 1


async def test_damage_that_was_noted_before_a_restart_is_looked_at_again(broker: Broker) -> None:
    partition = await broker.leads()
    broker.log_dir.note_damage(ONE, 5)
    await broker.told(ME, [ME], 1)
    await eventually(lambda: not broker.noted)
    assert (partition.damage, partition.log.log_end_offset) == (None, 10), "somebody has mended it"


async def test_readers_that_hold_what_is_to_be_cut_are_waited_for(broker: Broker) -> None:
    partition = await broker.leads()
    partition.high_watermark = 10
    partition.log._segments.roll()
    held = partition.read(0, 1 << 20, at_least_one=True)
    broker.log_dir.note_damage(ONE, 5)
    await broker.told(OTHER, [OTHER], 1)
    assert (partition.log.log_end_offset, partition.is_leader, broker.noted) == (10, False, {ONE: 5})
    del held
    assert await broker.partitions.apply_postponed()
    assert (partition.log.log_end_offset, broker.noted) == (5, {})


async def test_follower_takes_the_valid_prefix_and_says_where_the_damage_is(broker: Broker) -> None:
    partition = await broker.told(OTHER, [OTHER], 0)
    records = bytearray()
    for offset in range(3):
        batch = encode_batch([b"x" * 50], timestamps=0)
        stamp(batch, 0, offset, 0)
        records += batch
    records[len(records) // 3 * 2 - 1] ^= 1
    with pytest.raises(DamagedRecords, match="offset 1"):
        partition.log.append_as_follower(memoryview(records), 0)
    assert partition.log.log_end_offset == 1
    assert not partition.next_fetch(100).damaged
    partition._came_damaged = (0, 1)
    assert partition.next_fetch(100).damaged
    await broker.told(OTHER, [OTHER], 1)
    assert not partition.next_fetch(100).damaged, "another leader may have it intact"
    partition.damage = Damage(0, 1)
    partition.drop_damaged(0)
    assert partition.log.log_end_offset == 0


async def test_batch_whose_length_reaches_past_a_fetch_is_reported_to_the_leader(cluster: Cluster) -> None:
    """Before: the follower took it for one that was cut off, and fetched the same two megabytes for ever, without a pause."""
    cluster.decide(ONE)
    await cluster.tell(cluster.leader, ONE)
    partition = cluster.leader.partition(ONE)
    cluster.leader.append(ONE, 50, payload=100_000)
    suspected: list[int] = []
    cluster.leader.events.on_suspected.append(lambda _, offset: suspected.append(offset))
    place = partition.log.locate(3).place
    with partition.log.locate(3).path.open("r+b") as file:
        file.seek(place.position + 8)
        file.write((place.size - LENGTH_OVERHEAD + (1 << 21)).to_bytes(4, "big"))  # one bit
    await cluster.tell(cluster.follower, ONE)
    await eventually(lambda: 3 in suspected)
    assert cluster.follower.partition(ONE).log.log_end_offset == 3


async def test_batch_is_not_called_intact_because_descriptors_are_short(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    partition = await broker.leads()
    broker.flip_bit(partition, 5)
    broker.log_dir.note_damage(ONE, 5)
    await asyncio.to_thread(int)  # threads are there already
    with few_descriptors():
        broker.loop.suspect(partition, 5)
        await eventually(lambda: "cannot be checked now" in caplog.text or "is intact here" in caplog.text)
    assert "is intact here" not in caplog.text
    assert broker.noted == {ONE: 5}
