"""OffsetCommit that names topics by id."""

import io
import uuid
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InconsistentTopicId, UnknownTopicId
from ottla.wire.groups import OffsetCommitPartResult, OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.kafka.topic_ids import to_text
from tests.support.kafka_dialect import IDS, dialect_of_two_topics
from tests.support.kafka_values import entity_of, frame, plain

OFFSET_COMMIT, VERSION = 8, 10
DIALECT = dialect_of_two_topics()


def commit_of(*topics: str) -> IncomingRequest:
    partitions = [{"partition_index": 3, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}]
    named = [{"topic_id": uuid.UUID(bytes=IDS[name]), "partitions": partitions} for name in topics]
    values: dict[str, Any] = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": named}
    schema, out = load_request_schema(OFFSET_COMMIT, VERSION), io.BytesIO()
    entity_writer(schema)(out, entity_of(schema, {"group_instance_id": None, **values}))
    request = DIALECT.read_request(memoryview(frame(OFFSET_COMMIT, VERSION, True, out.getvalue())))
    assert isinstance(request, IncomingRequest)
    return request


def test_commit_by_topic_id_is_of_no_other_topic_that_gets_the_name() -> None:
    message = commit_of("first", "second").message
    assert isinstance(message, OffsetCommitRequest)
    named = [(part.topic, part.topic_id) for part in message.parts]
    assert named == [(name, to_text(IDS[name])) for name in ("first", "second")]


def test_commit_to_a_topic_that_was_made_anew_is_told_that_the_id_is_unknown() -> None:
    refused = OffsetCommitPartResult(InconsistentTopicId.code, "made anew", "first", 3)
    pieces = DIALECT.encode_response(commit_of("first"), OffsetCommitResponse([refused]))
    answer = b"".join(bytes(piece) for piece in pieces)
    entity, _ = entity_reader(load_response_schema(OFFSET_COMMIT, VERSION))(answer[9:], 0)
    (topic,) = plain(entity)["topics"]
    assert topic["topic_id"] == IDS["first"]
    assert [one["error_code"] for one in topic["partitions"]] == [UnknownTopicId.code]
