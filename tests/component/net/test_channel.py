"""The client's side: answers find their requests, every wait ends, and a hostile server is a typed error."""

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ottla.net import channel as channel_module
from ottla.net.channel import Channel, connect
from ottla.net.connection import Connection
from ottla.net.exchange import Answer
from ottla.net.reply import Reply
from ottla.wire import native
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    BrokerRefused,
    ClientClosed,
    ClientTimeout,
    InvalidTopic,
    NetworkException,
    NoBrokersAvailable,
    OttlaError,
    RemoteProtocolError,
)
from ottla.wire.framing import FRAME_MAX, LENGTH
from ottla.wire.messages import Message
from ottla.wire.requests import (
    ApiVersionsResponse,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProducePart,
    ProduceRequest,
)
from tests.component.net.conftest import Serve, answer_versions
from tests.support.machine import scaled
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("loop_errors")

NAMES = MetadataRequest(None)
FETCH = FetchRequest(0, 0, 0, [])


async def open_channel(port: int, frame_max: int = FRAME_MAX, *, borrow: bool = False) -> Channel:
    return await connect("127.0.0.1", port, client_id="me", timeout_s=5, frame_max=frame_max, borrow=borrow)


async def test_many_requests_in_flight_get_their_own_answers(serve: Serve) -> None:
    def echo(request: IncomingRequest, connection: Connection) -> Reply:
        if not isinstance(request.message, MetadataRequest):
            return answer_versions(request, connection)
        assert request.message.topics
        return Reply(MetadataResponse(request.message.topics[0], 0, [], []))

    channel = await open_channel((await serve(echo)).port)
    assert channel.peer is not None
    assert channel.peer.software == "me"
    sent = [channel.send(MetadataRequest([str(number)])) for number in range(500)]
    assert channel.in_flight == 500
    answers = [(await answer).message for answer in sent]
    assert [answer.cluster_id for answer in answers if isinstance(answer, MetadataResponse)] == [
        str(number) for number in range(500)
    ]
    assert channel.in_flight == 0
    await channel.close()


async def test_an_error_answer_is_raised_as_its_class_and_names_the_broker(serve: Serve) -> None:
    def refuse(request: IncomingRequest, connection: Connection) -> Reply:
        if isinstance(request.message, MetadataRequest):
            return Reply(None, error=InvalidTopic("no such name"))
        return answer_versions(request, connection)

    running = await serve(refuse)
    channel = await open_channel(running.port)
    with pytest.raises(InvalidTopic, match="no such name") as caught:
        await channel.request(NAMES, 5)
    assert caught.value.broker == f"127.0.0.1:{running.port}"
    assert channel.usable, "an error is an answer: the connection lives"
    await channel.close()


