"""What ``ottla produce`` reads: records of lines, of JSON or of whole files, each with where it stood. Pure but for reading."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ottla.cli.records import unescape
from ottla.wire.errors import ConfigError

_READ_BYTES = 1 << 16

Headers = list[tuple[str, bytes | None]]


class Input(NamedTuple):
    """A record to write; ``place`` tells where it was read."""

    place: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    timestamp_ms: int | None = None


class Shape(NamedTuple):
    """How records are cut out of the input, and what an empty one means."""

    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    json: bool = False
    null_if_empty: bool = False


def parse_shape(delimiter: str, key_delimiter: str | None, input_format: str | None, *, null_if_empty: bool) -> Shape:
    if input_format not in (None, "json"):
        raise ConfigError(
            f"-f {input_format!r} is no format of input", hint="give json, or leave it out for plain lines"
        )
    if input_format == "json" and (key_delimiter is not None or delimiter != "\\n"):
        raise ConfigError("-f json excludes -K and -D", hint="each line is one JSON object with its own key")
    if delimiter == "" or key_delimiter == "":
        raise ConfigError("-D and -K need at least one character")
    of_keys = unescape(key_delimiter) if key_delimiter is not None else None
    return Shape(unescape(delimiter), of_keys, input_format == "json", null_if_empty)


def records_of(stream: BinaryIO, shape: Shape) -> Iterator[Input]:
    """The records of an input, as they come."""
    for number, piece in enumerate(pieces(stream, shape.delimiter), 1):
        place = f"line {number}" if shape.delimiter == b"\n" else f"record {number}"
        try:
            yield _from_json(place, piece) if shape.json else _from_piece(place, piece, shape)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}", hint=error.hint) from None


def files_of(paths: Iterable[Path], shape: Shape) -> Iterator[Input]:
    """Each file as the value of one record."""
    for path in paths:
        yield Input(str(path), path.read_bytes() or (None if shape.null_if_empty else b""))


def pieces(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """What stands between delimiters; the last piece need not end with one."""
    if delimiter == b"\n":  # at once as each comes, from a terminal too
        for line in stream:
            yield line.removesuffix(b"\n")
        return
    rest = b""
    while more := stream.read(_READ_BYTES):
        *whole, rest = (rest + more).split(delimiter)
        yield from whole
    if rest and rest != b"\n":  # an editor's last newline is no record
        yield rest


def _from_piece(place: str, piece: bytes, shape: Shape) -> Input:
    key: bytes | None = None
    if shape.key_delimiter is not None:
        key, found, value = piece.partition(shape.key_delimiter)
        if not found:
            text = shape.key_delimiter.decode(errors="replace")
            hint = f"give every line a key, as in KEY{text}VALUE, or leave -K out"
            raise ConfigError(f"{piece[:60]!r} has no key delimiter {text!r}", hint=hint)
    else:
        value = piece
    if shape.null_if_empty:
        return Input(place, value or None, key or None)
    return Input(place, value, key)


def _from_json(place: str, piece: bytes) -> Input:
    try:
        found = json.loads(piece)
    except ValueError as error:
        raise ConfigError(f"no JSON: {error}") from None
    if not isinstance(found, dict) or "value" not in found:
        raise ConfigError("no JSON object with a value", hint="`ottla consume -f json` shows what one looks like")
    headers = found.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(each, dict) and "key" in each for each in headers):
        raise ConfigError("headers must be a list of {key, value}")
    timestamp = found.get("timestamp")
    if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, int)):
        raise ConfigError("timestamp must be milliseconds since 1970")
    return Input(
        place,
        _from_value("value", found["value"]),
        _from_value("key", found.get("key")),
        [(str(each["key"]), _from_value("header", each.get("value"))) for each in headers] or None,
        timestamp,
    )


def _from_value(what: str, value: Any) -> bytes | None:
    """The other way round than records.bytes_value."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            pass
    raise ConfigError(f'{what} must be text, null or {{"base64": ...}}')
