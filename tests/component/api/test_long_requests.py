"""Requests of very many partitions, over sockets: all are answered, nobody else waits for them, and nothing is kept of a client
that hangs up in the middle of one."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.kafka_batches import KafkaBatches
from ottla.chaos.fuzz.answers import Asked, read_answer
from ottla.chaos.fuzz.schemas import FETCH, PRODUCE, schema_of_request
from ottla.net.long_requests import IN_HAND_MAX, long_requests
from ottla.net.server import Server
from ottla.wire.batch import MAGIC_KAFKA, Buffer
from ottla.wire.control import PartitionState, TopicConfig, UpdateMetadataRequest
from ottla.wire.kafka.batches import batches_of
from ottla.wire.kafka.dialect import KafkaDialect
from ottla.wire.kafka.schemas import struct_writer
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.native import NATIVE
from ottla.wire.records import RecordBatch, encode_batch
from tests.component.api.served import Served, append, with_partitions
from tests.support.kafka_values import frame
from tests.support.loop_time import no_long_callback
from tests.support.machine import scaled
from tests.support.waiting import eventually

LIST_OFFSETS, DELETE_RECORDS, EPOCH_ENDS = 2, 21, 23
MANY = 200_000


class Client:
    """Sends requests of Kafka's protocol in a thread, whose CPU time is not the event loop's, and reads answers strictly."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=scaled(60))
        self._stream = self.socket.makefile("rb")
        self._has_greeted = False

    def send(self, api: int, version: int, values: dict[str, Any]) -> Asked:
        if not self._has_greeted:  # until then frames have 64 KB
            self._has_greeted = True
            self.exchange((18, 0, {}))
        schema, body = schema_of_request(api), bytearray()
        flexible = version in schema.flexible
        struct_writer(schema.fields, version, flexible)(body, values)
        request = frame(api, version, flexible, bytes(body))
        self.socket.sendall(struct.pack(">i", len(request)) + request)
        return Asked(api, version, 7)

    def receive(self, asked: Asked) -> SimpleNamespace:
        (size,) = struct.unpack(">i", self._stream.read(4))
        return read_answer(asked, self._stream.read(size))

    def exchange(self, *requests: tuple[int, int, dict[str, Any]]) -> list[SimpleNamespace]:
        """All are sent before the first answer is read; Produce with acks=0 gets none."""
        asked = [(self.send(*request), request[2].get("acks") != 0) for request in requests]
        return [self.receive(one) for one, is_answered in asked if is_answered]

    async def ask_all(self, *requests: tuple[int, int, dict[str, Any]]) -> list[SimpleNamespace]:
        return await asyncio.to_thread(self.exchange, *requests)

    async def ask(self, api: int, version: int, values: dict[str, Any]) -> SimpleNamespace:
        (answer,) = await self.ask_all((api, version, values))
        return answer


@pytest.fixture
async def server(served: Served) -> AsyncIterator[tuple[Server, int]]:
    dialects = (NATIVE, KafkaDialect(served.view, KafkaBatches().convert))
    running = Server(served._dispatch, turn=served.turn, dialects=dialects)
    running.on_closed.append(served.consumers.end)
    port = await running.start("127.0.0.1", 0)
    yield running, port
    await running.stop()
    assert running.pool.in_use == 0


@pytest.fixture
def client(server: tuple[Server, int]) -> Iterator[Client]:
    found = Client(server[1])
    yield found
    found.socket.close()


