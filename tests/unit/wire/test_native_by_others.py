"""The native dialect is plain msgpack: another implementation of it (the msgpack package) writes and reads the same bytes."""

import msgpack

from ottla.wire import native
from ottla.wire.dialect import IncomingRequest
from ottla.wire.framing import LENGTH
from ottla.wire.requests import ProducePart, ProducePartResult, ProduceRequest, ProduceResponse


def foreign_frame(head: list[object], attachments: bytes) -> bytes:
    """What docs/protocol.md tells a foreign client to send: the head's length in front, always as a uint 32."""
    rest = b"".join(msgpack.packb(item) for item in head)
    length = 1 + 5 + len(rest)
    body = bytes([0x90 + len(head) + 1, 0xCE]) + length.to_bytes(4, "big") + rest + attachments
    return LENGTH.pack(len(body)) + body


def test_a_request_written_by_another_msgpack_is_understood():
    frame = foreign_frame([0, 0, 7, "someone", [1, 1000, [["orders", 0, 5]]]], b"batch")
    request = native.NATIVE.read_request(memoryview(frame)[LENGTH.size :])
    assert isinstance(request, IncomingRequest)
    assert (request.api, request.correlation_id, request.client_id) == (0, 7, "someone")
    assert request.message == ProduceRequest(1, 1000, [ProducePart("orders", 0, 5)])
    assert [bytes(attachment) for attachment in request.attachments] == [b"batch"]


def test_a_response_is_read_by_another_msgpack():
    pieces = native.encode_response(ProduceResponse([ProducePartResult(0, "", "orders", 3, base_offset=42)]), 9)
    body = b"".join(map(bytes, pieces))[LENGTH.size :]
    head_length, correlation_id, code, message, fields = msgpack.unpackb(body)
    assert (head_length, correlation_id, code, message) == (len(body), 9, 0, "")
    assert fields[0][0][:5] == [0, "", "orders", 3, 42]


def test_our_request_is_what_the_other_would_have_written():
    message = ProduceRequest(-1, 30_000, [ProducePart("t", 1, 3)])
    ours = b"".join(map(bytes, native.encode_request(message, 1, "me", [b"abc"])))
    assert ours == foreign_frame([0, 0, 1, "me", [-1, 30_000, [["t", 1, 3, ""]], False]], b"abc")
