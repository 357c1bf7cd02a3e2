"""Well-formed requests with senseless values: names, limits, offsets and epochs that do not exist (T9, T12, T13).

What Produce, Fetch and ListOffsets answer to each is told in tests/component/api; here, that a live broker stands it.
"""

from typing import Any

import pytest

from ottla.wire import native
from ottla.wire.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicToDelete,
)
from ottla.wire.errors import (
    InvalidRequest,
    InvalidTopic,
    UnknownTopicOrPartition,
    error_for,
)
from ottla.wire.messages import ACKS_NONE, LATEST
from ottla.wire.requests import (
    FetchPart,
    FetchRequest,
    FetchResponse,
    ListOffsetsPart,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProducePart,
    ProduceRequest,
)
from tests.support.raw_client import RawClient, framed, one_record
from tests.support.victim import Victim

pytestmark = pytest.mark.cluster


def greet(victim: Victim) -> RawClient:
    client = victim.connect()
    client.greet()
    return client


# --- names (T9) --------------------------------------------------------------------------------------------------------------

BAD_NAMES = [
    "",
    ".",
    "..",
    "../../etc",
    "a/b",
    "/",
    "a\x00b",
    "n" * 250,
    "\u0430pple",
    "a b",
    "a\r\nINFO forged",
    "%2e%2e",
    "tar\u200bget",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_an_illegal_topic_name_is_invalid_everywhere(unharmed: Victim, name: str) -> None:
    with greet(unharmed) as client:
        batch = one_record()
        answers: list[Any] = [
            *client.ask(CreateTopicsRequest([NewTopic(name, 1, 1, {})], 5000), CreateTopicsResponse).topics,
            *client.ask(DeleteTopicsRequest([TopicToDelete(name)], 5000), DeleteTopicsResponse).topics,
            *client.ask(MetadataRequest([name]), MetadataResponse).topics,
            client.produce(name, batch),
            *client.fetch(name, 0)[0].parts,
            *client.ask(ListOffsetsRequest([ListOffsetsPart(name, 0, LATEST)]), ListOffsetsResponse).parts,
        ]
    codes = [type(error_for(answer.error_code)) for answer in answers]
    assert set(codes) <= {InvalidTopic, UnknownTopicOrPartition}
    assert codes[0] is InvalidTopic
    assert codes[2:] == [InvalidTopic] * 4
    assert "\nINFO forged" not in unharmed.log()


def test_names_of_megabytes_are_answered_with_little(unharmed: Victim) -> None:
    with greet(unharmed) as client:
        name = "x" * 1_000_000
        client.send(framed(FetchRequest(0, 0, 1, [FetchPart(name, number, 0, 1) for number in range(4)])))
        response = client.answer()
        parts = native.decode_fields(FetchResponse, response.fields).parts
        assert all(part.error_code == InvalidTopic.code and len(part.error_message) < 1000 for part in parts)


@pytest.mark.parametrize(
    "topic",
    [
        NewTopic("new", 0, 1, {}),
        NewTopic("new", -2, 1, {}),
        NewTopic("new", 2**31 - 1, 1, {}),
        NewTopic("new", 1, 0, {}),
        NewTopic("new", 1, 32767, {}),
        NewTopic("new", 1, -(2**63), {}),
        NewTopic("new", 1, 1, {"no.such.config": "1"}),
        NewTopic("new", 1, 1, {"retention.ms": "soon"}),
        NewTopic("new", 1, 1, {"segment.bytes": "-1"}),
        NewTopic("new", 1, 1, {"segment.bytes": "9" * 5000}),
        NewTopic("new", 1, 1, {}, [[7]]),
        NewTopic("new", 1, 1, {}, [[0, 0]]),
        NewTopic("new", 1, 1, {}, [[]]),
        NewTopic("new", 1, 1, {}, [[-1]]),
    ],
    ids=lambda topic: repr(topic)[:80],
)
def test_a_senseless_new_topic_is_a_typed_error_and_nothing_is_made(unharmed: Victim, topic: NewTopic) -> None:
    with greet(unharmed) as client:
        (result,) = client.ask(CreateTopicsRequest([topic], 5000), CreateTopicsResponse).topics
        assert result.error_code > 0
        assert "new" not in [known.name for known in client.ask(MetadataRequest(None), MetadataResponse).topics]


# --- produce and fetch (T12, T13) --------------------------------------------------------------------------------------------


def test_a_hundred_thousand_parts_are_answered_and_more_than_two_hundred_thousand_are_not(unharmed: Victim) -> None:
    with greet(unharmed) as client:
        produce = ProduceRequest(1, 1000, [ProducePart("target", number, 0) for number in range(100_000)])
        fetch = FetchRequest(0, 0, 1, [FetchPart("target", number, 0, 1) for number in range(100_000)])
        offsets = ListOffsetsRequest([ListOffsetsPart("target", number, LATEST) for number in range(100_000)])
        metadata = MetadataRequest([f"t{number}" for number in range(100_000)])
        for request in (produce, fetch, offsets):
            assert client.error_of(request) is None
        too_many = ListOffsetsRequest([ListOffsetsPart("target", 0, LATEST)] * 200_001)
        assert client.error_of(metadata) is InvalidRequest
        assert client.error_of(too_many) is InvalidRequest


@pytest.mark.parametrize("limit", [-1, 0, 2**31 - 1, -(2**63), 2**64 - 1])
def test_any_byte_limits_are_taken_as_some_that_make_sense(unharmed: Victim, limit: int) -> None:
    with greet(unharmed) as client:
        client.send(framed(FetchRequest(-1, limit, limit, [FetchPart("bulk", 0, 0, limit)])))
        response = client.answer()
        (part,) = native.decode_fields(FetchResponse, response.fields).parts
        assert part.error_code == 0
        assert 0 < part.size == len(response.tail) <= 64 * 1024 * 1024


def test_an_error_without_an_answer_ends_the_connection(unharmed: Victim) -> None:
    damaged = one_record()
    damaged[-1] ^= 1
    with greet(unharmed) as client:
        client.send(framed(ProduceRequest(ACKS_NONE, 1000, [ProducePart("target", 0, len(damaged))]), [damaged]))
        assert client.closed() == b""
