"""Fetch sessions of Kafka's clients over real connections: what is kept goes with its connection, whatever was under way."""

import asyncio
import io
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ottla.broker.kafka_batches import KafkaBatches
from ottla.net.server import Server
from ottla.wire.kafka.dialect import KafkaDialect
from ottla.wire.messages import Api
from ottla.wire.native import NATIVE
from ottla.wire.requests import FIRST_EPOCH, NO_SESSION
from tests.component.api.numbered_client import LONG_MS, MUCH
from tests.component.api.served import Served, append, with_partitions
from tests.support.kafka_values import entity_of, frame, plain
from tests.support.machine import scaled
from tests.support.waiting import eventually

FETCH = int(Api.FETCH)
VERSION = 7


class Client:
    """Sends fetches without waiting for their answers, if it likes."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self.writer = writer

    @property
    def has_begun_a_request(self) -> bool:
        """Whether the broker has half of one."""
        return any(connection._reader.partial for connection in self._server.connections)

    def send(self, session: int, epoch: int, *partitions: int, wait_ms: int = LONG_MS, min_bytes: int = 1) -> None:
        parts = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": MUCH} for number in partitions]
        values: dict[str, Any] = {
            "replica_id": -1, "max_wait": wait_ms, "min_bytes": min_bytes, "max_bytes": MUCH,
            "session_id": session, "session_epoch": epoch, "forgotten_topics_data": [],
            "topics": [{"topic": "t", "partitions": parts}] if parts else [],
        }  # fmt: skip
        schema, out = load_request_schema(FETCH, VERSION), io.BytesIO()
        entity_writer(schema)(out, entity_of(schema, values))
        request = frame(FETCH, VERSION, schema.__flexible__, out.getvalue())
        self.writer.write(struct.pack(">i", len(request)) + request)

    async def receive(self) -> Any:
        async with asyncio.timeout(scaled(10)):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            answer = await self._reader.readexactly(size)
        entity, _ = entity_reader(load_response_schema(FETCH, VERSION))(answer[4:], 0)
        return plain(entity)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    server = Server(
        served._dispatch, turn=served.turn, dialects=(NATIVE, KafkaDialect(served.view, KafkaBatches().convert))
    )
    server.on_closed.append(served.consumers.end)
    port = await server.start("127.0.0.1", 0)
    yield Client(server, *await asyncio.open_connection("127.0.0.1", port))
    await server.stop()


async def test_no_session_begins_when_its_connection_ends(served: Served, client: Client) -> None:
    """One that is asked for behind a fetch that waits: the end of that one's session must not let the other begin."""
    await with_partitions(served, 2)
    client.send(NO_SESSION, FIRST_EPOCH, 0, wait_ms=0)
    session = (await client.receive())["session_id"]
    client.send(session, 1)
    client.send(NO_SESSION, FIRST_EPOCH, 1)
    await eventually(lambda: served.purgatories.fetch.size == 2)
    append(served, 1)
    client.writer.write(struct.pack(">i", 1000) + b"half a request")
    await eventually(lambda: client.has_begun_a_request)
    client.writer.transport.abort()
    await eventually(lambda: served.purgatories.fetch.size == 0)
    assert (len(served.consumers), served.consumers.kept) == (0, 0)
