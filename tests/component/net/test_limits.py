"""Deadlines and caps: what a peer does wrong costs that peer its connection, and nobody else anything."""

import asyncio
import time

import pytest

from ottla.net.connection import Connection
from ottla.net.principal import Principal
from ottla.net.reply import Reply
from ottla.wire import native
from ottla.wire.dialect import IncomingRequest
from ottla.wire.framing import FRAME_MAX, GROWTH, LENGTH
from ottla.wire.request_limits import limit_of
from ottla.wire.requests import MetadataRequest
from tests.component.net.conftest import HELLO, RawPeer, RunningServer, Serve, answer_versions, frame
from tests.support.kafka_dialect import dialect_of_two_topics
from tests.support.kafka_values import frame as kafka_frame
from tests.support.machine import scaled
from tests.support.waiting import eventually

PRODUCE_HEAD = b"\x96\xce\0\0\0\x40\0"
"""So a Produce of our own dialect begins, which alone may be long."""

pytestmark = pytest.mark.usefixtures("loop_errors")


def fails(request: IncomingRequest, connection: Connection) -> Reply:
    if request.client_id == "fatal":
        raise ZeroDivisionError("a bug in a handler")
    return answer_versions(request, connection)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ottla.net.server"]


async def still_serves(running: RunningServer) -> None:
    peer = await running.connect()
    peer.ask(HELLO, 99)
    assert (await peer.answer()).correlation_id == 99
    await peer.aclose()


