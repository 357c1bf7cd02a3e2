"""How long requests may be and how many elements and tagged fields they may have: by api, and as docs/protocol.md says."""

import contextlib
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.wire import breath
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import RemoteProtocolError
from ottla.wire.groups import JoinGroupRequest
from ottla.wire.kafka.apis import APIS
from ottla.wire.kafka.primitives import add_uvarint
from ottla.wire.kafka.schemas import is_flexible
from ottla.wire.messages import Api
from ottla.wire.native import NATIVE, REQUEST_HEAD_MAX
from ottla.wire.request_limits import ANY_FRAME, LIMITS, SMALL, LongRequest, RequestLimit, limit_of
from ottla.wire.requests import MetadataRequest
from tests.support.kafka_dialect import dialect_of_two_topics
from tests.support.kafka_values import frame
from tests.support.machine import scaled

DIALECT = dialect_of_two_topics()
FLEXIBLE = [(api.key, api.newest) for api in APIS.values() if is_flexible(api.key, api.newest)] + [(0, 13), (1, 18)]
DOCS = Path(__file__).parents[4] / "docs" / "protocol.md"


def tags(count: int) -> bytes:
    """So many tagged fields without bytes."""
    out = bytearray()
    add_uvarint(out, count)
    return bytes(out) + bytes(2 * count)


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_tagged_fields_count_as_elements(api: int, version: int) -> None:
    """They stand in the request's head here: 100 MB of them kept the event loop for 22 s."""
    bare = frame(api, version, False, b"")
    body = bare + tags(limit_of(api).elements_max + 1)
    began = time.perf_counter()
    with pytest.raises(RemoteProtocolError, match="elements"):
        DIALECT.read_long_request(memoryview(body))
    assert time.perf_counter() - began < scaled(0.1), "they are refused before they are read"


def test_reading_of_many_tagged_fields_lets_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(breath, "time", SimpleNamespace(sleep=pauses.append))
    body = frame(9, 7, True, b"")[:-1] + tags(5_000) + b"\x02g\x01\0\0"
    assert isinstance(DIALECT.read_long_request(memoryview(body)), IncomingRequest)
    assert len(pauses) == 5_000 // breath.BREATH


def test_tagged_fields_of_nested_structures_count_together() -> None:
    """OffsetFetch 10: each group, and each of its topics, may bring some."""
    group = b"\x02g" + b"\x00" + b"\xff\xff\xff\xff" + b"\x01" + tags(3_000)
    out = bytearray()
    add_uvarint(out, 200 + 1)
    body = frame(9, 10, True, bytes(out) + group * 200 + b"\0\0")
    with pytest.raises(RemoteProtocolError, match="elements"):
        DIALECT.read_long_request(memoryview(body))


def test_elements_are_limited_by_api() -> None:
    protocols = 2 * LIMITS[Api.JOIN_GROUP].elements_max
    join = b"\0\1g" + bytes(4) + b"\0\0" + b"\0\0" + protocols.to_bytes(4, "big") + b"\0\1p\0\0\0\0" * protocols
    with pytest.raises(RemoteProtocolError, match="elements"):
        DIALECT.read_request(memoryview(frame(int(Api.JOIN_GROUP), 0, False, join)))
    partitions = 200_000
    topic = b"\0\1t" + partitions.to_bytes(4, "big") + bytes(12) * partitions
    request = DIALECT.read_long_request(memoryview(frame(2, 1, False, bytes(4) + (1).to_bytes(4, "big") + topic)))
    assert isinstance(request, IncomingRequest), "a request of 200,000 partitions is read"


def test_as_many_topics_are_described_by_pages_as_at_once() -> None:
    out = bytearray()
    add_uvarint(out, 10_000 + 1)
    body = bytes(out) + b"\x0dtopic-%06d\0" * 10_000 % tuple(range(10_000)) + (2_000).to_bytes(4, "big") + b"\xff\0"
    head = frame(75, 0, True, body)
    assert len(head) <= DIALECT.frame_max(memoryview(head)[:7])
    request = DIALECT.read_long_request(memoryview(head))
    assert isinstance(request, IncomingRequest)
    assert isinstance(request.message, MetadataRequest)
    assert len(request.message.topics or ()) == 10_000


def test_description_of_many_resources_is_long() -> None:
    """So the connection takes no other request until it is answered: many answers at once would take much memory."""
    for count in (10, 30):
        resources = count.to_bytes(4, "big") + b"\x02\0\1t\xff\xff\xff\xff" * count
        body = memoryview(frame(int(Api.DESCRIBE_CONFIGS), 1, False, resources + b"\0"))
        with pytest.raises(LongRequest) if count == 30 else contextlib.nullcontext():
            DIALECT.read_request(body)


def test_member_that_tells_too_much_of_itself_is_read_so_that_it_hears_why_not() -> None:
    metadata = bytes(900 * 1024)
    join = b"\0\1g" + bytes(4) + b"\0\0" + b"\0\1c" + b"\0\0\0\1" + b"\0\1p" + len(metadata).to_bytes(4, "big")
    body = frame(int(Api.JOIN_GROUP), 0, False, join + metadata)
    assert len(body) <= DIALECT.frame_max(memoryview(body)[:7])
    request = DIALECT.read_request(memoryview(body))
    assert isinstance(request, IncomingRequest)
    assert isinstance(request.message, JoinGroupRequest)


def test_only_produce_may_be_as_long_as_any_frame() -> None:
    longest = LIMITS[Api.PRODUCE].frame_max
    for api in [int(each) for each in Api] + list(APIS):
        assert limit_of(api).frame_max < longest / 5 or api == Api.PRODUCE
        version = APIS[api].newest if api in APIS else 4
        head = memoryview(frame(api, version, False, b""))
        expected = limit_of(api).frame_max if api in APIS or api < 2 else 0
        assert DIALECT.frame_max(head[:7]) == expected
        assert DIALECT.is_produce(head[:7]) is (api == Api.PRODUCE)
    assert DIALECT.frame_max(memoryview(frame(0, 99, False, b""))[:7]) == 0


def test_native_requests_are_long_only_with_records() -> None:
    longest = {0: LIMITS[Api.PRODUCE].frame_max, 1: REQUEST_HEAD_MAX, 18: SMALL.frame_max, 0xCD: REQUEST_HEAD_MAX}
    for api, expected in longest.items():
        head = memoryview(bytes([0x96, 0xCE, 0, 0, 0, 20, api]))
        assert NATIVE.frame_max(head) == expected
        assert not NATIVE.is_produce(head), "who speaks this dialect greets"
    assert NATIVE.frame_max(memoryview(b"GET / H")) == 0


def test_the_limits_are_those_that_the_documentation_lists() -> None:
    section = DOCS.read_text().split("## Limits of requests")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) (KB|MB) \| ([\d,]+) \|$", section, re.MULTILINE)
    listed: dict[str, RequestLimit] = {}
    for names, size, unit, elements in rows:
        limit = RequestLimit(_number(size) * (1024 if unit == "KB" else 1024**2), _number(elements))
        listed |= dict.fromkeys(names.split(", "), limit)
    assert listed.pop("all others") == SMALL
    assert "| Produce | `socket.request.max.bytes` | 400,000 |" in section
    listed["Produce"] = RequestLimit(ANY_FRAME, 400_000)
    names = {int(api): "".join(word.capitalize() for word in api.name.split("_")) for api in Api} | {
        75: "DescribeTopicPartitions"
    }
    assert listed == {names[api]: limit for api, limit in LIMITS.items()}


def _number(text: str) -> int:
    return int(text.replace(",", ""))
