"""What Kafka's messages are made of: the tables of request_fields.py, response_fields.py and later_response_fields.py, read.

A message is a line with its api's number, name, versions, and those that are flexible (whose lengths are varints and whose
structures end with tagged fields). Below it stands a line for each field, further in for those of a structure: name, kind
(``[]`` before it: an array; ``{}``: a structure), versions; then, where there is such a thing, ``null`` and the versions in
which it may be null, ``tag`` and its number, ``=`` and its default. ``4+`` is from version 4 on.
"""

import functools
from typing import NamedTuple

from ottla.wire.kafka import later_response_fields, request_fields, response_fields

STRUCTURE = "{}"


class Versions(NamedTuple):
    oldest: int
    newest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.oldest <= version <= self.newest


NEVER = Versions(0, -1)
_EVER = 32_767


class Field(NamedTuple):
    name: str
    kind: str
    """Without the ``[]`` of an array."""
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: str
    fields: tuple["Field", ...]


class Schema(NamedTuple):
    """A message in all its versions."""

    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


def request_schema(api: int) -> Schema:
    return _schema("request", api)


def response_schema(api: int) -> Schema:
    return _schema("response", api)


@functools.cache
def _schema(which: str, api: int) -> Schema:
    return parse_schema(_tables(which)[api])


def parse_schema(lines: list[str]) -> Schema:
    """A message, from its line and those of its fields."""
    _, _, versions, _, flexible = lines[0].split()
    fields, end = _fields(lines, 1, 1)
    assert end == len(lines)
    return Schema(_versions(versions), NEVER if flexible == "none" else _versions(flexible), fields)


@functools.cache
def _tables(which: str) -> dict[int, list[str]]:
    """The lines of each message."""
    responses = response_fields.TABLE + later_response_fields.TABLE
    table = request_fields.TABLE if which == "request" else responses
    found: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in table.splitlines():
        if not line.startswith(" "):
            lines = found[int(line.split()[0])] = []
        lines.append(line)
    return found


def _fields(lines: list[str], start: int, depth: int) -> tuple[tuple[Field, ...], int]:
    """The fields at this depth from a line on, and the line behind them."""
    found = []
    while start < len(lines) and len(lines[start]) - len(lines[start].lstrip()) == depth:
        words = lines[start].split()
        inner, start = _fields(lines, start + 1, depth + 1)
        found.append(_field(words, inner))
    return tuple(found), start


def _field(words: list[str], inner: tuple[Field, ...]) -> Field:
    name, kind, versions = words[:3]
    more = dict(zip(words[3::2], words[4::2], strict=True))
    return Field(
        name,
        kind.removeprefix("[]"),
        kind.startswith("[]"),
        _versions(versions),
        _versions(more["null"]) if "null" in more else NEVER,
        int(more["tag"]) if "tag" in more else None,
        more.get("=", ""),
        inner,
    )


def _versions(text: str) -> Versions:
    if text.endswith("+"):
        return Versions(int(text[:-1]), _EVER)
    oldest, _, newest = text.partition("-")
    return Versions(int(oldest), int(newest or oldest))
