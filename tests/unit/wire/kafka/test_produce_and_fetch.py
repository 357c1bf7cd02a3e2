"""Produce and Fetch, which are read and written by hand, beside kio in every version."""

import io
import uuid
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ottla.wire.batch import Codec
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    NotLeaderOrFollower,
    OttlaError,
)
from ottla.wire.kafka import fetch, produce
from ottla.wire.kafka.batches import has_zstd
from ottla.wire.kafka.topic_ids import to_text
from ottla.wire.requests import (
    FetchDrop,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    NumberedFetchRequest,
    NumberedFetchResponse,
    ProducePartResult,
    ProduceRequest,
    ProduceResponse,
    TransactionalProduceRequest,
)
from tests.support.kafka_dialect import IDS, dialect_of_two_topics
from tests.support.kafka_values import entity_of, frame, plain

DIALECT = dialect_of_two_topics()
STRANGE = bytes(range(100, 116))
PRODUCE_VERSIONS = range(3, produce.NEWEST + 1)
FETCH_VERSIONS = range(fetch.OLDEST, fetch.NEWEST + 1)


def _request(api: int, version: int, values: dict[str, Any]) -> IncomingRequest:
    schema = load_request_schema(api, version)
    out = io.BytesIO()
    entity_writer(schema)(out, entity_of(schema, values))
    request = DIALECT.read_request(memoryview(frame(api, version, schema.__flexible__, out.getvalue())))
    assert isinstance(request, IncomingRequest)
    return request


def _answer(api: int, version: int, pieces: list[Any]) -> Any:
    answer = b"".join(bytes(piece) for piece in pieces)
    head = 9 if load_request_schema(api, version).__flexible__ else 8
    entity, size = entity_reader(load_response_schema(api, version))(answer[head:], 0)
    assert size == len(answer) - head
    return plain(entity)


def _topic(name: str, **more: Any) -> dict[str, Any]:
    """A topic as any version names it; a name that is not known has an id that is not."""
    topic_id = uuid.UUID(bytes=IDS.get(name, STRANGE))
    return {"name": name, "topic": name, "topic_id": topic_id, **more}


# --- Produce -------------------------------------------------------------------------------------------------------------

RECORDS = [b"records of the first", b"r" * 300, b"third"]


def _produce(version: int, **more: Any) -> IncomingRequest:
    topics = [
        _topic("first", partition_data=[{"index": 0, "records": RECORDS[0]}, {"index": 7, "records": RECORDS[1]}]),
        _topic("second", partition_data=[{"index": 1, "records": RECORDS[2]}]),
    ]
    return _request(0, version, {"transactional_id": None, "acks": -1, "timeout": 1500, "topic_data": topics, **more})


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_records_come_as_they_were_sent(version: int) -> None:
    request = _produce(version)
    message = request.message
    assert isinstance(message, ProduceRequest)
    assert (message.acks, message.timeout_ms) == (-1, 1500)
    assert [(part.topic, part.partition, part.size) for part in message.parts] == [
        ("first", 0, 20), ("first", 7, 300), ("second", 1, 5),
    ]  # fmt: skip
    assert [bytes(view) for view in request.attachments] == RECORDS
    named_by_id = [to_text(IDS[part.topic]) if version >= produce.IDS_FROM else "" for part in message.parts]
    assert [part.topic_id for part in message.parts] == named_by_id


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_kio_reads_our_answer_to_a_produce(version: int) -> None:
    request = _produce(version)
    parts = [
        ProducePartResult(0, "", "first", 0, 100, -1, 5),
        ProducePartResult(6, "not I", "first", 7, leader=2, leader_epoch=9),
        ProducePartResult(0, "", "second", 1, 3, 1234, 0),
    ]
    answer = _answer(0, version, DIALECT.encode_response(request, ProduceResponse(parts)))
    first, second = answer["responses"]
    assert (
        (first["topic_id"], second["topic_id"]) == (IDS["first"], IDS["second"])
        if version >= 13
        else ((first["name"], second["name"]) == ("first", "second"))
    )
    told = [*first["partition_responses"], *second["partition_responses"]]
    assert [(one["index"], one["error_code"], one["base_offset"]) for one in told] == [
        (0, 0, 100),
        (7, 6, -1),
        (1, 0, 3),
    ]
    if version >= 5:
        assert [one["log_start_offset"] for one in told] == [5, -1, 0]
    if version >= 8:
        assert [one["error_message"] for one in told] == [None, "not I", None]
    if version >= 10:
        assert told[1]["current_leader"] == {"leader_id": 2, "leader_epoch": 9}


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_that_failed_tells_every_part(version: int) -> None:
    answer = _answer(0, version, DIALECT.encode_error(_produce(version), NotLeaderOrFollower("no")))
    assert [one["error_code"] for topic in answer["responses"] for one in topic["partition_responses"]] == [6, 6, 6]


def test_an_id_that_no_topic_has_is_refused_and_the_rest_goes_on() -> None:
    part = {"index": 4, "records": b"lost"}
    topics = [_topic("unknown", partition_data=[part]), _topic("first", partition_data=[part])]
    request = _request(0, 13, {"transactional_id": None, "acks": 1, "timeout": 1, "topic_data": topics})
    assert [bytes(view) for view in request.attachments] == [b"lost"]
    answer = _answer(
        0, 13, DIALECT.encode_response(request, ProduceResponse([ProducePartResult(0, "", "first", 4, 0)]))
    )
    errors = {one["topic_id"]: one["partition_responses"][0]["error_code"] for one in answer["responses"]}
    assert errors == {IDS["first"]: 0, STRANGE: 100}


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_transaction_is_told_apart(version: int) -> None:
    message = _produce(version, transactional_id="of mine").message
    assert isinstance(message, TransactionalProduceRequest)
    assert (message.transactional_id, len(message.parts)) == ("of mine", 3)
    assert not isinstance(_produce(version).message, TransactionalProduceRequest)


