"""Every api in every version: its requests become ours, and whatever we answer, failures too, kio can read."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_reader

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NotController, RemoteProtocolError, UnknownServerError
from ottla.wire.kafka.apis import APIS
from ottla.wire.kafka.fields import request_schema, response_schema
from ottla.wire.kafka.schemas import is_flexible
from tests.support.kafka_dialect import answer_to, dialect_of_two_topics
from tests.support.kafka_values import frame, plain, request_bytes, unknown_names, values_of

DIALECT = dialect_of_two_topics()
VERSIONS = [(api.key, version) for api in APIS.values() for version in range(api.oldest, api.newest + 1)]
ERRORS = [NotController(), UnknownServerError("the broker's log has the details")]


def _request(api: int, version: int, data: st.DataObject) -> IncomingRequest:
    values = data.draw(values_of(request_schema(api).fields, version))
    body = request_bytes(api, version, values)
    request = DIALECT.read_request(memoryview(frame(api, version, is_flexible(api, version), body)))
    assert isinstance(request, IncomingRequest)
    assert (request.api, request.version, request.correlation_id, request.client_id) == (api, version, 7, "a client")
    return request


def _read_by_kio(api: int, version: int, pieces: list[Any]) -> Any:
    answer = b"".join(bytes(piece) for piece in pieces)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert answer[4:8] == (7).to_bytes(4, "big")
    head = 9 if is_flexible(api, version) and api != 18 else 8
    entity, size = entity_reader(load_response_schema(api, version))(answer[head:], 0)
    assert size == len(answer) - head
    return plain(entity)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@settings(max_examples=10)
@given(data=st.data())
def test_a_request_is_understood_and_its_answer_too(api: int, version: int, data: st.DataObject) -> None:
    request = _request(api, version, data)
    _read_by_kio(api, version, DIALECT.encode_response(request, answer_to(request.message)))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.wire_name())
@pytest.mark.parametrize(("api", "version"), VERSIONS)
@settings(max_examples=5)
@given(data=st.data())
def test_a_request_that_failed_is_answered(api: int, version: int, error: Any, data: st.DataObject) -> None:
    request = _request(api, version, data)
    _read_by_kio(api, version, DIALECT.encode_error(request, error))


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=10)
@given(data=st.data())
def test_no_name_in_an_answer_is_unknown_to_kafka(api: int, data: st.DataObject) -> None:
    row = APIS[api]
    request = _request(api, data.draw(st.integers(row.oldest, row.newest)), data)
    fields = response_schema(api).fields
    assert unknown_names(row.write(request, answer_to(request.message)), fields) == []
    unknown = unknown_names(row.failed(request, NotController("no")), fields)
    assert {name.split(".")[-1] for name in unknown} <= {"error_message"}, (
        "what went wrong is told wherever there is room"
    )


def test_a_version_that_is_not_known_ends_the_connection() -> None:
    for one in DIALECT.api_ranges:
        if one.api != 18:
            with pytest.raises(RemoteProtocolError, match=f"version {one.newest + 1} is not known"):
                DIALECT.read_request(memoryview(frame(one.api, one.newest + 1, True, b"")))


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
    request = DIALECT.read_request(memoryview(frame(18, 99, True, b"whatever")))
    assert not isinstance(request, IncomingRequest)
    answer = _read_by_kio(18, 0, DIALECT.encode_error(request, request.error))
    assert answer["error_code"] == 35
    assert {"api_key": 18, "min_version": 0, "max_version": 4} in answer["api_keys"]
