"""Within one consumer, without a seek, offsets only grow, whatever brokers do: random histories on the real classes."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from ottla.client.consuming import consumer as consumer_module
from ottla.client.consuming.consumer import AsyncConsumer
from ottla.wire.errors import OffsetOutOfRange
from ottla.wire.names import TopicPartition
from tests.support.fake_world import TOPIC, FakeCluster, World

SEEDS = range(60)
STEPS = 250
HEALED_S = 20.0


class Reader:
    """A consumer, and the check of all that it gives."""

    def __init__(self, world: World, consumer: AsyncConsumer) -> None:
        self.world = world
        self.consumer = consumer
        self.last: dict[int, tuple[int, int] | None] = {}
        self.history: list[tuple[int, int, int]] = []

    async def poll(self) -> None:
        if self.world.dice.random() < 0.5:
            records = await self.consumer.poll(max_records=self.world.dice.randint(1, 5))
            self._read([record.value for record in records])
        else:
            for fetched in await self.consumer.poll_batches():
                self._read(fetched.values())

    def _read(self, values: Iterable[bytes | None]) -> None:
        for value in values:
            assert value is not None
            incarnation, partition, offset = map(int, value.split())
            self.history.append((incarnation, partition, offset))
            self._check(incarnation, partition, offset)
            self.last[partition] = (incarnation, offset)

    def _check(self, incarnation: int, partition: int, offset: int) -> None:
        before = self.last.get(partition, (0, -1))
        if before is None:  # a seek: whatever comes first is right
            return
        assert (incarnation, offset) > before, f"{self.history[-20:]}: given twice, or out of order"
        truth = self.world.truth[partition]
        next_one = before[1] + 1 if incarnation == before[0] else 0
        if incarnation == truth.incarnation:
            assert offset <= max(next_one, truth.start), f"{self.history[-20:]}: something was left out"

    async def seek(self) -> None:
        number = self.world.dice.randrange(len(self.world.truth))
        truth = self.world.truth[number]
        self.last[number] = None
        to = self.world.dice.randint(truth.start, max(truth.start, truth.end - 1))
        await self.consumer.seek(TOPIC, number, to)

    async def pause_or_resume(self) -> None:
        where = TopicPartition(TOPIC, self.world.dice.randrange(len(self.world.truth)))
        if where in await self.consumer.assignment():
            await self.world.dice.choice([self.consumer.pause, self.consumer.resume])(where)

    async def assign_again(self) -> None:
        """Without a partition, and with it: it then begins at the beginning."""
        places = [(TOPIC, number) for number in range(len(self.world.truth))]
        left_out = self.world.dice.randrange(len(places))
        await self.consumer.assign([place for place in places if place[1] != left_out])
        self.last[left_out] = None
        await self.consumer.assign(places)

    @property
    def has_everything(self) -> bool:
        return all(
            truth.start == truth.end or self.last.get(number) == (truth.incarnation, truth.end - 1)
            for number, truth in enumerate(self.world.truth)
        )


@asynccontextmanager
async def reading(
    world: World, monkeypatch: pytest.MonkeyPatch, *, by_hand: bool, metadata_max_age_ms: int = 3
) -> AsyncIterator[Reader]:
    monkeypatch.setattr(consumer_module, "Cluster", partial(FakeCluster, world))
    topics = [] if by_hand else [TOPIC]
    consumer = AsyncConsumer(
        *topics, auto_offset_reset="earliest", retry_backoff_ms=1, retry_backoff_max_ms=2,
        metadata_max_age_ms=metadata_max_age_ms, fetch_buffer_bytes=2000,
    )  # fmt: skip
    if by_hand:
        await consumer.assign([(TOPIC, number) for number in range(len(world.truth))])
    async with consumer:
        yield Reader(world, consumer)


async def heal(world: World, reader: Reader) -> None:
    """Everything is delivered and everybody knows everything: now all must come."""
    for broker in world.brokers:
        world.hear(broker)
    await reader.consumer.resume(*await reader.consumer.assignment())
    async with asyncio.timeout(HEALED_S):
        while not reader.has_everything:
            while world.pending:
                world.deliver(0)
            await asyncio.sleep(0.001)
            await reader.poll()


@pytest.mark.parametrize("seed", SEEDS)
async def test_offsets_only_grow_and_nothing_is_left_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    world = World(dice)
    # Whoever hears news of the cluster all the time names everything again and again: some hear only what errors lead to.
    max_age_ms = 3 if seed % 4 < 2 else 300_000
    async with reading(world, monkeypatch, by_hand=seed % 2 == 1, metadata_max_age_ms=max_age_ms) as reader:
        steps: list[tuple[int, Callable[[], Awaitable[None] | None]]] = [
            (20, world.write), (8, world.elect), (8, world.hear), (2, world.retain), (60, world.deliver),
            (25, reader.poll), (3, reader.pause_or_resume), (8, world.listen), (1, world.replace_controller),
            (3, world.hang_up), (2, world.forget_kept),
        ]  # fmt: skip
        world.keeps = seed % 3 != 1  # some brokers keep nothing: they are told everything each time
        world.most_parts = dice.choice([1, 100])
        if seed % 3 == 0:
            steps += [(1, world.recreate)]
        if seed % 5 < 2:
            steps += [(8, reader.seek)]
            steps += [(1, reader.assign_again)] if seed % 2 else []
        weights = [weight for weight, _ in steps]
        for _ in range(STEPS):
            [(_, step)] = dice.choices(steps, weights)
            done = step()
            if done is not None:
                await done
            for _ in range(dice.randint(0, 6)):
                await asyncio.sleep(0)
            if dice.random() < 0.15:
                await asyncio.sleep(0.003)
        await heal(world, reader)


async def test_log_that_lost_what_was_read_is_an_error_until_somebody_seeks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(random.Random(7), partitions=1)
    for _ in range(20):
        world.write()
    async with reading(world, monkeypatch, by_hand=False) as reader:
        await heal(world, reader)
        lost = world.truth[0]
        lost.ends, end = lost.ends[:5], lost.end
        world.elect()
        for broker in world.brokers:
            world.hear(broker)
        async with asyncio.timeout(HEALED_S):
            with pytest.raises(OffsetOutOfRange, match=f"ends before offset {end}, up to which it was read"):
                while True:
                    world.deliver()
                    await asyncio.sleep(0.001)
                    await reader.poll()
        reader.last[0] = None
        await reader.consumer.seek(TOPIC, 0, 0)
        await heal(world, reader)
        assert reader.last[0] == (1, lost.end - 1)