async def test_a_connection_that_says_nothing_is_closed_in_time(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    running = await serve(first_frame_s=0.2)
    peer = await running.connect()
    began = time.monotonic()
    await peer.closed()
    assert 0.2 <= time.monotonic() - began < scaled(2)
    assert any("said nothing sensible" in line for line in complaints(caplog))


async def test_a_first_frame_that_drips_in_is_closed_in_time(serve: Serve) -> None:
    running = await serve(first_frame_s=0.3)
    peer = await running.connect()
    began = time.monotonic()
    hello = frame(HELLO)
    closed = asyncio.ensure_future(peer.closed())
    for byte in hello[:-1]:
        peer.send(bytes([byte]))
        await asyncio.wait([closed], timeout=0.05)
        if closed.done():
            break
    await closed
    assert time.monotonic() - began < scaled(2)


async def test_a_frame_that_never_ends_is_closed_by_its_own_deadline(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    running = await serve(frame_s=0.3)
    peer = await running.connect()
    peer.ask(HELLO)
    await peer.answer()
    closed = asyncio.ensure_future(peer.closed())
    peer.send(LENGTH.pack(1000))
    began = time.monotonic()
    while not closed.done():  # a byte now and then does not move the deadline
        peer.send(b"\x96")
        await asyncio.wait([closed], timeout=0.05)
        assert time.monotonic() - began < scaled(2)
    assert time.monotonic() - began >= 0.3
    assert any("its frame never ended" in line for line in complaints(caplog))


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(serve: Serve) -> None:
    running = await serve(idle_s=0.4)
    idle, busy = await running.connect(), await running.connect()
    for peer in (idle, busy):
        peer.ask(HELLO)
        await peer.answer()
    closed = asyncio.ensure_future(idle.closed())
    while not closed.done():
        busy.ask(HELLO)
        await busy.answer()
        await asyncio.wait([closed], timeout=0.05)
    busy.ask(HELLO, 5)
    assert (await busy.answer()).correlation_id == 5
    await busy.aclose()


async def test_connections_of_one_address_are_capped_and_the_place_comes_back(serve: Serve) -> None:
    running = await serve(connections_per_ip=3)
    peers = [await running.connect() for _ in range(3)]
    await eventually(lambda: len(running.server.connections) == 3)
    refused = await running.connect()
    assert await refused.closed() == b""
    assert len(running.server.connections) == 3
    peers[0].reset()
    await eventually(lambda: len(running.server.connections) == 2)
    await still_serves(running)
    for peer in peers:
        await peer.aclose()


async def test_all_connections_together_are_capped(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    running = await serve(connections=2)
    peers = [await running.connect() for _ in range(2)]
    await eventually(lambda: len(running.server.connections) == 2)
    assert await (await running.connect()).closed() == b""
    for peer in peers:  # those who were there first are served on
        peer.ask(HELLO, 4)
        assert (await peer.answer()).correlation_id == 4
        await peer.aclose()
    assert any("there are 2 connections" in line for line in complaints(caplog))


@pytest.mark.parametrize("how", ["fin", "rst", "nothing"])
async def test_half_frames_are_forgotten_however_the_peer_ends(
    serve: Serve, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    patience_s = 0.3 if how == "nothing" else 30
    running = await serve(first_frame_s=patience_s, frame_s=patience_s)
    whole = frame(HELLO) + frame(MetadataRequest(["x" * 300]))
    peers = []
    for cut in range(1, len(whole), 7):
        peer = await running.connect()
        peer.send(whole[:cut])
        await asyncio.sleep(0)
        peers.append(peer)
    if how != "nothing":  # else the first ones may be closed before the last one has come
        await eventually(lambda: len(running.server.connections) == len(peers))
    for peer in peers:
        if how == "fin":
            peer.finish()
        elif how == "rst":
            peer.reset()
    await still_serves(running)
    await eventually(lambda: not running.server.connections, scaled(3))
    assert running.server.pool.in_use == 0
    if how != "nothing":
        assert complaints(caplog) == [], "a peer that goes away in the middle is no news"
    for peer in peers:
        await peer.aclose()


@pytest.mark.parametrize("length", [0, 2**31 - 1, 2**31, 2**32 - 1, 100 * 1024 * 1024 + 1])
async def test_a_frame_of_an_impossible_length_is_hung_up_on(serve: Serve, length: int) -> None:
    running = await serve()
    greeted, fresh = await running.connect(), await running.connect()
    greeted.ask(HELLO)
    await greeted.answer()
    for peer in (greeted, fresh):
        peer.send(LENGTH.pack(length) + b"some bytes")
        assert await peer.closed() == b""
    assert running.server.pool.in_use == 0
    await still_serves(running)


async def test_a_stranger_may_not_send_a_large_first_frame(serve: Serve) -> None:
    running = await serve(first_frame_max=1024)
    stranger, known = await running.connect(), await running.connect()
    large = frame(MetadataRequest(["x" * 2000]), 6)
    stranger.send(large)
    assert await stranger.closed() == b""
    known.send(frame(HELLO) + large)
    assert [(await known.answer()).correlation_id for _ in range(2)] == [1, 6]
    await known.aclose()


async def test_every_frame_is_as_long_as_its_api_may_be(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Not only the first one: what may be long is asked for each. It is refused when its head is there."""
    running = await serve(dialects=(native.NATIVE, dialect_of_two_topics()))
    greeting = kafka_frame(18, 3, True, b"\x02a\x02b\0")
    heads = [(api, kafka_frame(api, version, False, b"")[:8]) for api, version in ((11, 0), (1, 4))]
    for api, head in heads:
        for ours in (False, True):
            peer = await running.connect()
            peer.send(frame(HELLO) if ours else LENGTH.pack(len(greeting)) + greeting)
            size = min(limit_of(api).frame_max, native.REQUEST_HEAD_MAX if ours else FRAME_MAX) + 1
            peer.send(LENGTH.pack(size) + (PRODUCE_HEAD[:6] + bytes([api]) if ours else head))
            await peer.closed()
            assert f"a frame of {size} bytes; allowed are 1 to {size - 1}" in complaints(caplog)[-1]
            caplog.clear()
    await still_serves(running)


async def test_the_first_frame_may_be_long_only_if_it_brings_records(serve: Serve) -> None:
    """sarama 1.22 says nothing but Produce to a leader."""
    running = await serve(dialects=(native.NATIVE, dialect_of_two_topics()))
    for api, version, waits in ((0, 3, True), (1, 4, False), (3, 1, False), (0, 99, False)):
        peer = await running.connect()
        peer.send(LENGTH.pack(65_537) + kafka_frame(api, version, False, b"")[:8])
        if waits:
            await eventually(lambda: any(each._reader.partial for each in running.server.connections))
        else:
            assert await peer.closed() == b""
        await peer.aclose()


@pytest.mark.parametrize(
    ("greeting", "hint"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "looks like TLS"),
    ],
)
async def test_a_foreign_protocol_gets_a_hint_in_the_log(
    serve: Serve, greeting: bytes, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = await serve()
    peer = await running.connect()
    peer.send(greeting)
    assert await peer.closed() == b""
    (line,) = complaints(caplog)
    assert hint in line
    await still_serves(running)


async def test_complaints_are_rate_limited_and_counted(
    serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.net import server as server_module

    monkeypatch.setattr(server_module, "SWEEP_S", 0.5)
    running = await serve()
    peers = [await running.connect() for _ in range(100)]
    for peer in peers:
        peer.send(b"GET / HTTP/1.1\r\n\r\n")
    for peer in peers:
        await peer.closed()
    assert running.server.refused == 100
    await eventually(lambda: any("closed more connections" in line for line in complaints(caplog)), scaled(3))
    assert len(complaints(caplog)) <= 14  # at most two sweeps fell into the storm


async def test_two_hundred_announcements_of_fifty_megabytes_hold_nothing(serve: Serve) -> None:
    running = await serve(frame_s=0.5)
    peers: list[RawPeer] = []
    for _ in range(200):
        peer = await running.connect()
        peer.send(frame(HELLO) + LENGTH.pack(50 * 1024 * 1024) + PRODUCE_HEAD + b"789")
        peers.append(peer)
    for peer in peers:
        await peer.answer()
    assert len(running.server.connections) == 200
    assert running.server.pool.in_use <= 200 * 14
    await still_serves(running)
    await eventually(lambda: not running.server.connections, scaled(5))
    for peer in peers:
        await peer.aclose()


async def test_a_full_pool_cuts_those_who_fill_it_and_serves_the_others(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    sent = 100_000
    limit = 4 * GROWTH * (sent + 4)
    running = await serve(pending_frames_bytes=limit)
    healthy = await running.connect()
    greedy = [await running.connect() for _ in range(12)]
    for peer in greedy:
        peer.send(frame(HELLO) + LENGTH.pack(10 * 1024 * 1024) + PRODUCE_HEAD + bytes(sent - len(PRODUCE_HEAD)))
    await eventually(lambda: running.server.refused >= 8)
    for number in range(50):
        healthy.ask(HELLO, number)
        assert (await healthy.answer()).correlation_id == number
    assert running.server.pool.in_use <= limit
    assert any("half-received frames hold" in line for line in complaints(caplog))
    for peer in [healthy, *greedy]:
        await peer.aclose()


async def test_stopping_hangs_up_on_everybody(serve: Serve) -> None:
    running = await serve()
    peers = [await running.connect() for _ in range(5)]
    await eventually(lambda: len(running.server.connections) == 5)
    await running.server.stop()
    for peer in peers:
        assert await peer.closed() == b""
    with pytest.raises(OSError):
        await running.connect()


async def test_a_handler_that_fails_ends_no_turn_but_its_own(
    serve: Serve, loop_errors: list[dict[str, object]]
) -> None:
    running = await serve(fails)
    peer = await running.connect()
    peer.ask(HELLO, client_id="fatal")
    await peer.closed()
    done = asyncio.Event()
    running.server.turn.put_off(done.set)
    async with asyncio.timeout(scaled(2)):
        await done.wait()
    await still_serves(running)
    await peer.aclose()
    loop_errors.clear()  # that it was a bug is not kept secret


# --- descriptors that are nearly exhausted ---


def let_in_who_claims_to_be_a_broker(request: IncomingRequest, connection: Connection) -> Reply:
    if request.client_id == "broker":
        connection.principal = Principal("Broker", "1")
    return answer_versions(request, connection)


async def test_only_brokers_get_the_last_descriptors(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    running = await serve(let_in_who_claims_to_be_a_broker, descriptors=0, proving_s=0.3)
    broker, client, silent = [await running.connect() for _ in range(3)]
    broker.ask(HELLO, 1, "broker")
    await broker.answer()
    broker.ask(MetadataRequest([]), 2)
    assert (await broker.answer()).correlation_id == 2
    client.ask(HELLO)
    await client.answer()
    client.ask(MetadataRequest([]))
    assert await client.closed() == b""
    await silent.closed()
    assert running.server.turned_away == 2
    assert len([line for line in complaints(caplog) if "nearly exhausted" in line]) == 1
    assert not any("closing a connection" in line for line in complaints(caplog))
    broker.ask(HELLO, 3)
    assert (await broker.answer()).correlation_id == 3


async def test_few_at_once_may_prove_that_they_are_brokers(serve: Serve) -> None:
    running = await serve(let_in_who_claims_to_be_a_broker, descriptors=0, proving=2, proving_s=60.0)
    first, second, third = [await running.connect() for _ in range(3)]
    await third.closed()
    first.ask(HELLO, 1, "broker")
    await first.answer()
    fourth = await running.connect()
    for peer in (second, fourth):
        peer.ask(HELLO)
        await peer.answer()
    await second.aclose()
    await eventually(lambda: len(running.server.connections) == 2)
    fifth = await running.connect()
    fifth.ask(HELLO, 5)
    assert (await fifth.answer()).correlation_id == 5