# --- Fetch ---------------------------------------------------------------------------------------------------------------


def _fetch(version: int, **more: Any) -> IncomingRequest:
    def part(number: int, offset: int) -> dict[str, Any]:
        return {
            "partition": number, "current_leader_epoch": 3, "fetch_offset": offset, "last_fetched_epoch": -1,
            "log_start_offset": -1, "partition_max_bytes": 1000 + number, "high_watermark": 7,
        }  # fmt: skip

    values = {
        "replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 50_000, "isolation_level": 1,
        "session_id": 0, "session_epoch": -1, "rack_id": "a",
        "topics": [_topic("first", partitions=[part(0, 10), part(2, 20)]), _topic("second", partitions=[part(1, 30)])],
        "forgotten_topics_data": [_topic("second", partitions=[5, 6])],
    }  # fmt: skip
    return _request(1, version, values | more)


def _text(topic: str) -> str:
    return to_text(IDS[topic])


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_is_understood(version: int) -> None:
    message = _fetch(version, session_id=77, session_epoch=5).message
    assert isinstance(message, FetchRequest)
    assert (message.max_wait_ms, message.min_bytes, message.max_bytes, message.replica_id) == (500, 1, 50_000, -1)
    told = [(part.topic, part.partition, part.offset, part.max_bytes, part.leader_epoch) for part in message.parts]
    epoch = 3 if version >= 9 else -1
    assert told == [("first", 0, 10, 1000, epoch), ("first", 2, 20, 1002, epoch), ("second", 1, 30, 1001, epoch)]
    assert isinstance(message, NumberedFetchRequest) == (version >= 7)
    if isinstance(message, NumberedFetchRequest):
        assert (message.session_id, message.session_epoch, message.by_id) == (77, 5, version >= 13)
        forgotten = _text("second") if version >= 13 else "second"
        assert message.dropped == (FetchDrop(forgotten, 5), FetchDrop(forgotten, 6))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_kio_reads_our_answer_to_a_fetch(version: int) -> None:
    parts = [
        FetchPartResult(0, "", "first", 0, 7, 17, 1, topic_id=_text("first")),
        FetchPartResult(6, "no", "first", 2, leader=1, leader_epoch=8, topic_id=_text("first")),
        FetchPartResult(0, "", "second", 1, 0, 30, 0, topic_id=_text("second")),
    ]
    response = NumberedFetchResponse(parts, True, 12345) if version >= 7 else FetchResponse(parts)
    answer = _answer(1, version, DIALECT.encode_response(_fetch(version), response, [b"abc", b"defg"]))
    told = [one for topic in answer["responses"] for one in topic["partitions"]]
    assert [(one["partition_index"], one["error_code"], one["high_watermark"]) for one in told] == [
        (0, 0, 17), (2, 6, -1), (1, 0, 30),
    ]  # fmt: skip
    assert [one["records"] for one in told] == [b"abcdefg", b"", b""]
    if version >= 7:
        assert (answer["error_code"], answer["session_id"]) == (0, 12345)
    if version >= 12:
        assert told[1]["current_leader"] == {"leader_id": 1, "leader_epoch": 8}
    if version >= 13:
        assert [topic["topic_id"] for topic in answer["responses"]] == [IDS["first"], IDS["second"]]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_that_failed_tells_every_part(version: int) -> None:
    answer = _answer(1, version, DIALECT.encode_error(_fetch(version), NotLeaderOrFollower("no")))
    assert [one["error_code"] for topic in answer["responses"] for one in topic["partitions"]] == [6, 6, 6]
    if version >= 13:
        assert [topic["topic_id"] for topic in answer["responses"]] == [IDS["first"], IDS["second"]]


@pytest.mark.parametrize("version", range(7, fetch.NEWEST + 1))
@pytest.mark.parametrize("error", [FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError])
def test_an_error_of_the_session_is_the_answers_own(version: int, error: type[OttlaError]) -> None:
    answer = _answer(1, version, DIALECT.encode_error(_fetch(version), error("no")))
    assert (answer["error_code"], answer["session_id"], answer["responses"]) == (error.code, 0, [])


def test_an_id_that_no_topic_has_is_asked_for_all_the_same() -> None:
    part = {
        "partition": 3, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1, "log_start_offset": -1,
        "partition_max_bytes": 1,
    }  # fmt: skip
    request = _fetch(16, topics=[_topic("unknown", partitions=[part])])
    assert isinstance(request.message, FetchRequest)
    assert [(one.topic, one.topic_id, one.partition) for one in request.message.parts] == [("", to_text(STRANGE), 3)]
    refused = FetchPartResult(100, "", "", 3, topic_id=to_text(STRANGE))
    answer = _answer(1, 16, DIALECT.encode_response(request, NumberedFetchResponse([refused])))
    assert answer["responses"][0]["topic_id"] == STRANGE
    assert answer["responses"][0]["partitions"][0]["error_code"] == 100


@pytest.mark.parametrize("length", [-13, -12, -1, 0, 48, 2**31 - 1])
def test_impossible_batch_length_ends_the_search_for_zstd(length: int) -> None:
    records = bytearray(200)
    records[8:12] = length.to_bytes(4, "big", signed=True)
    assert not has_zstd(records)
    records[22] = Codec.ZSTD
    assert has_zstd(records)
