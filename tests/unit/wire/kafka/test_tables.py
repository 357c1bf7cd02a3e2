"""Our tables of Kafka's fields say what kio's schemas say, and what we read and write by them is what kio reads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from ottla.wire.kafka.apis import APIS
from ottla.wire.kafka.fields import request_schema, response_schema
from ottla.wire.kafka.primitives import Reader
from ottla.wire.kafka.schemas import read_request, write_response
from tests.support import kafka_tables
from tests.support.kafka_values import plain, request_bytes, values_of

VERSIONS = [(api.key, version) for api in APIS.values() for version in range(api.oldest, api.newest + 1)]


@pytest.mark.parametrize("name", kafka_tables.MODULES)
def test_the_tables_are_what_kio_has(name: str) -> None:
    assert (kafka_tables.FOLDER / name).read_text() == kafka_tables.MODULES[name]()


def test_no_version_is_advertised_that_the_tables_do_not_know() -> None:
    for api in APIS.values():
        known = request_schema(api.key).versions
        assert known.oldest <= api.oldest <= api.newest <= known.newest
        assert response_schema(api.key).versions == known


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@settings(max_examples=10)
@given(data=st.data())
def test_kio_reads_what_we_write(api: int, version: int, data: st.DataObject) -> None:
    values = data.draw(values_of(response_schema(api).fields, version))
    written = bytes(write_response(api, version, values))
    entity, size = entity_reader(load_response_schema(api, version))(written, 0)
    assert size == len(written)
    assert plain(entity) == values


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@settings(max_examples=10)
@given(data=st.data())
def test_we_read_what_kio_reads(api: int, version: int, data: st.DataObject) -> None:
    schema = request_schema(api)
    values = data.draw(values_of(schema.fields, version))
    written = request_bytes(api, version, values)
    entity, size = entity_reader(load_request_schema(api, version))(written, 0)
    assert size == len(written)
    assert plain(entity) == values
    reader = Reader(memoryview(written), 0, version in schema.flexible)
    assert plain(read_request(api, version, reader)) == values
    assert reader.left == 0


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_defaults_stand_where_nothing_is_given(api: int, version: int) -> None:
    written = bytes(write_response(api, version, {}))
    _, size = entity_reader(load_response_schema(api, version))(written, 0)
    assert size == len(written)
