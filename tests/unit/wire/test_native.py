"""The native dialect: every message comes back as it was sent, and whatever else comes is a typed error."""

import time
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import breath, native
from ottla.wire.apis import REQUESTS
from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import (
    ERRORS,
    InvalidRequest,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    UnknownServerError,
    UnsupportedVersion,
    error_for,
)
from ottla.wire.messages import Api, Message, Request
from ottla.wire.request_limits import PARTS_MAX
from ottla.wire.requests import (
    ApiVersionsRequest,
    FetchPart,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    ProducePart,
    ProduceRequest,
)
from tests.support.machine import scaled


def body_of(pieces: list[Any]) -> memoryview:
    whole = b"".join(bytes(piece) for piece in pieces)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return memoryview(whole)[4:]


def head(*items: Any, tail: bytes = b"", mark: int = native.REQUEST_MARK) -> memoryview:
    """A body by hand: ``items`` behind a truthful head length, then ``tail``; bytes among the items go in raw."""
    encoded = b"".join(bytes(item) if isinstance(item, msgspec.Raw) else msgspec.msgpack.encode(item) for item in items)
    length = len(encoded) + 6
    return memoryview(bytes([mark, 0xCE]) + length.to_bytes(4, "big") + encoded + tail)


def messages(cls: type[Message]) -> st.SearchStrategy[Any]:
    """Any message of a class, from the types of its fields."""
    return st.from_type(cls)


@pytest.fixture(autouse=True, scope="module")
def wire_integers() -> Iterator[None]:
    """Integers as wide as the wire has them."""
    st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
    yield
    st.register_type_strategy(int, st.integers())


@pytest.mark.parametrize("cls", REQUESTS.values(), ids=lambda cls: cls.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_request_comes_back_as_it_was_sent(cls: type[Request], data: st.DataObject) -> None:
    message = data.draw(messages(cls))
    attachments = _attach(message, data)
    body = body_of(native.encode_request(message, 7, "client", attachments))
    incoming = native.NATIVE.read_request(body)
    assert isinstance(incoming, IncomingRequest)
    assert (incoming.api, incoming.version, incoming.correlation_id) == (cls.api, cls.versions[1], 7)
    assert incoming.client_id == "client"
    assert incoming.message == message
    assert [bytes(attachment) for attachment in incoming.attachments] == attachments


@pytest.mark.parametrize("cls", {cls.response.__name__: cls.response for cls in REQUESTS.values()}.values())
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_response_comes_back_as_it_was_sent(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(cls))
    attachments = _attach(message, data)
    response = native.decode_response(body_of(native.encode_response(message, 9, attachments)))
    assert (response.correlation_id, response.error) == (9, None)
    assert native.decode_fields(cls, response.fields) == message
    assert [bytes(part) for part in native.cut_attachments(message, response.tail)] == attachments


def _attach(message: Any, data: st.DataObject) -> list[bytes]:
    if not message.carries_records:
        return []
    attachments = [data.draw(st.binary(max_size=50)) for _ in message.parts]
    for part, attachment in zip(message.parts, attachments, strict=True):
        part.size = len(attachment)
    return attachments


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_every_error_comes_back_as_its_own_class(code: int) -> None:
    response = native.decode_response(body_of(native.encode_error(error_for(code, "why"), 3)))
    assert type(response.error) is ERRORS[code]
    assert str(response.error) == "why"
    assert response.correlation_id == 3


def test_an_error_code_that_is_not_known_is_an_unknown_server_error() -> None:
    body = head(3, 9999, "from the future", None, mark=native.RESPONSE_MARK)
    error = native.decode_response(body).error
    assert type(error) is UnknownServerError
    assert "9999" in str(error)


def test_a_long_error_message_is_cut() -> None:
    response = native.decode_response(body_of(native.encode_error(InvalidRequest("x" * 10**6), 3)))
    assert len(str(response.error)) == native.ERROR_MESSAGE_MAX


@pytest.mark.parametrize(("api", "version"), [(77, 0), (-1, 0), (2**62, 0), (Api.PRODUCE, 1), (Api.PRODUCE, -1)])
def test_an_unknown_api_or_version_is_answered_as_unsupported(api: int, version: int) -> None:
    request = native.NATIVE.read_request(head(int(api), version, 5, "c", []))
    assert isinstance(request, UnreadableRequest)
    assert request.correlation_id == 5
    assert type(request.error) is UnsupportedVersion


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        "text",
        [1, 2],
        [1, 2, 3, "no list"],
        [1, 2, 3, [["topic", 0, 0]]],
        [1, 2, 3, [["topic", "zero", 0, 0]]],
        [1, 2.5, 3, []],
        [2**64 - 1, 1, 1, [[b"binary", 0, 0, 0]]],
    ],
    ids=repr,
)
def test_fields_of_another_shape_are_answered_as_invalid(fields: Any) -> None:
    request = native.NATIVE.read_request(head(int(Api.FETCH), 0, 5, "c", fields))
    assert isinstance(request, UnreadableRequest)
    assert type(request.error) is InvalidRequest