def wanted(numbers: list[int], offset: int = 0) -> list[dict[str, Any]]:
    return [{"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20} for number in numbers]


def fetch_of(numbers: list[int], *, session: int = 0, epoch: int = -1, wait_ms: int = 0) -> dict[str, Any]:
    return {
        "replica_id": -1, "max_wait_ms": wait_ms, "max_wait": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20,
        "session_id": session, "session_epoch": epoch,
        "topics": [{"topic": "t", "partitions": wanted(numbers)}] if numbers else [],
    }  # fmt: skip


async def test_two_hundred_thousand_partitions_are_answered_in_slices(served: Served, client: Client) -> None:
    """Of ten that there are, named again and again, and one that there is not. The same answer stands in each place."""
    await with_partitions(served, 10)
    append(served, 3)
    named = [number % 11 for number in range(MANY)]
    offsets = [{"partition_index": number, "timestamp": -1} for number in named]
    fewer = named[: MANY // 10]
    ends = [{"partition": number, "leader_epoch": 0} for number in fewer]
    with no_long_callback():
        found = await client.ask_all(
            (LIST_OFFSETS, 1, {"replica_id": -1, "topics": [{"name": "t", "partitions": offsets}]}),
            (EPOCH_ENDS, 3, {"replica_id": -1, "topics": [{"topic": "t", "partitions": ends}]}),
            (FETCH, 4, fetch_of(fewer)),
            (18, 0, {}),
        )
    told: dict[int, tuple[int, int]] = {}
    for part in found[0].topics[0].partitions:
        assert told.setdefault(part.partition_index, (part.error_code, part.offset)) == (part.error_code, part.offset)
    assert told == {number: (0, 1 if number == 3 else 0) for number in range(10)} | {10: (3, -1)}
    assert len(found[0].topics[0].partitions) == 10 * len(found[1].topics[0].partitions) == MANY
    parts = found[2].responses[0].partitions
    assert [part.partition_index for part in parts] == fewer
    assert {(part.error_code, part.high_watermark) for part in parts if part.partition_index == 3} == {(0, 1)}
    assert sum(len(part.records or b"") for part in parts) <= 1 << 20


async def test_long_fetch_sees_what_is_appended_while_it_waits(served: Served, client: Client) -> None:
    await with_partitions(served, 2)
    asking = asyncio.ensure_future(client.ask(FETCH, 4, fetch_of([0, 1] * 1500, wait_ms=60_000)))
    await asyncio.sleep(0.1)
    append(served, 1)
    found = await asking
    assert any(len(part.records or b"") for part in found.responses[0].partitions)


async def test_session_of_thousands_of_partitions_is_begun_and_goes_on_in_slices(
    served: Served, client: Client
) -> None:
    await with_partitions(served, 3)
    numbers = list(range(2_500))  # most do not exist, and are told of with an error
    with no_long_callback():
        begun = await client.ask(FETCH, 7, fetch_of(numbers, epoch=0))
        assert served.consumers.kept == 2_500
        append(served, 1)
        found = await client.ask(FETCH, 7, fetch_of(numbers, session=begun.session_id, epoch=1, wait_ms=60_000))
    assert {part.error_code for part in found.responses[0].partitions} == {0, 3}
    assert [part.partition_index for part in found.responses[0].partitions if part.records] == [1]
    nothing = await client.ask(FETCH, 7, fetch_of([], session=begun.session_id, epoch=2))
    assert (nothing.error_code, served.consumers.kept) == (0, 2_500)


async def test_session_of_more_partitions_than_one_may_keep_is_none(served: Served, client: Client) -> None:
    await with_partitions(served, 1)
    found = await client.ask(FETCH, 7, fetch_of(list(range(10_001)), epoch=0))
    assert (found.session_id, served.consumers.kept, len(found.responses[0].partitions)) == (0, 0, 10_001)


@pytest.mark.parametrize("epoch", [0, 1], ids=["begins", "goes on"])
async def test_nothing_is_kept_of_a_client_that_hangs_up_while_its_session_is_made(
    served: Served, client: Client, server: tuple[Server, int], epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_partitions(served, 2)
    session = (await client.ask(FETCH, 7, fetch_of([0], epoch=0))).session_id if epoch else 0
    monkeypatch.setattr("ottla.broker.api.slices.SLICE_S", 0.0)
    await asyncio.to_thread(client.send, FETCH, 7, fetch_of(list(range(9_000)), session=session, epoch=epoch))
    await eventually(lambda: served.consumers.kept > 1)
    client.socket.shutdown(socket.SHUT_RDWR)
    await eventually(lambda: not server[0].connections)
    await asyncio.sleep(0.05)
    assert (len(served.consumers), served.consumers.kept) == (0, 0)


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_many_batches_of_one_request_are_stored_in_order(served: Served, client: Client, acks: int) -> None:
    """Also before those of the next request, which is short."""
    await with_partitions(served, 2)
    count = 2_100

    def batches(first: int, last: int) -> dict[str, Any]:
        one = [
            bytes(encode_batch([b"%d" % number], timestamps=int(time.time() * 1000), magic=MAGIC_KAFKA))
            for number in range(first, last)
        ]
        parts = [{"index": number % 2, "records": records} for number, records in enumerate(one)]
        return {"acks": acks, "timeout_ms": 5_000, "topic_data": [{"name": "t", "partition_data": parts}]}

    requests = [(PRODUCE, 3, batches(0, count)), (PRODUCE, 3, batches(count, count + 2)), (18, 0, {})]
    with no_long_callback():
        found = await client.ask_all(*requests)
    for told in found[:-1]:
        assert {part.error_code for part in told.responses[0].partition_responses} == {0}
    assert [served.partition("t", number).high_watermark for number in (0, 1)] == [count // 2 + 1] * 2
    for number in (0, 1):
        stored = [
            value
            for view in served.partition("t", number).read(0, 1 << 20, at_least_one=True)
            for value in values_in(view)
        ]
        assert stored == [b"%d" % each for each in range(number, count + 2, 2)]


def values_in(view: Buffer) -> list[bytes | None]:
    return [value for batch in batches_of(view) for value in RecordBatch(batch).values()]


async def test_records_of_many_partitions_can_be_deleted(served: Served, client: Client) -> None:
    await with_partitions(served, 3)
    append(served, 1, count=2)
    parts = [{"partition_index": number % 4, "offset": number % 2} for number in range(3_000)]
    values = {"topics": [{"name": "t", "partitions": parts}], "timeout_ms": 5_000}
    with no_long_callback():
        found = await client.ask(DELETE_RECORDS, 1, values)
    told = {(part.partition_index, part.error_code, part.low_watermark) for part in found.topics[0].partitions}
    assert told == {(0, 0, 0), (2, 0, 0), (1, 0, 1), (3, 3, -1)}


async def test_metadata_of_very_many_topics_is_described_and_written_in_slices(served: Served, client: Client) -> None:
    await with_partitions(served, 3)
    brokers = [BrokerEndpoint(broker, "host", 9092) for broker in (1, 2)]
    states = [
        PartitionState(f"topic-{number}", f"id{number}", partition, 1, 0, [1, 2], [1, 2], 1, 1, [])
        for number in range(3_000)
        for partition in range(2)
    ]
    topics = [TopicConfig(f"topic-{number}", f"id{number}", {}) for number in range(3_000)]
    served.view.update(UpdateMetadataRequest(1, 1, 1, False, brokers, topics, states, [], 10**6))
    names = [f"topic-{number}" for number in range(2_900, 3_100)] * 10 + ["no/topic"] * 100
    with no_long_callback():
        everything, some = await client.ask_all(
            (3, 1, {"topics": None}), (3, 1, {"topics": [{"name": name} for name in names]})
        )
    assert len(everything.topics) == 3_001
    assert sum(len(topic.partitions) for topic in everything.topics) == 6_003
    told = {topic.name: topic.error_code for topic in some.topics}
    assert (told["topic-2999"], told["topic-3000"], told["no/topic"], len(told)) == (0, 3, 17, 201)


async def test_few_long_requests_are_in_hand_at_once_and_all_are_answered(
    served: Served, server: tuple[Server, int]
) -> None:
    """Each is hundreds of megabytes of objects. Those of clients that hang up, also while they wait, free their places."""
    await with_partitions(served, 1)
    in_hand = long_requests()
    clients = [Client(server[1]) for _ in range(3 * IN_HAND_MAX)]
    for one in clients[: 2 * IN_HAND_MAX]:
        await asyncio.to_thread(one.send, FETCH, 4, fetch_of([0] * 2_500, wait_ms=60_000))
    await eventually(lambda: in_hand.object_bytes > 0)
    for one in clients[: 2 * IN_HAND_MAX]:
        one.socket.close()
    asked = [one.ask(FETCH, 4, fetch_of([0] * 2_500)) for one in clients[2 * IN_HAND_MAX :]]
    answers = await asyncio.gather(*asked)
    assert [len(found.responses[0].partitions) for found in answers] == [2_500] * IN_HAND_MAX
    await eventually(lambda: in_hand.in_hand == 0)
    for one in clients:
        one.socket.close()
