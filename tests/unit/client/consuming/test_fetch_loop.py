"""The fetch loop among brokers that do not answer, or answer at once that they have nothing."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from ottla.client.consuming import consumer as consumer_module
from ottla.client.consuming.consumer import AsyncConsumer
from ottla.client.consuming.leader_loop import EMPTY_FETCH_S
from ottla.client.consuming.position_loop import POSITION_TIMEOUT_S
from ottla.net.exchange import Answer
from ottla.wire.messages import Request
from ottla.wire.requests import FetchRequest
from tests.support.fake_world import TOPIC, FakeChannel, FakeCluster, World
from tests.support.machine import scaled
from tests.support.waiting import eventually


class Brokers(FakeCluster):
    """A world's brokers that answer at once, but for those that are silent; counts what they are asked."""

    def __init__(self, world: World, silent: set[int], config: Any) -> None:
        super().__init__(world, config)
        self.silent = silent
        self.fetches = 0

    def connect(self, broker_id: int) -> FakeChannel:
        return CountedChannel(self, self._world, broker_id)


class CountedChannel(FakeChannel):
    def __init__(self, brokers: Brokers, world: World, broker: int) -> None:
        super().__init__(world, broker)
        self._brokers = brokers

    async def request(self, request: Request, timeout_s: float) -> Answer:
        self._brokers.fetches += isinstance(request, FetchRequest)
        await asyncio.sleep(0)
        while self._broker in self._brokers.silent:  # noqa: ASYNC110  # a broker that is paused
            await asyncio.sleep(0.001)
        found = self.work_on(request)
        assert isinstance(found, Answer)
        return found

    def send(self, request: Request) -> "asyncio.Future[Answer]":
        return asyncio.ensure_future(self.request(request, 0))


@asynccontextmanager
async def reading(
    monkeypatch: pytest.MonkeyPatch, *, silent: set[int], leaders: tuple[int, int] = (0, 1), **options: Any
) -> AsyncIterator[tuple[AsyncConsumer, Brokers]]:
    """Two partitions, with three records in each."""
    world = World(random.Random(1), brokers=2, partitions=2)
    for number, replica in enumerate(world.truth):
        replica.leader, replica.ends = leaders[number], [0, 3]
    world.tell()
    for broker in world.brokers:
        world.hear(broker)
    monkeypatch.setattr(consumer_module, "Cluster", partial(Brokers, world, silent))
    consumer = AsyncConsumer(TOPIC, auto_offset_reset="earliest", **options)
    delivering = asyncio.create_task(_deliver(world))
    try:
        async with consumer:
            assert isinstance(consumer._cluster, Brokers)
            yield consumer, consumer._cluster
    finally:
        delivering.cancel()


async def _deliver(world: World) -> None:
    while True:
        while world.pending:
            world.deliver(0)
        await asyncio.sleep(0)


async def test_leader_that_does_not_answer_keeps_only_its_own_partitions_waiting(monkeypatch) -> None:
    async with reading(monkeypatch, silent={0}) as (consumer, _):
        began = time.monotonic()
        records = await consumer.poll(timeout=2 * POSITION_TIMEOUT_S)
        assert {record.partition for record in records} == {1}
        assert time.monotonic() - began < POSITION_TIMEOUT_S / 2


async def test_partition_that_is_assigned_while_a_leader_does_not_answer_is_read_at_once(monkeypatch) -> None:
    async with reading(monkeypatch, silent={0}) as (consumer, _):
        await consumer.assign([(TOPIC, 0)])
        await eventually(lambda: not consumer._fetch_loop._positions.settled)
        began = time.monotonic()
        await consumer.assign([(TOPIC, 0), (TOPIC, 1)])
        records = await consumer.poll(timeout=2 * POSITION_TIMEOUT_S)
        assert {record.partition for record in records} == {1}
        assert time.monotonic() - began < POSITION_TIMEOUT_S / 2


async def test_partition_that_is_assigned_while_its_leader_is_asked_for_another_is_asked_for_next(monkeypatch) -> None:
    async with reading(monkeypatch, silent={0}, leaders=(0, 0)) as (consumer, brokers):
        await consumer.assign([(TOPIC, 0)])
        await eventually(lambda: not consumer._fetch_loop._positions.settled)
        await consumer.assign([(TOPIC, 0), (TOPIC, 1)])
        await asyncio.sleep(0)
        brokers.silent.clear()
        seen: set[int] = set()
        async with asyncio.timeout(POSITION_TIMEOUT_S):
            while len(seen) < 2:
                seen |= {record.partition for record in await consumer.poll(timeout=1)}


async def test_broker_that_need_not_wait_is_not_asked_without_a_pause(monkeypatch) -> None:
    async with reading(monkeypatch, silent=set(), fetch_max_wait_ms=0) as (consumer, brokers):
        async with asyncio.timeout(scaled(10)):
            read = 0
            while read < 6:
                read += len(await consumer.poll(timeout=1))
        before, began = brokers.fetches, time.monotonic()
        await eventually(lambda: brokers.fetches >= before + 20)
        assert time.monotonic() - began > 20 / 2 * EMPTY_FETCH_S * 0.8  # two brokers
