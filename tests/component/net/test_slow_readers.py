"""A consumer that does not read what it asked for slows down itself, and costs no more memory than the limits say."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ottla.net.limits import Limits
from ottla.net.server import Server
from ottla.wire import native
from ottla.wire.messages import CONSUMER
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.wire.requests import FetchPart, FetchRequest, FetchResponse
from tests.component.replication.brokers import Cluster, running_cluster, turns
from tests.support.machine import scaled
from tests.support.waiting import eventually

MIB = 1024 * 1024
A0 = TopicPartition("a", 0)
BATCH = 200_000
HIGH = Limits().write_buffer_high


class Consumer:
    """Asks, and reads when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.asked = 0

    def ask(self, *places: tuple[TopicPartition, int], wait_ms: int = 60_000) -> None:
        parts = [FetchPart(where.topic, where.partition, offset, MIB, NO_EPOCH) for where, offset in places]
        request = FetchRequest(wait_ms, 1, 50 * MIB, parts, CONSUMER)
        self._writer.write(b"".join(map(bytes, native.encode_request(request, self.asked, "slow"))))
        self.asked += 1

    async def answer(self) -> int:
        """The next answer: how many bytes of records."""
        async with asyncio.timeout(scaled(10)):
            (size,) = struct.unpack(">I", await self._reader.readexactly(4))
            response = native.decode_response(memoryview(await self._reader.readexactly(size)))
        message = native.decode_fields(FetchResponse, response.fields)
        return sum(part.size for part in message.parts)

    def hang_up(self) -> None:
        self._writer.transport.abort()


class Place:
    """A leader that consumers can reach over real sockets."""

    def __init__(self, cluster: Cluster, server: Server, port: int) -> None:
        self.cluster = cluster
        self.server = server
        self._port = port
        self.consumers: list[Consumer] = []

    async def consumer(self) -> Consumer:
        self.consumers.append(Consumer(*await asyncio.open_connection("127.0.0.1", self._port, limit=64 * 1024)))
        return self.consumers[-1]

    def append(self, where: TopicPartition = A0, size: int = BATCH) -> None:
        self.cluster.leader.append(where, payload=size)

    async def waiting(self, count: int) -> None:
        await eventually(lambda: self.cluster.leader.purgatories.fetch.size == count)


@asynccontextmanager
async def leader_at_work(tmp_path, **limits: int) -> AsyncIterator[Place]:
    async with running_cluster(tmp_path, followers=()) as cluster:
        server = cluster.leader._server
        server.limits = Limits(**limits)
        place = Place(cluster, server, await server.start("127.0.0.1", 0))
        try:
            yield place
        finally:
            for consumer in place.consumers:
                consumer.hang_up()
            await server.stop()


async def test_waiting_fetches_of_a_peer_that_does_not_read_are_held_back_and_then_all_answered(tmp_path) -> None:
    async with leader_at_work(tmp_path) as place:
        await place.cluster.create(A0)
        slow = await place.consumer()
        for _ in range(256):
            slow.ask((A0, 0))
        await place.waiting(256)
        place.append()
        await turns()
        assert place.server.unsent_memory() <= HIGH + 2 * BATCH
        quick = await place.consumer()
        quick.ask((A0, 0))
        assert await quick.answer() > BATCH  # nobody else waits for it
        assert place.server.unsent_memory() <= HIGH + 2 * BATCH
        assert all([await slow.answer() > BATCH for _ in range(256)])


async def test_a_fetch_behind_one_that_waits_is_read_when_its_turn_comes(tmp_path) -> None:
    b0 = TopicPartition("b", 0)
    async with leader_at_work(tmp_path) as place:
        await place.cluster.create(A0, b0)
        slow = await place.consumer()
        slow.ask((b0, 0))
        for _ in range(100):
            slow.ask((A0, 0))
        await place.waiting(101)
        place.append()
        await turns()
        assert place.cluster.leader.purgatories.fetch.size == 101
        place.append(b0)
        assert all([await slow.answer() > BATCH for _ in range(101)])


async def test_answers_that_are_ready_behind_one_that_waits_are_limited_too(tmp_path) -> None:
    b0 = TopicPartition("b", 0)
    async with leader_at_work(tmp_path) as place:
        await place.cluster.create(A0, b0)
        place.append()
        slow = await place.consumer()
        slow.ask((b0, 0))
        for _ in range(200):
            slow.ask((A0, 0))
        await eventually(lambda: place.server.unsent_memory() > HIGH)
        await turns()
        assert place.server.unsent_memory() <= HIGH + 2 * BATCH
        place.append(b0)
        assert all([await slow.answer() > BATCH for _ in range(201)])


async def test_time_over_for_a_peer_that_does_not_read_means_no_records(tmp_path) -> None:
    async with leader_at_work(tmp_path) as place:
        await place.cluster.create(A0)
        slow = await place.consumer()
        for _ in range(256):
            slow.ask((A0, 0), wait_ms=300)
        await place.waiting(256)
        place.append()
        await place.waiting(0)
        assert place.server.unsent_memory() <= HIGH + 2 * BATCH
        sizes = [await slow.answer() for _ in range(256)]
        assert sizes[0] > BATCH
        assert sizes[-1] == 0


async def test_beyond_the_limit_of_all_together_the_one_that_has_not_read_for_longest_is_cut(tmp_path, caplog) -> None:
    async with leader_at_work(tmp_path, unsent_bytes=12 * MIB) as place:
        await place.cluster.create(A0)
        place.append()
        slow = []
        for _ in range(4):
            slow.append(await place.consumer())
            for _ in range(250):
                slow[-1].ask((A0, 0))
            await eventually(lambda: any(c.stalled_at is not None for c in place.server.connections))
            await turns()
            assert place.server.unsent_memory() <= 12 * MIB + 2 * BATCH
        await eventually(lambda: "answers that nobody reads" in caplog.text)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            for _ in range(250):
                await slow[0].answer()
        assert all([await slow[-1].answer() > BATCH for _ in range(250)])
