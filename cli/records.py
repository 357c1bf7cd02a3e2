"""Records as text: percent formats as kcat knows them, or one JSON object per line. Pure."""

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from ottla.client import Record

RecordPrinter = Callable[["Record"], bytes]

_ESCAPES = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\0": b"\0", "\\\\": b"\\"}
_PIECES = re.compile(r"%.|\\x[0-9a-fA-F]{2}|\\.|[^%\\]+|.", re.DOTALL)

_VERBS: dict[str, RecordPrinter] = {
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: str(record.partition).encode(),
    "%o": lambda record: str(record.offset).encode(),
    "%k": lambda record: record.key or b"",
    "%v": lambda record: record.value or b"",
    "%s": lambda record: record.value or b"",
    "%T": lambda record: str(record.timestamp).encode(),
    "%h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    "%K": lambda record: str(-1 if record.key is None else len(record.key)).encode(),
    "%S": lambda record: str(-1 if record.value is None else len(record.value)).encode(),
}
VERBS_HELP = (
    "%t topic, %p partition, %o offset, %k key, %v value, %T timestamp in ms, %h headers, "
    "%K and %S lengths of key and value"
)


def record_printer(text: str) -> RecordPrinter:
    """How to print each record: ``json``, or a format such as ``%t[%p]@%o %k %v\\n``."""
    if text.lower() == "json":
        return _as_json_line
    if text.isalpha():
        raise ConfigError(f"-f {text!r} shows nothing of a record", hint=f"known are {VERBS_HELP}, or the word json")
    pieces = [_piece(piece, text) for piece in _PIECES.findall(text)]

    def printer(record: "Record") -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)

    return printer


def _piece(piece: str, whole: str) -> bytes | RecordPrinter:
    if piece == "%%":
        return b"%"
    if piece.startswith("%"):
        if piece not in _VERBS:
            raise ConfigError(f"-f {whole!r} has {piece!r}", hint=f"known are {VERBS_HELP}, %%, or the word json")
        return _VERBS[piece]
    return _escaped(piece)


def _escaped(piece: str) -> bytes:
    if len(piece) == 4 and piece.startswith("\\x"):
        return bytes.fromhex(piece[2:])
    return _ESCAPES.get(piece) or piece.encode()


def unescape(text: str) -> bytes:
    """Text with \\n, \\t, \\r, \\0 and \\xNN as the bytes that they stand for."""
    return b"".join(_escaped(piece) for piece in re.findall(r"\\x[0-9a-fA-F]{2}|\\.|[^\\]+|.", text, re.DOTALL))


def record_value(record: "Record") -> dict[str, Any]:
    """A record as JSON has it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_value(record.key),
        "value": bytes_value(record.value),
        "headers": [{"key": name, "value": bytes_value(value)} for name, value in record.headers],
    }


def bytes_value(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as JSON has them: text where they are UTF-8, else ``{"base64": ...}``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _as_json_line(record: "Record") -> bytes:
    return json.dumps(record_value(record), ensure_ascii=False).encode() + b"\n"
