"""Answers leave in the order of their requests, and a peer that does not read them stops being read."""

import asyncio
import struct

import pytest

from ottla.net.answers import encode
from ottla.net.connection import Connection
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest, NotController, RequestTimedOut, UnknownServerError
from ottla.wire.framing import FRAME_MAX
from ottla.wire.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.requests import FetchPartResult, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse
from tests.component.net.conftest import HELLO, Serve, answer_versions, frame
from tests.support.kafka_dialect import dialect_of_two_topics
from tests.support.machine import scaled
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("loop_errors")

WAIT = FetchRequest(0, 0, 0, [])
NAMES = MetadataRequest(None)


class Waiter:
    """Fetches wait until they are let go; everything else is answered at once."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[Reply]] = []
        self.handled = 0

    def __call__(self, request: IncomingRequest, connection: Connection) -> Reply | asyncio.Future[Reply]:
        self.handled += 1
        if isinstance(request.message, FetchRequest):
            self.waiting.append(asyncio.get_running_loop().create_future())
            return self.waiting[-1]
        return answer_versions(request, connection)


EMPTY = Reply(FetchResponse([]))


async def test_answers_come_in_request_order_when_an_earlier_one_waits(serve: Serve) -> None:
    waiter = Waiter()
    peer = await (await serve(waiter)).connect()
    for number, request in enumerate([HELLO, WAIT, HELLO, WAIT, HELLO]):
        peer.ask(request, number)
    assert (await peer.answer()).correlation_id == 0
    await eventually(lambda: waiter.handled == 5)
    waiter.waiting[1].set_result(EMPTY)
    with pytest.raises(TimeoutError):
        await peer.answer(0.1)
    waiter.waiting[0].set_result(EMPTY)
    assert [(await peer.answer()).correlation_id for _ in range(4)] == [1, 2, 3, 4]
    await peer.aclose()


async def test_a_waiting_request_of_one_connection_delays_no_other(serve: Serve) -> None:
    waiter = Waiter()
    running = await serve(waiter)
    patient, quick = await running.connect(), await running.connect()
    patient.ask(WAIT)
    await eventually(lambda: len(waiter.waiting) == 1)
    quick.ask(HELLO, 8)
    assert (await quick.answer()).correlation_id == 8
    await patient.aclose()
    await quick.aclose()


async def test_failed_and_cancelled_answers_are_typed_errors_in_their_place(serve: Serve) -> None:
    waiter = Waiter()
    peer = await (await serve(waiter)).connect()
    for number in range(4):
        peer.ask(WAIT, number)
    await eventually(lambda: len(waiter.waiting) == 4)
    waiter.waiting[0].set_exception(NotController("not here"))
    waiter.waiting[1].set_exception(ZeroDivisionError("a bug"))
    waiter.waiting[2].cancel()
    waiter.waiting[3].set_result(Reply(None, error=InvalidRequest("no")))
    errors = [(await peer.answer()).error for _ in range(4)]
    assert [type(error) for error in errors] == [NotController, UnknownServerError, RequestTimedOut, InvalidRequest]
    await peer.aclose()


async def test_hanging_up_cancels_what_waits(serve: Serve) -> None:
    waiter = Waiter()
    peer = await (await serve(waiter)).connect()
    peer.ask(WAIT)
    await eventually(lambda: len(waiter.waiting) == 1)
    peer.reset()
    await eventually(lambda: waiter.waiting[0].cancelled())


async def test_who_fails_to_hear_of_a_connection_that_ended_keeps_nobody_else_from_it(serve: Serve) -> None:
    waiter, closed = Waiter(), list[Connection]()
    running = await serve(waiter)

    def fails(connection: Connection) -> None:
        raise ValueError("a listener that fails")

    running.server.on_closed += [fails, closed.append]
    peer = await running.connect()
    peer.send(frame(WAIT) + frame(WAIT)[:6])
    await eventually(lambda: len(waiter.waiting) == 1)
    peer.reset()
    await eventually(lambda: waiter.waiting[0].cancelled())
    assert len(closed) == 1


async def test_what_was_asked_before_garbage_is_answered_before_the_hang_up(serve: Serve) -> None:
    peer = await (await serve()).connect()
    peer.send(frame(HELLO, 41) + frame(HELLO, 42) + b"\x00\x00\x00\x05trash")
    assert [(await peer.answer()).correlation_id for _ in range(2)] == [41, 42]
    assert await peer.closed() == b""


async def test_a_refused_peer_gets_its_answer_one_log_line_and_the_hang_up(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def refusing(request: IncomingRequest, connection: Connection) -> Reply:
        connection.refuse("it cheated")
        return Reply(None, error=NotController("no"))

    running = await serve(refusing)
    peer = await running.connect()
    peer.send(frame(HELLO, 1) + frame(HELLO, 2))
    assert type((await peer.answer()).error) is NotController
    assert await peer.closed() == b"", "what follows is not answered any more"
    assert sum("it cheated" in record.getMessage() for record in caplog.records) == 1
    assert running.server.refused == 1


async def test_an_answer_too_long_for_a_frame_is_a_typed_error(serve: Serve) -> None:
    blob = bytes(FRAME_MAX // 2)

    def too_long(request: IncomingRequest, connection: Connection) -> Reply:
        part = FetchPartResult(0, "", "t", 0, len(blob))
        return Reply(FetchResponse([part] * 3), [blob] * 3)

    peer = await (await serve(too_long)).connect()
    peer.ask(HELLO, 5)
    answer = await peer.answer()
    assert (answer.correlation_id, type(answer.error)) == (5, InvalidRequest)
    await peer.aclose()


def test_a_list_too_long_for_a_frame_is_a_typed_error_in_kafkas_dialect() -> None:
    dialect = dialect_of_two_topics()
    request = IncomingRequest(dialect, ListGroupsRequest.api, 3, 7, "client", ListGroupsRequest([]), [])
    groups = (ListedGroup("g" * 1_000_000, "consumer", "Empty"),) * 110
    answer = b"".join(map(bytes, encode(request, Reply(ListGroupsResponse(0, "", groups)))))
    throttle_ms, error_code = struct.unpack_from(">ih", answer, 9)
    assert (throttle_ms, error_code, len(answer) < 100) == (0, InvalidRequest.code, True)


async def test_an_answer_that_cannot_be_encoded_is_an_error_of_that_request_alone(serve: Serve) -> None:
    """Promised or not: those behind it would wait for ever."""
    unsayable = Reply(FetchResponse([object()]))  # type: ignore[list-item]
    waiter = Waiter()

    def answering(request: IncomingRequest, connection: Connection) -> Reply | asyncio.Future[Reply]:
        return unsayable if isinstance(request.message, MetadataRequest) else waiter(request, connection)

    peer = await (await serve(answering)).connect()
    for number, request in enumerate([NAMES, WAIT, HELLO]):
        peer.ask(request, number)
    await eventually(lambda: len(waiter.waiting) == 1)
    waiter.waiting[0].set_result(unsayable)
    answers = [await peer.answer() for _ in range(3)]
    assert [type(answer.error) for answer in answers] == [UnknownServerError, UnknownServerError, type(None)]
    await peer.aclose()


async def test_no_more_requests_are_taken_than_may_wait_and_reading_goes_on_later(serve: Serve) -> None:
    waiter = Waiter()
    running = await serve(waiter, requests_in_flight=10, frame_s=0.3)
    peer = await running.connect()
    peer.send(frame(WAIT) * 1000 + frame(HELLO)[:7])
    await eventually(lambda: waiter.handled == 10)
    await asyncio.sleep(0.6)  # longer than frame_s: a frame that we do not read is not late
    assert waiter.handled == 10
    done: list[asyncio.Future[Reply]] = []
    while len(done) < 1000:
        await eventually(lambda: len(waiter.waiting) > len(done))
        for future in waiter.waiting[len(done) :]:
            future.set_result(EMPTY)
            done.append(future)
    for _ in range(1000):
        await peer.answer()
    peer.send(frame(HELLO, 77)[7:])
    assert (await peer.answer()).error is None
    await peer.aclose()


async def test_a_peer_that_never_reads_is_not_read_holds_little_and_is_cut(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    handled = 0
    big = Reply(MetadataResponse("c" * 100_000, 0, [], []))

    def generous(request: IncomingRequest, connection: Connection) -> Reply:
        nonlocal handled
        handled += 1
        return big if isinstance(request.message, MetadataRequest) else answer_versions(request, connection)

    high = 1024 * 1024
    running = await serve(generous, write_buffer_high=high, write_stall_s=0.5)
    peer = await running.connect(limit=1)  # its own buffer stops after two bytes
    peer.send(frame(NAMES) * 10_000)
    await eventually(lambda: any(connection._stalled_at for connection in running.server.connections))
    (connection,) = running.server.connections
    transport = connection._transport
    assert transport is not None
    assert transport.get_write_buffer_size() < 2 * high, "answers wait up to the mark and no further"
    after_stall = handled
    assert after_stall < 200
    healthy = await running.connect()
    for number in range(20):
        healthy.ask(HELLO, number)
        assert (await healthy.answer()).correlation_id == number
    assert handled == after_stall + 20, "not one more request of the silent peer was handled"
    await eventually(lambda: connection not in running.server.connections, scaled(3))
    assert any("does not read its answers" in record.getMessage() for record in caplog.records)
    await healthy.aclose()
    await peer.aclose()


async def test_a_peer_that_reads_slowly_gets_every_answer(serve: Serve) -> None:
    big = Reply(MetadataResponse("c" * 50_000, 0, [], []))
    running = await serve(lambda request, connection: big, write_buffer_high=256 * 1024)
    peer = await running.connect(limit=4096)
    peer.send(b"".join(frame(NAMES, number) for number in range(300)))
    for number in range(300):
        assert (await peer.answer()).correlation_id == number
    await peer.aclose()


async def test_a_closing_connection_whose_peer_reads_nothing_is_cut(serve: Serve) -> None:
    def last_words(request: IncomingRequest, connection: Connection) -> Reply:
        connection.refuse("enough")
        return Reply(MetadataResponse("c" * 8_000_000, 0, [], []))

    running = await serve(last_words, write_stall_s=0.3, write_buffer_high=64 * 1024 * 1024)
    peer = await running.connect(limit=1)
    peer.ask(NAMES)
    await eventually(lambda: running.server.refused == 1)
    await eventually(lambda: not running.server.connections, scaled(3))
    await peer.aclose()


@pytest.mark.parametrize("ending", ["finish", "reset"])
async def test_a_peer_that_hangs_up_behind_unread_requests_is_noticed(serve: Serve, ending: str) -> None:
    waiter = Waiter()
    running = await serve(waiter, requests_in_flight=5)
    peer = await running.connect()
    peer.send(frame(WAIT) * 100)
    await eventually(lambda: len(waiter.waiting) == 5)
    getattr(peer, ending)()
    await eventually(lambda: not running.server.connections, scaled(3))
    assert all(future.cancelled() for future in waiter.waiting)
    assert running.server.refused == 0, "hanging up is no misbehaviour"
    await peer.aclose()
