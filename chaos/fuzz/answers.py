"""What came back: answers are read strictly, by the fields of the version that was asked for, to their last byte. Pure."""

from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ottla.chaos.fuzz.mutations import LENGTH_SIZE
from ottla.chaos.fuzz.schemas import API_VERSIONS, PRODUCE, VERSIONS, schema_of_response
from ottla.wire.errors import ERRORS, NO_ERROR, InvalidRequest
from ottla.wire.kafka.primitives import Reader
from ottla.wire.kafka.schemas import struct_reader

UNFORESEEN: Final = -1
"""UNKNOWN_SERVER_ERROR: no input may bring that about."""


class Unreadable(Exception):
    """An answer that no client could read."""


def frames_of(sent: bytes) -> list[bytes]:
    """What was sent, cut into whole frames as a broker cuts it."""
    found, position = [], 0
    while len(sent) - position > LENGTH_SIZE:
        size = int.from_bytes(sent[position : position + LENGTH_SIZE], "big", signed=True) + LENGTH_SIZE
        if size <= LENGTH_SIZE or size > len(sent) - position:
            break
        found.append(sent[position : position + size])
        position += size
    return found


class Asked(NamedTuple):
    """What a frame asks for, as its head says."""

    api: int
    version: int
    correlation_id: int


def asked_by(frame: bytes) -> Asked | None:
    """None if it has no whole head."""
    if len(frame) < 12:
        return None
    api, version, correlation_id = (
        int.from_bytes(frame[at:end], "big", signed=True) for at, end in ((4, 6), (6, 8), (8, 12))
    )
    return Asked(api, version, correlation_id)


def read_answer(asked: Asked, answer: bytes) -> SimpleNamespace:
    """All fields of an answer (without its length); Unreadable if it is not one to what was asked, or has bytes left over."""
    versions = VERSIONS.get(asked.api, range(0))
    version = asked.version
    if version not in versions:
        if asked.api != API_VERSIONS:
            raise Unreadable(f"an answer to api {asked.api} version {version}, which is not advertised")
        version = 0  # who asks for more than is known is told so in the oldest version
    schema = schema_of_response(asked.api)
    flexible = version in schema.flexible
    reader = Reader(memoryview(answer), 0, flexible)
    try:
        correlation_id = reader.int32()
        if flexible and asked.api != API_VERSIONS:
            reader.tags()
        found: SimpleNamespace = struct_reader(schema.fields, version)(reader)
    except (InvalidRequest, IndexError) as error:
        raise Unreadable(f"api {asked.api} version {version}: {error}") from None
    if correlation_id != asked.correlation_id:
        raise Unreadable(f"api {asked.api}: correlation id {correlation_id}, {asked.correlation_id} was sent")
    if reader.left:
        raise Unreadable(f"api {asked.api} version {version}: {reader.left} bytes left over")
    return found


def error_codes(found: Any) -> set[int]:
    """All error codes in an answer, wherever they stand; 0 is none."""
    if isinstance(found, SimpleNamespace):
        codes = {int(value) for name, value in vars(found).items() if name == "error_code" and value is not None}
        return codes.union(*(error_codes(value) for value in vars(found).values()))
    return set().union(*map(error_codes, found)) if isinstance(found, list) else set()


def kind_of(codes: set[int]) -> str:
    """An answer in a word: the error that it tells of, or ok."""
    told = sorted(codes - {NO_ERROR})
    if not told:
        return "ok"
    return ERRORS[told[0]].wire_name() if told[0] in ERRORS else f"error {told[0]}"


def expects_answer(frame: bytes) -> bool:
    """Whether a valid request gets an answer at all: Produce with acks=0 gets none."""
    asked = asked_by(frame)
    if asked is None or asked.api != PRODUCE:
        return asked is not None
    # Behind the client's name: no transaction, a null of two bytes, or, where there are tags, none and a null of one byte.
    position = 16 + int.from_bytes(frame[12:14], "big")
    return int.from_bytes(frame[position : position + 2], "big", signed=True) != 0
