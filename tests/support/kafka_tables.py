"""Makes wire/kafka's tables of fields from kio's schemas, which come from Kafka's: `python -m tests.support.kafka_tables`."""

import dataclasses
import datetime
import typing
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

FOLDER = Path(__file__).parent.parent.parent / "wire" / "kafka"

APIS = [2, 3, *range(8, 24), 32, 33, 34, 35, 36, 37, *range(42, 48), 60, 61, 68, 69, 74, 75]
"""Of which the tables tell. Produce and Fetch are read and written by hand."""

LATER = 32
"""The responses of the apis from this number on are in a file of their own: all of them are too long for one."""

KINDS = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}


@dataclasses.dataclass
class Field:
    """A field in all versions of its message."""

    name: str
    kind: str
    default: str = ""
    tag: int | None = None
    versions: list[int] = dataclasses.field(default_factory=list)
    nullable: list[int] = dataclasses.field(default_factory=list)
    fields: list["Field"] = dataclasses.field(default_factory=list)


def versions_of(api: int) -> list[int]:
    return sorted(schema_name_map[api_key_map[api]])


def table_of(api: int, load: Any) -> str:
    """The lines of one message."""
    versions = versions_of(api)
    fields: list[Field] = []
    for version in reversed(versions):
        _merge(fields, load(api, version), version)
    flexible = [version for version in versions if load_request_schema(api, version).__flexible__]
    told = f"{flexible[0]}+" if flexible else "none"
    head = f"{api} {api_key_map[api]} {versions[0]}-{versions[-1]} flexible {told}"
    return "\n".join([head, *_lines(fields, versions, 1)])


def _merge(known: list[Field], schema: Any, version: int) -> None:
    """Add what this version has; versions come from the newest to the oldest, and keep the order of their fields."""
    hints = typing.get_type_hints(schema)
    place = 0
    for one in dataclasses.fields(schema):
        hint = hints[one.name]
        found = next((field for field in known if field.name == _name(one)), None)
        if found is None:
            found = Field(_name(one), _kind(one, hint), _default(one), one.metadata.get("tag"))
            known.insert(place, found)
        place = known.index(found) + 1
        found.versions.insert(0, version)
        if type(None) in typing.get_args(hint) and found.kind != "uuid":
            found.nullable.insert(0, version)
        struct = struct_of(hint)
        if struct is not None:
            _merge(found.fields, struct, version)


def _name(field: Any) -> str:
    """Kafka's: kio leaves the unit out."""
    is_time = str(field.metadata.get("kafka_type", "")).startswith("timedelta")
    return f"{field.name}_ms" if is_time else str(field.name)


def _kind(field: Any, hint: Any) -> str:
    options = typing.get_args(hint) if typing.get_origin(hint) is not tuple else (hint,)
    array = "[]" if any(typing.get_origin(option) is tuple for option in options) else ""
    kind = field.metadata.get("kafka_type")
    return array + (KINDS.get(kind, kind) if kind else "{}")


def _default(field: Any) -> str:
    value = field.default
    if isinstance(value, datetime.timedelta):
        value = int(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool | int) and value:
        return str(int(value))
    return "null" if value is None and field.metadata.get("kafka_type") != "uuid" else ""


def struct_of(hint: Any) -> Any:
    """The structure inside of optionals and tuples, if there is one."""
    if dataclasses.is_dataclass(hint):
        return hint
    inner = (struct_of(option) for option in typing.get_args(hint))
    return next((found for found in inner if found is not None), None)


def _lines(fields: Sequence[Field], versions: list[int], depth: int) -> list[str]:
    lines = []
    for field in fields:
        words = [field.name, field.kind, _range(field.versions, versions)]
        words += ["null", _range(field.nullable, versions)] if field.nullable else []
        words += ["tag", str(field.tag)] if field.tag is not None else []
        words += ["=", field.default] if field.default else []
        lines += [" " * depth + " ".join(words), *_lines(field.fields, versions, depth + 1)]
    return lines


def _range(some: list[int], every: list[int]) -> str:
    assert some == list(range(some[0], some[-1] + 1)), f"not one range: {some}"
    return f"{some[0]}+" if some[-1] == every[-1] else f"{some[0]}-{some[-1]}"


def module_of(what: str, load: Any, apis: Sequence[int]) -> str:
    tables = "\n".join(table_of(api, load) for api in apis)
    first = (
        f"The fields of Kafka's {what}, by api: fields.py says how to read it, tests/support/kafka_tables.py makes it."
    )
    return f'"""{first}"""\n\nTABLE = """\\\n{tables}\n"""\n'


MODULES = {
    "request_fields.py": lambda: module_of("requests", load_request_schema, APIS),
    "response_fields.py": lambda: module_of("responses", load_response_schema, [api for api in APIS if api < LATER]),
    "later_response_fields.py": lambda: module_of(
        "responses", load_response_schema, [api for api in APIS if api >= LATER]
    ),
}


def main() -> None:
    for name, make in MODULES.items():
        (FOLDER / name).write_text(make())


if __name__ == "__main__":
    main()
