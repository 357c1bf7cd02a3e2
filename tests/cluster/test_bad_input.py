"""Attacks on the broker's port: garbage, lies, silence and floods cost the attacker his connection, and nobody else anything.

The numbers T1, T2 ... are those of the project's list of bad inputs.
"""

import contextlib
import socket
import struct
import time
from typing import Any

import msgspec
import pytest

from ottla.wire import native
from ottla.wire.errors import (
    InvalidRequest,
    OttlaError,
    UnsupportedVersion,
)
from ottla.wire.framing import LENGTH
from ottla.wire.messages import Api
from ottla.wire.requests import (
    ApiVersionsRequest,
    FetchPart,
    FetchRequest,
    MetadataRequest,
    ProducePart,
    ProduceRequest,
    ProduceResponse,
)
from tests.support.machine import scaled
from tests.support.raw_client import Hung, RawClient, framed, one_record
from tests.support.victim import RSS_GROWTH_MAX_MB, Victim, within

pytestmark = pytest.mark.cluster

HELLO = ApiVersionsRequest("attacker")


def greet(victim: Victim) -> RawClient:
    client = victim.connect()
    client.greet()
    return client


# --- frames (T1, T2, T3, T6, T7, T8) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 2**31 - 1, 100 * 1024 * 1024 + 1])
def test_a_frame_of_a_senseless_length_is_hung_up_on(unharmed: Victim, length: int) -> None:
    for client in (unharmed.connect(), greet(unharmed)):
        with client:
            client.send(struct.pack(">i", length) + b"\x00")
            assert client.closed() == b""


@pytest.mark.parametrize(
    ("greeting", "hint"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "looks like TLS"),
    ],
)
def test_another_protocol_is_hung_up_on_with_a_hint_in_the_log(unharmed: Victim, greeting: bytes, hint: str) -> None:
    before = unharmed.log().count(hint)

    def attack() -> bool:
        with unharmed.connect() as client:
            client.send(greeting)
            assert client.closed() == b""
        return unharmed.log().count(hint) > before

    within(attack, "there is no hint in the log")  # several tries: lines are rate limited


@pytest.mark.parametrize("ending", ["fin", "rst", "nothing"])
def test_a_frame_cut_at_every_byte_is_never_half_obeyed(unharmed: Victim, ending: str) -> None:
    batch = one_record()
    whole = framed(ProduceRequest(1, 1000, [ProducePart("target", 0, len(batch))]), [batch])
    clients = []
    for cut in range(1, len(whole)):
        client = unharmed.connect()
        client.send(whole[:cut])
        clients.append(client)
        if ending == "fin":
            client.finish()
        elif ending == "rst":
            client.reset()
    if ending != "rst":
        for client in clients:  # those who say nothing more are cut by the deadline of their frame
            assert client.closed() == b""
            client.close()


def test_announcements_of_fifty_megabytes_reserve_nothing(unharmed: Victim) -> None:
    before = unharmed.rss_mb()
    clients = [greet(unharmed) for _ in range(200)]
    for client in clients:
        client.send(LENGTH.pack(50 * 1024 * 1024) + b"\x96\xce\0\0\0\x40\0" + b"789")  # as a Produce begins
    within(lambda: unharmed.metric("ottla_connections ") >= 200, "the connections are not open")
    assert unharmed.rss_mb() < before + RSS_GROWTH_MAX_MB
    for client in clients:
        assert client.closed() == b""
        client.close()


@pytest.mark.parametrize(("api", "version"), [(77, 0), (-1, 0), (0, 99), (0, -1), (2**31, 2**31)])
def test_an_unknown_api_or_version_is_unsupported_and_the_connection_lives(
    unharmed: Victim, api: int, version: int
) -> None:
    with greet(unharmed) as client:
        client.send(by_hand(api, version, 7, "raw", []))
        response = client.answer()
        assert (response.correlation_id, type(response.error)) == (7, UnsupportedVersion)
        assert client.error_of(HELLO) is None


def by_hand(*items: Any, tail: bytes = b"") -> bytes:
    """A frame with a truthful length and a head of these items; a Raw goes in as it is."""
    encoded = b"".join(bytes(item) if isinstance(item, msgspec.Raw) else msgspec.msgpack.encode(item) for item in items)
    body = bytes([native.REQUEST_MARK, 0xCE]) + (len(encoded) + 6).to_bytes(4, "big") + encoded + tail
    return LENGTH.pack(len(body)) + body


