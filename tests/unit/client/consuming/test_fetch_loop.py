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
from ottla.client.consuming.fetch_loop import EMPTY_FETCH_S, PREPARE_TIMEOUT_S
from ottla.net.exchange import Answer
from ottla.wire.messages import Request
from ottla.wire.requests import FetchRequest
from tests.support.fake_world import TOPIC, FakeChannel, FakeCluster, World
from tests.support.waiting import eventually


class Brokers(FakeCluster):
    """A world's brokers that answer at once, but for those that are silent; counts what they are asked."""

    def __init__(self, world: World, silent: set[int], config: Any) -> None:
        super().__init__(world, config)
        self.silent = silent
        self.fetches = 0

    async def channel(self, broker_id: int, lane: int = 0) -> Any:
        return CountedChannel(self, self._world, broker_id)


class CountedChannel(FakeChannel):
    def __init__(self, brokers: Brokers, world: World, broker: int) -> None:
        super().__init__(world, broker)
        self._brokers = brokers

    async def request(self, request: Request, timeout_s: float) -> Answer:
        self._brokers.fetches += isinstance(request, FetchRequest)
        if self._broker in self._brokers.silent:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return self._world.answer(self._broker, request)


@asynccontextmanager
async def reading(
    monkeypatch: pytest.MonkeyPatch, *, silent: set[int], **options: Any
) -> AsyncIterator[tuple[AsyncConsumer, Brokers]]:
    """Of two brokers each leads one partition, with three records in it."""
    world = World(random.Random(1), brokers=2, partitions=2)
    for number, replica in enumerate(world.truth):
        replica.leader, replica.ends = number, [0, 3]
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
        records = await consumer.poll(timeout=2 * PREPARE_TIMEOUT_S)
        assert {record.partition for record in records} == {1}
        assert time.monotonic() - began < PREPARE_TIMEOUT_S / 2


async def test_broker_that_need_not_wait_is_not_asked_without_a_pause(monkeypatch) -> None:
    async with reading(monkeypatch, silent=set(), fetch_max_wait_ms=0) as (consumer, brokers):
        async with asyncio.timeout(10):
            read = 0
            while read < 6:
                read += len(await consumer.poll(timeout=1))
        before, began = brokers.fetches, time.monotonic()
        await eventually(lambda: brokers.fetches >= before + 20)
        assert time.monotonic() - began > 20 / 2 * EMPTY_FETCH_S * 0.8  # two brokers
