"""Reading requests and writing responses by the tables of Kafka's fields, in any version.

A response is written from one mapping that has the fields of all versions: each version takes those that it knows, by Kafka's
names in snake case, and defaults for what is not given. So an api has one reader and one writer, not one for each version.
"""

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.wire.kafka.fields import STRUCTURE, Field, request_schema, response_schema
from ottla.wire.kafka.primitives import NO_UUID, Reader, add_count, add_text, add_uvarint

Values = Mapping[str, Any]
Read = Callable[[Reader], Any]
Write = Callable[[bytearray, Any], None]

_FORMATS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "float64": ">d", "bool": ">?"}


@functools.cache
def is_flexible(api: int, version: int) -> bool:
    """Whether a request of this version has tagged fields."""
    return version in request_schema(api).flexible


# --- reading -------------------------------------------------------------------------------------------------------------


def read_request(api: int, version: int, reader: Reader) -> SimpleNamespace:
    """The request, with the fields that this version has; InvalidRequest if it cannot be read.

    What is left behind it is passed over, as Kafka's brokers do: librdkafka sends three bytes too many to ask for all topics.
    """
    found: SimpleNamespace = _request_reader(api, version)(reader)
    return found


@functools.cache
def _request_reader(api: int, version: int) -> Read:
    return struct_reader(request_schema(api).fields, version)


def struct_reader(fields: Sequence[Field], version: int) -> Read:
    present = [field for field in fields if version in field.versions]
    plain = [(field.name, _field_reader(field, version)) for field in present if field.tag is None]
    tagged = {field.tag: (field.name, _field_reader(field, version)) for field in present if field.tag is not None}
    missing = {field.name: default_of(field, version) for field in present if field.tag is not None}

    def read_struct(reader: Reader) -> SimpleNamespace:
        found = SimpleNamespace(**missing)
        for name, read in plain:
            setattr(found, name, read(reader))
        if not tagged:
            reader.tags()
        elif reader.flexible:
            for tag, inner in reader.tagged():
                if tag in tagged:
                    name, read = tagged[tag]
                    setattr(found, name, read(inner))
        return found

    return read_struct


def _field_reader(field: Field, version: int) -> Read:
    nullable = version in field.nullable
    if field.is_array:
        return _array_reader(_one_reader(field, version, nullable=False), nullable)
    return _one_reader(field, version, nullable)


def _one_reader(field: Field, version: int, nullable: bool) -> Read:
    if field.kind != STRUCTURE:
        return _scalar_reader(field.kind, nullable)
    read = struct_reader(field.fields, version)
    return (lambda reader: read(reader) if reader.int8() >= 0 else None) if nullable else read


def _array_reader(read: Read, nullable: bool) -> Read:
    def read_array(reader: Reader) -> list[Any] | None:
        count = reader.count_or_null()
        if count is None:
            return None if nullable else []
        return [read(reader) for _ in range(count)]

    return read_array


def _scalar_reader(kind: str, nullable: bool) -> Read:
    """Where null may not stand, it is taken for nothing: an empty text, no bytes."""
    if kind == "string":
        return Reader.text if nullable else lambda reader: reader.text() or ""
    if kind == "bytes":
        return lambda reader: None if (data := reader.data()) is None and nullable else bytes(data or b"")
    if kind == "uuid":
        return lambda reader: None if (found := reader.uuid()) == NO_UUID else found
    unpack = struct.Struct(_FORMATS[kind])
    return lambda reader: reader.unpack(unpack)


# --- writing -------------------------------------------------------------------------------------------------------------


def write_response(api: int, version: int, values: Values) -> bytearray:
    """The body of a response, without its header."""
    out = bytearray()
    _response_writer(api, version)(out, values)
    return out


@functools.cache
def _response_writer(api: int, version: int) -> Write:
    schema = response_schema(api)
    return struct_writer(schema.fields, version, version in schema.flexible)


def struct_writer(fields: Sequence[Field], version: int, flexible: bool) -> Write:
    present = [field for field in fields if version in field.versions]
    plain = [
        (field.name, default_of(field, version), _field_writer(field, version, flexible))
        for field in present
        if field.tag is None
    ]
    tagged = [
        (field.tag, field.name, default_of(field, version), _field_writer(field, version, flexible))
        for field in sorted(present, key=lambda one: one.tag or 0)
        if field.tag is not None
    ]

    def write_struct(out: bytearray, values: Values) -> None:
        for name, default, write in plain:
            write(out, values.get(name, default))
        if flexible:
            told = [(tag, write, values[name]) for tag, name, none, write in tagged if values.get(name, none) != none]
            _add_tagged(out, told)

    return write_struct


def _add_tagged(out: bytearray, told: list[tuple[int, Write, Any]]) -> None:
    add_uvarint(out, len(told))
    for tag, write, value in told:
        inner = bytearray()
        write(inner, value)
        add_uvarint(out, tag)
        add_uvarint(out, len(inner))
        out += inner


def default_of(field: Field, version: int) -> Any:
    """What stands where nothing is given."""
    if field.default == "null" and version in field.nullable:
        return None
    if field.is_array:
        return ()
    if field.kind == STRUCTURE:
        return {}
    if field.kind in ("string", "bytes"):
        return "" if field.kind == "string" else b""
    return int(field.default) if field.default not in ("", "null") else 0


def _field_writer(field: Field, version: int, flexible: bool) -> Write:
    one = _one_writer(field, version, flexible)
    if field.is_array:
        return _array_writer(one, flexible)
    return _nullable_struct(one) if field.kind == STRUCTURE and version in field.nullable else one


def _one_writer(field: Field, version: int, flexible: bool) -> Write:
    if field.kind == STRUCTURE:
        return struct_writer(field.fields, version, flexible)
    return _scalar_writer(field.kind, flexible)


def _nullable_struct(write: Write) -> Write:
    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out += b"\xff"
        else:
            out += b"\x01"
            write(out, value)

    return write_nullable


def _array_writer(write: Write, flexible: bool) -> Write:
    def write_array(out: bytearray, items: Sequence[Any] | None) -> None:
        if items is None:
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        add_count(out, len(items), flexible)
        for item in items:
            write(out, item)

    return write_array


def _scalar_writer(kind: str, flexible: bool) -> Write:
    if kind == "string":
        return lambda out, text: add_text(out, text, flexible)
    if kind == "bytes":
        return lambda out, data: _add_bytes(out, data, flexible)
    if kind == "uuid":
        return _add_uuid
    pack = struct.Struct(_FORMATS[kind]).pack

    def write_number(out: bytearray, number: Any) -> None:
        out += pack(number)

    return write_number


def _add_bytes(out: bytearray, data: bytes | None, flexible: bool) -> None:
    if data is None:
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"
        return
    add_count(out, len(data), flexible)
    out += data


def _add_uuid(out: bytearray, value: bytes | None) -> None:
    out += value or NO_UUID