@pytest.mark.parametrize(
    "frame",
    [
        by_hand(0, 0, 1, "c", msgspec.Raw(b"\xdd\xff\xff\xff\xff")),
        by_hand(0, 0, 1, "c", msgspec.Raw(b"\x93\x01\x01\xdd\x7f\xff\xff\xff")),
        by_hand(0, 0, 1, "c", msgspec.Raw(b"\xdb\x7f\xff\xff\xff")),
        by_hand(0, 0, 1, "c", msgspec.Raw(b"\x91" * 50_000)),
        by_hand(0, 0, 1, "c", msgspec.Raw(b"\xdf\xff\xff\xff\xff")),
        by_hand(0, 0, 2**40, "c", []),
        by_hand(0, 0, 1, "c" * 300, []),
        LENGTH.pack(9) + b"\x00\x03\x00\x01\x00\x00\x00\x01\xff",  # Kafka's own dialect, which is not spoken yet
        LENGTH.pack(12) + b"\x96\xce\xff\xff\xff\xff123456",
    ],
    ids=["array", "inner array", "string", "nesting", "map", "id", "client id", "kafka", "head length"],
)
def test_a_head_that_lies_is_hung_up_on(unharmed: Victim, frame: bytes) -> None:
    with greet(unharmed) as client:
        client.send(frame)
        assert client.closed() == b""


def test_a_head_of_a_hundred_megabytes_is_not_even_read(unharmed: Victim) -> None:
    part = msgspec.msgpack.encode(["", 0, 0, 0])
    count = 16 * 1024 * 1024 // len(part)
    fields = b"\x94\x00\x00\x00\xdd" + count.to_bytes(4, "big") + part * count
    with greet(unharmed) as client:
        client.send(by_hand(int(Api.FETCH), 0, 1, "c", msgspec.Raw(fields)))
        assert client.closed() == b""


@pytest.mark.parametrize(
    "fields",
    [[], None, {}, [1], [1, 1, "parts"], [1, 1, [["target"]]], [1, 1, [["target", 0, -1]]], [1, 1, [["target", 0, 5]]],
     [1, 1, [["target", 0, 2**63]]], ["1", 1, []], [1.5, 1, []]],
    ids=repr,
)  # fmt: skip
def test_fields_that_lie_are_invalid_and_the_connection_lives(unharmed: Victim, fields: Any) -> None:
    with greet(unharmed) as client:
        client.send(by_hand(int(Api.PRODUCE), 0, 7, "raw", fields, tail=b"" if fields and fields[-1] else b"x"))
        response = client.answer()
        assert (response.correlation_id, type(response.error)) == (7, InvalidRequest)
        assert client.error_of(HELLO) is None


# --- patience (T4, T5) -----------------------------------------------------------------------------------------------------


def test_two_thousand_slow_and_silent_connections_disturb_nobody(unharmed: Victim) -> None:
    before = unharmed.rss_mb()
    sockets = []
    try:
        for number in range(2000):
            sock = socket.create_connection(unharmed.address, timeout=scaled(20))
            sockets.append(sock)
            if number % 2:
                sock.sendall(b"\x00")
        assert unharmed.rss_mb() < before + RSS_GROWTH_MAX_MB
        with greet(unharmed) as client:
            assert client.error_of(MetadataRequest(["healthy"])) is None
        deadline = time.monotonic() + 10
        while unharmed.metric("ottla_connections ") > 10:  # a byte now and then keeps nobody alive
            for sock in sockets[1::2]:
                with contextlib.suppress(OSError):
                    sock.send(b"\x00")
            assert time.monotonic() < deadline, "slow connections are still open"
    finally:
        for sock in sockets:
            sock.close()


def test_a_client_that_never_reads_its_fetches_is_not_read_any_more(unharmed: Victim) -> None:
    before = unharmed.rss_mb()
    answered = unharmed.metric('ottla_requests_total{api="FETCH"}')
    request = framed(FetchRequest(0, 0, 2**24, [FetchPart("bulk", 0, 0, 2**24)]))
    with greet(unharmed) as client:
        client.sock.settimeout(0.5)
        with pytest.raises(TimeoutError):  # 200,000 fetches of 8 MB: soon the broker takes no more of them
            for _ in range(1000):
                client.sock.sendall(request * 200)
        assert unharmed.rss_mb() < before + RSS_GROWTH_MAX_MB
        # The honest client fetches too, one record each time; the attacker alone would have made 200,000.
        assert unharmed.metric('ottla_requests_total{api="FETCH"}') - answered < 5000


def test_waiting_fetches_of_one_connection_are_bounded(unharmed: Victim) -> None:
    waiting = framed(FetchRequest(2**31 - 1, 2**31 - 1, 2**31 - 1, [FetchPart("target", 0, 0, 2**31 - 1)]))
    with greet(unharmed) as client:
        client.send(waiting * 1000)
        within(lambda: unharmed.metric('ottla_purgatory_size{kind="fetch"}') >= 256, "the fetches do not wait")
        assert unharmed.metric('ottla_purgatory_size{kind="fetch"}') <= 256
    within(lambda: unharmed.metric('ottla_purgatory_size{kind="fetch"}') == 0, "fetches of nobody still wait")


def test_responses_are_never_taken_for_requests(unharmed: Victim) -> None:
    with greet(unharmed) as client, pytest.raises((Hung, OttlaError)):
        client.send(b"".join(map(bytes, native.encode_response(ProduceResponse([]), 1))))
        client.answer()