class Silent:
    """Answers the handshake and then nothing, until told."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[Reply]] = []

    def __call__(self, request: IncomingRequest, connection: Connection) -> Reply | asyncio.Future[Reply]:
        if not isinstance(request.message, MetadataRequest):
            return answer_versions(request, connection)
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]


async def test_a_timeout_names_the_address_and_a_late_answer_disturbs_nobody(serve: Serve) -> None:
    silent = Silent()
    running = await serve(silent)
    channel = await open_channel(running.port)
    with pytest.raises(ClientTimeout, match=rf"127\.0\.0\.1:{running.port} did not answer MetadataRequest in 0\.1 s"):
        await channel.request(NAMES, 0.1)
    silent.waiting[0].set_result(Reply(MetadataResponse("late", 0, [], [])))
    later = channel.send(NAMES)
    await eventually(lambda: len(silent.waiting) == 2)
    silent.waiting[1].set_result(Reply(MetadataResponse("in time", 0, [], [])))
    message = (await later).message
    assert isinstance(message, MetadataResponse)
    assert message.cluster_id == "in time"
    await channel.close()


async def test_a_broken_connection_fails_all_waiters_once_and_all_later_requests(serve: Serve) -> None:
    silent = Silent()
    running = await serve(silent)
    channel = await open_channel(running.port)
    called: list[int] = []
    waiting = [channel.send(NAMES) for _ in range(20)]
    for number, answer in enumerate(waiting):
        answer.add_done_callback(lambda _, number=number: called.append(number))  # type: ignore[misc]
    await eventually(lambda: len(silent.waiting) == 20)
    for connection in list(running.server.connections):
        connection.abort()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, NetworkException) for result in results)
    assert called == list(range(20))
    assert all(f"127.0.0.1:{running.port}" in str(result) for result in results)
    assert not channel.usable
    with pytest.raises(NetworkException):
        await channel.send(NAMES)
    with pytest.raises(NetworkException):
        channel.send_unanswered(ProduceRequest(0, 1, []))
    await channel.close()


async def test_closing_fails_those_who_wait(serve: Serve) -> None:
    silent = Silent()
    running = await serve(silent)
    channel = await open_channel(running.port)
    waiting = channel.send(NAMES)
    await channel.close()
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await channel.send(NAMES)
    await eventually(lambda: not running.server.connections)


async def test_what_was_sent_unanswered_arrives_before_a_close(serve: Serve) -> None:
    got: list[bytes] = []

    def keep(request: IncomingRequest, connection: Connection) -> Reply | None:
        if isinstance(request.message, ProduceRequest):
            got.extend(bytes(attachment) for attachment in request.attachments)
            return None
        return answer_versions(request, connection)

    channel = await open_channel((await serve(keep)).port)
    blob = b"r" * 1_000_000
    for _ in range(20):
        channel.send_unanswered(ProduceRequest(0, 1, [ProducePart("t", 0, len(blob))]), [blob])
    await channel.close()
    await eventually(lambda: got == [blob] * 20)


async def test_a_refused_connection_is_no_brokers_available() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(NoBrokersAvailable, match=f"127.0.0.1:{port}"):
        await open_channel(port)


@pytest.mark.parametrize("found", [["127.0.0.1"], ["127.0.0.2", "127.0.0.1"]])
async def test_a_name_of_which_all_addresses_refuse_is_a_broker_that_refuses(
    monkeypatch: pytest.MonkeyPatch, found: list[str]
) -> None:
    """By this a broker's process is known to be gone; ``localhost`` often has two addresses."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    resolved_to(monkeypatch, found)
    with pytest.raises(BrokerRefused, match=f"somewhere:{port}"):
        await connect("somewhere", port, client_id="me", timeout_s=5)


