"""Changes of the ISR whose outcome is unknown, and what goes on meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.peers import Identity
from ottla.broker.replication import isr_loop
from ottla.broker.replication.isr_loop import IN_FLIGHT, IsrLoop
from ottla.broker.replication.state import Isr, LeaderState
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition
from ottla.zk.errors import ConnectionLost
from ottla.zk.metadata import PartitionStateChange, VersionedState
from ottla.zk.znodes.json_fields import MalformedZnode
from ottla.zk.znodes.topics import PartitionStateZnode
from tests.support.waiting import eventually

ROUND_TRIP_S = 0.02
PARTITIONS = 200


@dataclass
class SlowZooKeeper:
    """Takes its time for everything. ``writes`` says what becomes of the next writes: an error, or None."""

    writes: Callable[[TopicPartition], OttlaError | None]
    states: dict[TopicPartition, VersionedState] = field(default_factory=dict)
    syncs: int = 0
    notified: list[list[TopicPartition]] = field(default_factory=list)
    reading: int = 0
    reading_at_once: int = 0

    async def sync(self, path: str) -> None:
        self.syncs += 1
        await asyncio.sleep(ROUND_TRIP_S)

    async def write_isr(self, session: object, change: PartitionStateChange) -> int:
        await asyncio.sleep(ROUND_TRIP_S)
        error = self.writes(change.partition)
        if error is not None:
            raise error
        self.states[change.partition] = VersionedState(change.state, change.version + 1)
        return change.version + 1

    async def read(self, session: object, where: TopicPartition) -> VersionedState:
        self.reading += 1
        self.reading_at_once = max(self.reading_at_once, self.reading)
        await asyncio.sleep(ROUND_TRIP_S)
        self.reading -= 1
        return self.states[where]

    async def notify(self, session: object, changed: list[TopicPartition]) -> None:
        self.notified.append(changed)


def led(where: TopicPartition) -> Any:
    """A partition with a follower that may join."""
    leading = LeaderState(1, 3, 0, (1, 2), Isr((1,), 7), 0.0, broker_epoch=5)
    leading.fetched(2, 0, 9, 0, 0.0)
    partition = SimpleNamespace(
        where=where, leading=leading, min_insync=1, controller_epoch=1, version=7, flushed=lambda: None
    )
    partition.may_join = lambda replica: leading.may_join(replica, 0)
    return partition


def made(zookeeper: SlowZooKeeper, monkeypatch: pytest.MonkeyPatch, broker_epoch: int = 5) -> IsrLoop:
    monkeypatch.setattr(isr_loop, "write_isr", zookeeper.write_isr)
    monkeypatch.setattr(isr_loop, "read_partition_state", zookeeper.read)
    monkeypatch.setattr(isr_loop, "notify_isr_change", zookeeper.notify)
    loop = IsrLoop(zookeeper, lambda: Identity(1, broker_epoch, "c", ""), [], 1000.0)  # type: ignore[arg-type]
    loop.start()
    return loop


async def test_unknown_outcomes_are_settled_together_and_hold_up_no_new_change(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [TopicPartition("lost", number) for number in range(PARTITIONS)]
    zookeeper = SlowZooKeeper(lambda where: ConnectionLost("as the test says") if where in lost else None)
    zookeeper.states = {
        where: VersionedState(PartitionStateZnode(1, 3, 1, (1, 2), leader_broker_epoch=5), 8) for where in lost
    }
    loop = made(zookeeper, monkeypatch)
    try:
        partitions = [led(where) for where in lost]
        for partition in partitions:
            loop.may_have_caught_up(partition)
        await eventually(lambda: zookeeper.syncs > 0)
        new = led(TopicPartition("new", 0))
        loop.may_have_caught_up(new)
        await eventually(lambda: new.leading.isr.members == (1, 2))
        assert any(partition.leading.change is not None for partition in partitions), "it did not wait for them"
        await eventually(lambda: all(partition.leading.change is None for partition in partitions))
        assert all(partition.leading.isr.members == (1, 2) for partition in partitions)
        assert zookeeper.syncs <= 2 * PARTITIONS / IN_FLIGHT
        assert 1 < zookeeper.reading_at_once <= IN_FLIGHT
        await eventually(lambda: len({where for some in zookeeper.notified for where in some}) == PARTITIONS + 1)
    finally:
        await loop.stop()


async def test_state_that_cannot_be_read_keeps_no_other_change_unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [TopicPartition("lost", number) for number in range(3)]
    zookeeper = SlowZooKeeper(lambda where: ConnectionLost("as the test says"))
    zookeeper.states = {
        where: VersionedState(PartitionStateZnode(1, 3, 1, (1, 2), leader_broker_epoch=5), 8) for where in lost
    }
    read = zookeeper.read

    async def read_all_but_one(session: object, where: TopicPartition) -> VersionedState | None:
        if where == lost[0]:
            raise MalformedZnode("/brokers/topics/lost/partitions/0/state", "as the test says")
        return await read(session, where)

    monkeypatch.setattr(zookeeper, "read", read_all_but_one)
    loop = made(zookeeper, monkeypatch)
    try:
        partitions = [led(where) for where in lost]
        for partition in partitions:
            loop.may_have_caught_up(partition)
        await eventually(lambda: [one.leading.change is None for one in partitions] == [False, True, True])
    finally:
        await loop.stop()


async def test_the_controller_is_notified_after_every_batch_of_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = SlowZooKeeper(lambda where: None)
    loop = made(zookeeper, monkeypatch)
    try:
        for number in range(2 * IN_FLIGHT):
            loop.may_have_caught_up(led(TopicPartition("topic", number)))
        await eventually(lambda: sum(map(len, zookeeper.notified)) == 2 * IN_FLIGHT)
        assert [len(some) for some in zookeeper.notified] == [IN_FLIGHT, IN_FLIGHT]
    finally:
        await loop.stop()


async def test_the_incarnation_that_was_told_to_lead_writes_and_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[PartitionStateChange] = []
    zookeeper = SlowZooKeeper(lambda where: None)
    write = zookeeper.write_isr

    async def note(session: object, change: PartitionStateChange) -> int:
        written.append(change)
        return await write(session, change)

    monkeypatch.setattr(zookeeper, "write_isr", note)
    loop = made(zookeeper, monkeypatch, broker_epoch=6)  # it has registered anew since
    try:
        loop.may_have_caught_up(led(TopicPartition("topic", 0)))
        await eventually(lambda: len(written) == 1)
        assert written[0].broker_epochs == {1: 5, 2: 9}
        assert written[0].state.leader_broker_epoch == 5
    finally:
        await loop.stop()