@pytest.mark.parametrize("sizes", [[5], [11], [-1], [10, -1], [4, 4], [2**63], [0]], ids=repr)
def test_attachment_sizes_that_lie_are_answered_as_invalid(sizes: list[int]) -> None:
    parts = [["t", number, size] for number, size in enumerate(sizes)]
    request = native.NATIVE.read_request(head(int(Api.PRODUCE), 0, 5, "c", [1, 1000, parts], tail=b"0123456789"))
    assert isinstance(request, UnreadableRequest)
    assert type(request.error) is InvalidRequest


def test_bytes_behind_a_request_that_carries_none_are_invalid() -> None:
    request = native.NATIVE.read_request(head(int(Api.METADATA), 0, 5, "c", [None], tail=b"stowaway"))
    assert isinstance(request, UnreadableRequest)
    assert "belong to nothing" in str(request.error)


def test_fields_that_a_newer_peer_adds_are_ignored() -> None:
    known = msgspec.structs.astuple(MetadataRequest(["t"]))  # what comes behind them is new, however many they are
    request = native.NATIVE.read_request(head(int(Api.METADATA), 0, 5, "c", [*known, "new", 1]))
    assert isinstance(request, IncomingRequest)
    assert request.message == MetadataRequest(["t"])


def _good() -> bytes:
    return bytes(body_of(native.encode_request(MetadataRequest(["a"]), 1, "c")))


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x03\x00\x01",
        b"\x96",
        b"\x96\xce\x00\x00",
        b"\x95" + _good()[1:],
        b"\x96\xcd" + _good()[2:],
        _good()[:2] + b"\x00\x00\x00\x00" + _good()[6:],
        _good()[:2] + b"\xff\xff\xff\xff" + _good()[6:],
        _good()[:2] + (len(_good()) - 1).to_bytes(4, "big") + _good()[6:],
        _good()[:2] + (len(_good()) + 2).to_bytes(4, "big") + _good()[6:] + b"\x01\x02",  # inside the head
        bytes(head(3, 0, -1, "c", [None])),
        bytes(head(3, 0, 2**31, "c", [None])),
        bytes(head(3, 0, 1, "c" * 257, [None])),
        bytes(head(3, 0, 1, msgspec.Raw(b"\xa2\xff\xfe"), [None])),
        bytes(head("3", 0, 1, "c", [None])),
        bytes(head(3, 0, 1, "c", msgspec.Raw(b"\xdd\xff\xff\xff\xff"))),
        bytes(head(3, 0, 1, "c", msgspec.Raw(b"\xdf\xff\xff\xff\xff"))),
        bytes(head(3, 0, 1, "c", msgspec.Raw(b"\xc6\xff\xff\xff\xff"))),
        bytes(head(3, 0, 1, "c", msgspec.Raw(b"\xdb\x7f\xff\xff\xff"))),
        bytes(head(3, 0, 1, "c", msgspec.Raw(b"\xc1"))),
        bytes(head(3, 0, 1, "c", msgspec.Raw(b"\x91" * 100_000))),
    ],
    ids=lambda body: body[:16].hex(),
)
def test_a_request_without_a_readable_head_means_hang_up(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        native.NATIVE.read_long_request(memoryview(body))


@pytest.mark.parametrize("api", sorted(REQUESTS))
@pytest.mark.parametrize(
    "fields",
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 5000, b"\x94\x00\x00\x00\xdd\x7f\xff\xff\xff"],
)
def test_huge_or_deep_fields_are_refused_with_nothing_allocated(api: int, fields: bytes) -> None:
    body = head(api, 0, 1, "c", msgspec.Raw(fields))
    began = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            native.NATIVE.read_request(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert time.perf_counter() - began < scaled(1)


def test_a_head_longer_than_any_request_is_refused_unread() -> None:
    part = msgspec.msgpack.encode(["", 0, 0, 0])
    count = native.REQUEST_HEAD_MAX // len(part) + 1
    fields = b"\x94\x00\x00\x00\xdd" + count.to_bytes(4, "big") + part * count
    body = head(int(Api.FETCH), 0, 1, "c", msgspec.Raw(fields))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="without its records"):
            native.NATIVE.read_request(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_request_that_no_broker_would_read_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError, match="MetadataRequest"):
        native.encode_request(MetadataRequest(["t" * native.REQUEST_HEAD_MAX]), 1, "c")
    with pytest.raises(LocalProtocolError, match="a frame of"):
        native.encode_request(ProduceRequest(1, 1, [ProducePart("t", 0, 2**27)]), 1, "c", [bytes(2**27)])