async def test_the_next_address_of_a_name_is_tried(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    port = (await serve(answer_versions)).port
    resolved_to(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    channel = await connect("somewhere", port, client_id="me", timeout_s=5)
    assert channel.usable
    await channel.close()


def resolved_to(monkeypatch: pytest.MonkeyPatch, addresses: list[str]) -> None:
    async def getaddrinfo(host: str, port: int, **options: int) -> list[tuple[object, ...]]:
        found = addresses if host == "somewhere" else [host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


# --- hostile servers -----------------------------------------------------------------------------------------------------

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def hostile(behaviour: Behaviour) -> AsyncIterator[int]:
    """A server that does as it likes with each connection; gives its port."""
    running: set[asyncio.Task[None]] = set()

    async def guard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await behaviour(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(guard, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> IncomingRequest:
    (size,) = LENGTH.unpack(await reader.readexactly(4))
    request = native.NATIVE.read_request(memoryview(await reader.readexactly(size)))
    assert isinstance(request, IncomingRequest)
    return request


def answer(message: Message, correlation_id: int) -> bytes:
    return b"".join(map(bytes, native.encode_response(message, correlation_id)))


def versions(correlation_id: int) -> bytes:
    return answer(ApiVersionsResponse([], "evil", 0, "c", b"n"), correlation_id)


def answers_with(make: Callable[[IncomingRequest], bytes]) -> Behaviour:
    """Shakes hands like a broker and answers the request after that with whatever ``make`` makes."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(versions((await read_request(reader)).correlation_id))
        writer.write(make(await read_request(reader)))
        await reader.read()

    return behave


def _fetch_that_lies(request: IncomingRequest) -> bytes:
    part = FetchPartResult(0, "", "t", 0, size=10**9)
    return b"".join(map(bytes, native.encode_response(FetchResponse([part]), request.correlation_id, [b"short"])))


@pytest.mark.parametrize(
    "make",
    [
        lambda request: versions(request.correlation_id + 1),
        lambda request: b"\x00\x00\x00\x08garbage!",
        lambda request: LENGTH.pack(2**31 - 1),
        lambda request: LENGTH.pack(0),
        lambda request: b"\x15\x03\x03\x00\x02\x02\x28",  # a TLS alert, which is a length of 352 MB (KIP-498)
        lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        lambda request: versions(request.correlation_id).replace(b"\x96\x90", b"\xc1\x90"),
        lambda request: answer(MetadataResponse("c", 0, [], []), request.correlation_id),
        _fetch_that_lies,
    ],
    ids=["wrong id", "garbage", "2 GB", "empty", "TLS alert", "HTTP", "damaged", "wrong kind", "lying size"],
)
async def test_a_hostile_answer_is_a_remote_protocol_error_for_all_who_wait(
    make: Callable[[IncomingRequest], bytes],
) -> None:
    async with hostile(answers_with(make)) as port:
        channel = await open_channel(port)
        waiting = [channel.send(FETCH), channel.send(FETCH), channel.send(NAMES)]
        async with asyncio.timeout(scaled(5)):
            results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [RemoteProtocolError] * 3
        assert all(isinstance(result, OttlaError) and result.broker == channel.address for result in results)
        assert not channel.usable
        await channel.close()


async def test_an_answer_nobody_asked_for_breaks_the_connection() -> None:
    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(versions((await read_request(reader)).correlation_id) + versions(2))
        await reader.read()

    async with hostile(chatty) as port:
        channel = await open_channel(port)
        await eventually(lambda: not channel.usable)
        with pytest.raises(RemoteProtocolError, match="not the next"):
            await channel.send(NAMES)
        await channel.close()


@pytest.mark.parametrize("greeting", [b"\x00\x00\x00\x05trash", b"SSH-2.0-OpenSSH_9.2\r\n"])
async def test_a_port_that_is_no_broker_is_a_protocol_error_when_connecting(greeting: bytes) -> None:
    async def foreign(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()

    async with hostile(foreign) as port:
        with pytest.raises(RemoteProtocolError):
            await open_channel(port)


async def test_a_port_that_says_nothing_is_a_timeout_that_names_it() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with hostile(mute) as port:
        began = time.monotonic()
        with pytest.raises(ClientTimeout, match=re.escape(f"127.0.0.1:{port} did not answer in 0.2 s")):
            await connect("127.0.0.1", port, client_id="me", timeout_s=0.2)
        assert time.monotonic() - began < scaled(2)


async def test_closing_does_not_wait_for_a_server_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "CLOSE_TIMEOUT_S", 0.2)
    stop = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(versions((await read_request(reader)).correlation_id))
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await stop.wait()

    async with hostile(deaf) as port:
        channel = await open_channel(port)
        blob = bytes(10_000_000)
        for _ in range(3):
            channel.send_unanswered(ProduceRequest(0, 1, [ProducePart("t", 0, len(blob))]), [blob])
        full = asyncio.ensure_future(channel.writable())
        assert not full.done()
        async with asyncio.timeout(scaled(3)):
            await channel.close()
            await full
        stop.set()


@pytest.mark.parametrize("borrow", [False, True])
async def test_records_are_there_while_the_receiver_runs_and_after_it_unless_they_are_borrowed(
    serve: Serve, borrow: bool
) -> None:
    sent = [bytes([number]) * 700_000 if number % 2 else bytes([number]) * 1000 for number in range(1, 9)]

    def records(request: IncomingRequest, connection: Connection) -> Reply:
        if not isinstance(request.message, FetchRequest):
            return answer_versions(request, connection)
        body = sent[request.message.max_wait_ms]
        return Reply(FetchResponse([FetchPartResult(0, "", "t", 0, len(body))]), [body])

    server = await serve(records)
    channel = await open_channel(server.port, borrow=borrow)
    copies: list[bytes] = []
    views: list[memoryview] = []

    def receive(answer: Answer | OttlaError) -> None:
        assert isinstance(answer, Answer)
        views.append(answer.attachments[0])
        copies.append(bytes(answer.attachments[0]))

    for number in range(len(sent)):
        channel.call(FetchRequest(number, 0, 0, []), receive)
    await eventually(lambda: len(copies) == len(sent))
    assert copies == sent
    if not borrow:
        assert [bytes(view) for view in views] == sent
    await channel.close()
