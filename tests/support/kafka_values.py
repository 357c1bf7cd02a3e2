"""Any values for Kafka's messages, by their tables of fields, and what kio makes of the same bytes."""

import dataclasses
import datetime
import typing
import uuid
from collections.abc import Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from ottla.wire.kafka.fields import STRUCTURE, Field, request_schema
from ottla.wire.kafka.schemas import struct_writer
from tests.support.kafka_tables import struct_of

ERROR_CODES = st.sampled_from([0, 1, 3, 6, 15, 25, 35, 41, 79, 100])
NUMBERS = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
}
TEXTS = st.text(max_size=12)


def values_of(fields: Sequence[Field], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """All fields that the version has, with any values."""
    return st.fixed_dictionaries({field.name: _value(field, version) for field in fields if version in field.versions})


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    one = _one(field, version)
    value = st.lists(one, max_size=2) if field.is_array else one
    return st.none() | value if version in field.nullable else value


def _one(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind == STRUCTURE:
        return values_of(field.fields, version)
    if field.name == "error_code":
        return ERROR_CODES
    if field.kind == "string":
        return TEXTS
    if field.kind == "bytes":
        return st.binary(max_size=12)
    if field.kind == "uuid":
        return st.none() | st.binary(min_size=16, max_size=16).filter(any)
    return st.integers(-1, 2**31 - 1) if field.name.endswith("_ms") else NUMBERS[field.kind]  # as exact as kio's floats


def request_bytes(api: int, version: int, values: dict[str, Any]) -> bytes:
    """The body of a request, without its header: kio agrees on it (test_tables.py)."""
    out = bytearray()
    schema = request_schema(api)
    struct_writer(schema.fields, version, version in schema.flexible)(out, values)
    return bytes(out)


def frame(api: int, version: int, flexible: bool, body: bytes, client_id: str = "a client") -> bytes:
    """A request as it comes, without its length."""
    name = client_id.encode()
    head = api.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + len(name).to_bytes(2, "big")
    return head + name + (b"\0" if flexible else b"") + body


def entity_of(schema: Any, values: dict[str, Any]) -> Any:
    """kio's object with the fields that its version has, from plain values."""
    hints = typing.get_type_hints(schema)
    given = {}
    for field in dataclasses.fields(schema):
        if field.name not in values:
            continue
        value, inner = values[field.name], struct_of(hints[field.name])
        if inner is not None and value is not None:
            value = tuple(entity_of(inner, one) for one in value)
        elif isinstance(value, list):
            value = tuple(value)
        if str(field.metadata.get("kafka_type")).startswith("timedelta"):
            value = datetime.timedelta(milliseconds=value)
        given[field.name] = value
    return schema(**given)


def plain(entity: Any) -> Any:
    """What kio has read, or we have, as plain values by Kafka's names."""
    if isinstance(entity, SimpleNamespace):
        return {name: plain(value) for name, value in vars(entity).items()}
    if dataclasses.is_dataclass(entity) and not isinstance(entity, type):
        return {_name(one): plain(getattr(entity, one.name)) for one in dataclasses.fields(entity)}
    if isinstance(entity, tuple | list):
        return [plain(one) for one in entity]
    if isinstance(entity, datetime.timedelta):
        return round(entity / datetime.timedelta(milliseconds=1))
    if isinstance(entity, uuid.UUID):
        return entity.bytes
    return entity.value if isinstance(entity, Enum) else entity


def _name(field: Any) -> str:
    is_time = str(field.metadata.get("kafka_type", "")).startswith("timedelta")
    return f"{field.name}_ms" if is_time else str(field.name)


def unknown_names(values: Any, fields: Sequence[Field], where: str = "") -> list[str]:
    """Names in the values of an answer that no version of it has."""
    if isinstance(values, list | tuple):
        return [name for one in values for name in unknown_names(one, fields, where)]
    if not isinstance(values, dict):
        return []
    by_name = {field.name: field for field in fields}
    found = [f"{where}{name}" for name in values if name not in by_name]
    for name, value in values.items():
        if name in by_name:
            found += unknown_names(value, by_name[name].fields, f"{where}{name}.")
    return found
