"""A second dialect beside the native one, on a real server: what a connection and its requests make of it."""

import asyncio
import struct
import threading
from collections.abc import Sequence

import pytest

from ottla.net.answers import CONVERTERS
from ottla.net.connection import Connection
from ottla.net.reply import Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import InvalidRequest, LocalProtocolError, OttlaError, RemoteProtocolError, UnsupportedVersion
from ottla.wire.framing import FRAME_MAX
from ottla.wire.messages import Api, Message
from ottla.wire.native import NATIVE
from ottla.wire.requests import ApiRange, ApiVersionsRequest, FetchResponse, MetadataRequest
from tests.component.net.conftest import HELLO, RawPeer, RunningServer, Serve
from tests.support.machine import scaled
from tests.support.waiting import eventually


class Telegrams:
    """Frames of text: ``!<correlation id> <word>``. Records are upper-cased for its peers, in a thread."""

    def __init__(self) -> None:
        self.api_ranges = [ApiRange(int(Api.API_VERSIONS), 3, 4)]
        self.go_on = threading.Event()
        self.go_on.set()
        self.threads: set[int] = set()
        self.made = 0

    def converts(self, message: Message, attachments: Sequence[Buffer]) -> bool:
        return True

    def speaks(self, body: memoryview) -> bool:
        return body[0] == ord("!")

    def frame_max(self, head: memoryview) -> int:
        return FRAME_MAX if self.is_produce(head) else 0

    def is_produce(self, head: memoryview) -> bool:
        return head[0] == ord("!")

    def read_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        number, _, word = bytes(body[1:]).decode().partition(" ")
        if word == "garbage":
            raise RemoteProtocolError("garbage")
        if word == "newer":
            return UnreadableRequest(self, int(Api.FETCH), 9, int(number), UnsupportedVersion("9"))
        return IncomingRequest(self, int(Api.METADATA), 1, int(number), "telegraph", MetadataRequest([word]), [])

    def read_long_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        raise AssertionError("there are none in this dialect")

    def encode_response(
        self, request: IncomingRequest, message: Message, attachments: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        self.threads.add(threading.get_ident())
        if attachments:
            self.go_on.wait(5)
            self.made += 1
        text = b"".join(bytes(piece).upper() for piece in attachments)
        if text == b"FAILS":
            raise ValueError("cannot be converted")
        if text == b"LONG":
            raise LocalProtocolError("as long as that")
        return [*_frame(f"{request.correlation_id} v{request.version} ".encode() + text)]

    def encode_error(self, request: IncomingRequest | UnreadableRequest, error: OttlaError) -> list[Buffer]:
        shape = f"{request.correlation_id} api {request.api} v{request.version} {error.wire_name()}"
        return [*_frame(shape.encode())]


def _frame(body: bytes) -> list[Buffer]:
    return [struct.pack(">I", len(body)), body]


async def send(peer: RawPeer, text: str) -> None:
    peer.send(b"".join(map(bytes, _frame(text.encode()))))


async def answer(peer: RawPeer) -> str:
    async with asyncio.timeout(scaled(5)):
        (size,) = struct.unpack(">I", await peer.reader.readexactly(4))
        return (await peer.reader.readexactly(size)).decode()


class Words:
    """Answers a word with itself as records; ``error`` fails, ``later`` is answered when ``promised`` is given."""

    def __init__(self) -> None:
        self.promised: list[Later] = []

    def __call__(self, request: IncomingRequest, connection: Connection) -> Reply | Later:
        if isinstance(request.message, ApiVersionsRequest):
            return Reply(FetchResponse([]))
        assert isinstance(request.message, MetadataRequest)
        (word,) = request.message.topics or []
        if word == "error":
            return Reply(None, error=InvalidRequest("no"))
        if word.startswith("later"):
            self.promised.append(Later())
            return self.promised[-1]
        return Reply(FetchResponse([]), [word.encode()] if word != "none" else [])


@pytest.fixture
def telegrams() -> Telegrams:
    return Telegrams()


@pytest.fixture
async def running(serve: Serve, telegrams: Telegrams) -> RunningServer:
    return await serve(Words(), dialects=(NATIVE, telegrams))


async def test_first_bytes_pick_the_dialect_and_each_is_answered_in_its_own(running: RunningServer) -> None:
    telegraph, native = await running.connect(), await running.connect()
    await send(telegraph, "!7 none")
    native.ask(HELLO, correlation_id=3)
    assert await answer(telegraph) == "7 v1 "
    assert (await native.answer()).correlation_id == 3


async def test_a_connection_keeps_its_dialect(running: RunningServer) -> None:
    telegraph = await running.connect()
    await send(telegraph, "!1 none")
    assert await answer(telegraph) == "1 v1 "
    telegraph.send(b"\x00\x00\x00\x02\x96\xce")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
        await answer(telegraph)


async def test_what_no_dialect_speaks_is_hung_up_on(running: RunningServer) -> None:
    peer = await running.connect()
    await send(peer, "?1 none")
    assert await peer.closed() == b""


async def test_errors_have_the_shape_of_their_api_even_if_the_request_could_not_be_read(running: RunningServer) -> None:
    peer = await running.connect()
    await send(peer, "!1 error")
    await send(peer, "!2 newer")
    assert await answer(peer) == f"1 api {int(Api.METADATA)} v1 INVALID_REQUEST"
    assert await answer(peer) == f"2 api {int(Api.FETCH)} v9 UNSUPPORTED_VERSION"


async def test_conversion_is_off_the_event_loop_and_keeps_nobody_else_waiting(
    running: RunningServer, telegrams: Telegrams
) -> None:
    telegrams.go_on.clear()
    slow, other = await running.connect(), await running.connect()
    await send(slow, "!1 records")
    await send(slow, "!2 none")
    await send(other, "!3 none")
    assert await answer(other) == "3 v1 "
    assert threading.get_ident() in telegrams.threads
    telegrams.go_on.set()
    assert [await answer(slow), await answer(slow)] == ["1 v1 RECORDS", "2 v1 "]
    assert len(telegrams.threads) == 2


async def test_answers_that_are_converted_leave_in_the_order_of_their_requests(running: RunningServer) -> None:
    peer, words = await running.connect(), running.server.handler
    assert isinstance(words, Words)
    for number, word in enumerate(["later-a", "b", "none", "later-c", "error", "d"]):
        await send(peer, f"!{number} {word}")
    await eventually(lambda: len(words.promised) == 2)
    words.promised[1].give(Reply(FetchResponse([]), [b"c"]))
    words.promised[0].give(Reply(FetchResponse([]), [b"a"]))
    found = [await answer(peer) for _ in range(6)]
    assert found == ["0 v1 A", "1 v1 B", "2 v1 ", "3 v1 C", f"4 api {int(Api.METADATA)} v1 INVALID_REQUEST", "5 v1 D"]


async def test_a_conversion_that_fails_is_an_error_of_that_request_alone(running: RunningServer) -> None:
    peer = await running.connect()
    for number, word in enumerate(["fails", "long", "fine"]):
        await send(peer, f"!{number} {word}")
    api = int(Api.METADATA)
    assert [await answer(peer) for _ in range(3)] == [
        f"0 api {api} v1 UNKNOWN_SERVER_ERROR", f"1 api {api} v1 INVALID_REQUEST", "2 v1 FINE"
    ]  # fmt: skip


async def test_a_peer_that_leaves_during_a_conversion_leaves_nothing_behind(
    running: RunningServer, telegrams: Telegrams
) -> None:
    telegrams.go_on.clear()
    peer = await running.connect()
    await send(peer, "!1 records")
    await send(peer, "!2 records")
    await eventually(lambda: len(telegrams.threads) == 1)
    peer.reset()
    await eventually(lambda: not running.server.connections)
    telegrams.go_on.set()
    other = await running.connect()
    await send(other, "!3 fine")
    assert await answer(other) == "3 v1 FINE"


async def test_nothing_is_converted_for_a_peer_that_does_not_take_what_was(serve: Serve, telegrams: Telegrams) -> None:
    """What is converted lies in memory: a peer that does not read costs one answer more than the limit, whatever it asks."""
    high, word, count = 256 * 1024, "x" * 60_000, 250
    running = await serve(Words(), dialects=(NATIVE, telegrams), write_buffer_high=high)
    peer, other = await running.connect(limit=1024), await running.connect()
    for number in range(count):
        await send(peer, f"!{number} {word}")
    await eventually(lambda: any(connection.stalled_at is not None for connection in running.server.connections))
    for number in range(100):  # conversions of others go on, and so would those of the peer
        await send(other, f"!{number} fine")
        assert await answer(other) == f"{number} v1 FINE"
    assert running.server.unsent_memory() < high + 2 * len(word)
    assert [await answer(peer) for _ in range(count)] == [f"{number} v1 {word.upper()}" for number in range(count)]


async def test_conversions_for_peers_that_have_gone_are_not_made(serve: Serve, telegrams: Telegrams) -> None:
    """Few are made at a time, so those that wait must not keep the others."""
    running = await serve(Words(), dialects=(NATIVE, telegrams))
    telegrams.go_on.clear()
    gone = [await running.connect() for _ in range(CONVERTERS + 5)]
    for peer in gone:
        await send(peer, "!1 hostile")
    await asyncio.sleep(0.1)
    for peer in gone:
        await peer.aclose()
    await eventually(lambda: not running.server.connections)
    telegrams.made = 0
    telegrams.go_on.set()
    peer = await running.connect()
    await send(peer, "!2 fine")
    assert await answer(peer) == "2 v1 FINE"
    assert telegrams.made <= CONVERTERS + 1


async def test_who_does_not_greet_may_begin_with_a_large_request_if_it_is_one(
    serve: Serve, telegrams: Telegrams
) -> None:
    """sarama opens a connection to a leader and says nothing but records: the first frame is as long as they are."""
    running = await serve(Words(), dialects=(NATIVE, telegrams), first_frame_max=1000, frame_max=5000)
    known, stranger, too_long = [await running.connect() for _ in range(3)]
    text = f"!7 {'x' * 4000}"
    for piece in (
        b"\0\0",
        struct.pack(">H", len(text)) + b"!",
        text[1:].encode(),
    ):  # its first bytes may come one by one
        known.send(piece)
        await asyncio.sleep(0.01)
    assert await answer(known) == f"7 v1 {'X' * 4000}"
    await send(stranger, f"?7 {'x' * 4000}")
    assert await stranger.closed() == b""
    await send(too_long, f"!7 {'x' * 6000}")
    assert await too_long.closed() == b""


async def test_a_handler_that_hangs_up_takes_no_answer_back_that_was_given_before(
    serve: Serve, telegrams: Telegrams
) -> None:
    """As Produce with acks=0 does whose records are refused."""

    def handler(request: IncomingRequest, connection: Connection) -> Reply | None:
        assert isinstance(request.message, MetadataRequest)
        if request.message.topics == ["hang-up"]:
            connection.close()
            return None
        return Reply(None, error=InvalidRequest("no"))

    running = await serve(handler, dialects=(NATIVE, telegrams))
    peer = await running.connect()
    peer.send(b"".join(bytes(piece) for text in (b"!1 first", b"!2 hang-up", b"!3 last") for piece in _frame(text)))
    assert await answer(peer) == f"1 api {int(Api.METADATA)} v1 INVALID_REQUEST"
    assert await peer.closed() == b""