def test_ten_thousand_parts_with_the_longest_names_fit_into_a_head() -> None:
    parts = [FetchPart("n" * 249, number, 2**62, 2**30, 2**30, 2**30) for number in range(10_000)]
    pieces = native.encode_request(FetchRequest(500, 1, 2**30, parts), 1, "c" * 256)
    assert isinstance(native.NATIVE.read_long_request(body_of(pieces)), IncomingRequest)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(min_size=1, max_size=200))
def test_random_bytes_are_an_answer_or_a_protocol_error(body: bytes) -> None:
    for start in (b"", b"\x96\xce\x00\x00\x00\x20"):
        try:
            native.NATIVE.read_long_request(memoryview(start + body))
        except RemoteProtocolError:
            pass
        try:
            native.decode_response(memoryview(b"\x95" + start[1:] + body))
        except RemoteProtocolError:
            pass


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_mutated_requests_are_an_answer_or_a_protocol_error(data: st.DataObject) -> None:
    request: Request = data.draw(
        st.sampled_from(
            [
                ApiVersionsRequest("s"),
                MetadataRequest(["a", "b"]),
                FetchRequest(1, 2, 3, [FetchPart("t", 0, 1, 2)]),
                ProduceRequest(1, 1, [ProducePart("t", 0, 4)]),
            ]
        )
    )
    tail = [b"data"] if isinstance(request, ProduceRequest) else []
    body = bytearray(body_of(native.encode_request(request, 1, "c", tail)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        native.NATIVE.read_request(memoryview(body))
    except RemoteProtocolError:
        pass


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_mutated_responses_are_read_or_a_typed_error(data: st.DataObject) -> None:
    message = FetchResponse([FetchPartResult(0, "", "t", 0, 4, 10, 0, 1, 0)])
    body = bytearray(body_of(native.encode_response(message, 1, [b"data"])))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        response = native.decode_response(memoryview(body))
        if response.error is None:
            decoded = native.decode_fields(FetchResponse, response.fields)
            native.cut_attachments(decoded, response.tail)
    except OttlaError:
        pass


def test_more_parts_than_are_answered_are_refused_before_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """600,000 empty parts kept the interpreter, in whatever thread they were read, for 388 ms."""
    message = ProduceRequest(1, 1, [ProducePart("", 0, 0)] * (PARTS_MAX + 1))
    body = body_of(native.encode_request(message, 7, "c"))
    pauses: list[float] = []
    monkeypatch.setattr(breath, "time", SimpleNamespace(sleep=pauses.append))
    request = native.NATIVE.read_long_request(body)
    assert isinstance(request, UnreadableRequest)
    assert isinstance(request.error, InvalidRequest)
    assert request.correlation_id == 7
    assert not pauses


def test_reading_of_many_parts_lets_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    message = ProduceRequest(1, 1, [ProducePart("", 0, 1)] * 5_000)
    body = body_of(native.encode_request(message, 7, "c", [bytes(5_000)]))
    pauses: list[float] = []
    monkeypatch.setattr(breath, "time", SimpleNamespace(sleep=pauses.append))
    request = native.NATIVE.read_long_request(body)
    assert isinstance(request, IncomingRequest)
    assert len(request.attachments) == 5_000
    assert len(pauses) == 5_000 // breath.BREATH
