"""What clients do that Kafka's schemas do not say: found by running them (tests/foreign), held by raw requests here."""

from types import SimpleNamespace
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import IllegalSaslState, UnknownTopicId
from ottla.wire.kafka.dialect import KafkaDialect
from ottla.wire.kafka.fields import response_schema
from ottla.wire.kafka.primitives import Reader
from ottla.wire.kafka.refused import REFUSED
from ottla.wire.kafka.schemas import is_flexible, struct_reader
from ottla.wire.messages import Message
from ottla.wire.requests import MetadataRequest
from tests.support.kafka_dialect import IDS, answer_to
from tests.support.kafka_values import frame, plain, request_bytes

METADATA, DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS = 3, 60, 75


def _ask(dialect: KafkaDialect, api: int, version: int, values: dict[str, Any]) -> IncomingRequest:
    body = request_bytes(api, version, values)
    request = dialect.read_request(memoryview(frame(api, version, is_flexible(api, version), body)))
    assert isinstance(request, IncomingRequest)
    return request


def _told(dialect: KafkaDialect, request: IncomingRequest, message: Message) -> SimpleNamespace:
    answer = b"".join(bytes(piece) for piece in dialect.encode_response(request, message))
    reader = Reader(memoryview(answer), 9, flexible=True)
    found: SimpleNamespace = struct_reader(response_schema(request.api).fields, request.version)(reader)
    assert not reader.left
    return found


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("name", [None, "", "ignored"])
def test_an_id_counts_more_than_a_name_beside_it(dialect: KafkaDialect, version: int, name: str | None) -> None:
    """Kafka's Java admin asks for topics by id with an empty name, and fails if it is told of one without an id."""
    asked = _ask(dialect, METADATA, version, {"topics": [{"topic_id": IDS["second"], "name": name}]})
    assert isinstance(asked.message, MetadataRequest)
    assert asked.message.topics == ["second"]
    strange = bytes(range(100, 116))
    asked = _ask(dialect, METADATA, version, {"topics": [{"topic_id": strange, "name": name}]})
    assert isinstance(asked.message, MetadataRequest)
    assert asked.message.topics == []
    told = _told(dialect, asked, answer_to(asked.message)).topics[-1]
    assert (told.error_code, told.topic_id) == (UnknownTopicId.code, strange)


def test_eligible_leaders_are_none_and_not_null(dialect: KafkaDialect) -> None:
    """Kafka's Java admin (4.3) fails with a NullPointerException at null, which the schema allows."""
    asked = _ask(dialect, DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "first"}], "response_partition_limit": 9})
    (partition,) = _told(dialect, asked, answer_to(asked.message)).topics[0].partitions
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize(("endpoint_type", "error_code"), [(1, 0), (2, 114), (0, 115), (77, 115)])
def test_endpoints_that_are_not_brokers_are_a_typed_error(
    dialect: KafkaDialect, endpoint_type: int, error_code: int
) -> None:
    asked = _ask(dialect, DESCRIBE_CLUSTER, 1, {"endpoint_type": endpoint_type})
    told = _told(dialect, asked, answer_to(asked.message))
    assert told.error_code == error_code
    assert bool(told.brokers) == (error_code == 0)
    assert told.endpoint_type == endpoint_type


@pytest.mark.parametrize(("api", "version"), [(api, version) for api, known in REFUSED.items() for version in known])
def test_who_tries_sasl_is_told_that_there_is_none(dialect: KafkaDialect, api: int, version: int) -> None:
    """The crate kafka_client sends SaslHandshake wherever it has no credentials, and goes on if it is answered without any."""
    values = {"mechanism": "PLAIN", "auth_bytes": b"secret"}
    body = request_bytes(api, version, values)
    request = dialect.read_request(memoryview(frame(api, version, is_flexible(api, version), body)))
    assert isinstance(request, UnreadableRequest)
    answer = b"".join(bytes(piece) for piece in dialect.encode_error(request, request.error))
    head = 9 if is_flexible(api, version) else 8
    entity, size = entity_reader(load_response_schema(api, version))(answer[head:], 0)
    assert size == len(answer) - head
    told = plain(entity)
    assert told["error_code"] == IllegalSaslState.code
    assert not told.get("mechanisms")
    assert any(one.api == api and one.oldest <= version <= one.newest for one in dialect.api_ranges)
