"""Whatever bytes come in Kafka's dialect: a request, an answer to give, or the end of the connection; nothing else."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import RemoteProtocolError
from ottla.wire.kafka.apis import APIS
from ottla.wire.kafka.fields import request_schema
from ottla.wire.kafka.schemas import is_flexible
from tests.support.kafka_dialect import dialect_of_two_topics
from tests.support.kafka_values import frame, request_bytes, values_of

DIALECT = dialect_of_two_topics()
VERSIONS = [(api.key, version) for api in APIS.values() for version in range(api.oldest, api.newest + 1)]
BY_HAND = [(0, version) for version in range(14)] + [(1, version) for version in range(4, 19)]


def _read(data: bytes) -> None:
    try:
        request = DIALECT.read_long_request(memoryview(data))
    except RemoteProtocolError:
        return
    assert isinstance(request, IncomingRequest | UnreadableRequest)


@settings(max_examples=1000)
@given(st.data())
def test_requests_with_bytes_that_were_changed(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from(VERSIONS))
    body = request_bytes(api, version, data.draw(values_of(request_schema(api).fields, version)))
    changed = bytearray(frame(api, version, is_flexible(api, version), body))
    for place, byte in data.draw(st.lists(st.tuples(st.integers(8, 4000), st.integers(0, 255)), max_size=4)):
        changed[place % len(changed)] = byte
    end = data.draw(st.integers(0, len(changed) + 1))
    _read(bytes(changed[:end]) + data.draw(st.binary(max_size=8)))


@settings(max_examples=500)
@given(st.sampled_from(VERSIONS + BY_HAND), st.binary(max_size=300))
def test_a_head_of_ours_and_a_body_of_anything(which: tuple[int, int], body: bytes) -> None:
    _read(frame(*which, True, body))


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_anything_at_all(data: bytes) -> None:
    _read(data)


LARGE = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x00\x0f\x42\x40", b"\xff\xff\xff\xff\xff\xff\xff"]


@pytest.mark.parametrize("count", LARGE, ids=bytes.hex)
@pytest.mark.parametrize(("api", "version"), VERSIONS + BY_HAND)
def test_a_length_that_lies_costs_no_memory(api: int, version: int, count: bytes) -> None:
    tracemalloc.start()
    try:
        for place in range(24):
            _read(frame(api, version, version > 5, bytes(place) + count * 20))
            _read(frame(api, version, version > 5, b"\x01" * place + count * 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_many_small_elements_are_refused_before_they_are_made() -> None:
    body = (90_000_000).to_bytes(4, "big") + bytes(1_000_000)
    with pytest.raises(RemoteProtocolError, match="elements"):
        DIALECT.read_long_request(memoryview(frame(3, 1, False, body)))
    topic = b"\0\1t" + (100_000).to_bytes(4, "big") + bytes(400_000)
    nested = (5).to_bytes(4, "big") + topic * 5
    with pytest.raises(RemoteProtocolError, match="elements"):
        DIALECT.read_long_request(memoryview(frame(9, 1, False, b"\0\1g" + nested)))
