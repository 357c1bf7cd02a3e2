"""The largest requests that brokers take: most elements, longest names, most tagged fields, for every api and version. Pure.

Each is valid in its form and as long as the limits of its api allow, so that brokers must handle it and not just refuse it.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

from ottla.chaos.fuzz.requests import CLIENT_ID, GROUPS, TARGETS, World
from ottla.chaos.fuzz.schemas import PRODUCE, VERSIONS, schema_of_request
from ottla.wire.kafka.fields import STRUCTURE, Field
from ottla.wire.kafka.primitives import add_count, add_uvarint
from ottla.wire.kafka.schemas import struct_writer
from ottla.wire.request_limits import MIB, limit_of

NAME: Final = "n" * 249
"""As long as a topic's name may be."""

BYTES_MAX: Final = 4 * MIB
"""What a request is filled up to: longer ones are the same, and keep the attacker busy."""

HEAVY_PRODUCE: Final = 2_500
"""Batches of a Produce: more than are handled at once."""

PATTERNS: Final = (".*", "(.*a.*b){100}", "(((.*)*)*)*" * 40, "(f|u|.)*" * 60)


class Shape:
    """What is many in a request."""

    def __init__(self, name: str, outer: int, inner: int, *, long_names: bool, tags: int = 0) -> None:
        self.name = name
        self.outer = outer
        """Elements of each array at the top."""
        self.inner = inner
        """Elements of each array below it."""
        self.long_names = long_names
        self.tags = tags


SHAPES: Final = (
    Shape("many at the top", 200_000, 1, long_names=False),
    Shape("many below", 1, 200_000, long_names=False),
    Shape("many of both", 400, 400, long_names=False),
    Shape("a thousand, long names", 1_000, 5, long_names=True),
    Shape("tagged fields", 1, 1, long_names=False, tags=200_000),
)


def largest_frame(source: random.Random, world: World, api: int, version: int, shape: Shape, batch: bytes) -> bytes:
    """A request with its length in front, within the limits of its api."""
    limit = limit_of(api)
    room = limit.elements_max - 10
    outer = max(1, min(shape.outer, room // (1 + min(shape.inner, 2))))
    inner = max(1, min(shape.inner, room // outer - 1))
    if api == PRODUCE:
        outer, inner = min(outer, HEAVY_PRODUCE), max(1, min(inner, HEAVY_PRODUCE // min(outer, HEAVY_PRODUCE)))
    frame, elements = _frame(source, world, api, version, shape, outer, inner, batch)
    while (len(frame) > min(limit.frame_max, BYTES_MAX) or elements > room) and (outer > 1 or inner > 1):
        outer, inner = max(1, outer * 3 // 4), max(1, inner * 3 // 4)
        frame, elements = _frame(source, world, api, version, shape, outer, inner, batch)
    return frame


def _frame(
    source: random.Random, world: World, api: int, version: int, shape: Shape, outer: int, inner: int, batch: bytes
) -> tuple[bytes, int]:
    """The frame, and how many elements and tagged fields it has."""
    schema = schema_of_request(api)
    flexible = version in schema.flexible
    body = bytearray(api.to_bytes(2, "big") + version.to_bytes(2, "big") + (1).to_bytes(4, "big"))
    body += len(CLIENT_ID).to_bytes(2, "big") + CLIENT_ID
    tags = 0
    if flexible:
        tags = min(shape.tags, limit_of(api).elements_max // 2, limit_of(api).frame_max // 4)
        add_uvarint(body, tags)
        body += bytes(2 * tags)
    filler = _Filler(source, world, api, version, shape, outer, inner, batch)
    body += filler.struct(schema.fields, 0)
    return len(body).to_bytes(4, "big") + bytes(body), tags + filler.elements


class _Filler:
    """Writes the fields of one request: of each array the same element again and again, which is written once."""

    def __init__(
        self, source: random.Random, world: World, api: int, version: int, shape: Shape, outer: int, inner: int,
        batch: bytes,
    ) -> None:  # fmt: skip
        self._source = source
        self._world = world
        self._api = api
        self._version = version
        self._flexible = version in schema_of_request(api).flexible
        self._shape = shape
        self._counts = (outer, inner, 1, 1)
        self._batch = batch
        self._repeated = 1
        self.elements = 0

    def struct(self, fields: Sequence[Field], depth: int) -> bytes:
        present = [field for field in fields if self._version in field.versions and field.tag is None]
        return b"".join(self._field(field, depth) for field in present) + (b"\0" if self._flexible else b"")

    def _field(self, field: Field, depth: int) -> bytes:
        if not field.is_array:
            return self._one(field, depth)
        out = bytearray()
        count = self._counts[depth]
        add_count(out, count, self._flexible)
        self._repeated *= count
        self.elements += self._repeated
        element = self._one(field, depth + 1)
        self._repeated //= count
        return bytes(out) + element * count

    def _one(self, field: Field, depth: int) -> bytes:
        if field.kind == STRUCTURE:
            present = b"\x01" if self._version in field.nullable and not field.is_array else b""
            return present + self.struct(field.fields, depth)
        out = bytearray()
        plain = field._replace(is_array=False)
        struct_writer((plain,), self._version, self._flexible)(out, {field.name: self._value(field)})
        return bytes(out[:-1] if self._flexible else out)  # without the tagged fields, of which there are none

    def _value(self, field: Field) -> Any:
        if field.name == "transactional_id":
            return None if self._version in field.nullable else ""
        if field.kind == "string":
            return self._text(field.name)
        if field.kind == "bytes":
            return self._batch if field.name == "records" else b"x" * 1_000
        if field.kind == "uuid":
            return self._source.choice(list(self._world.topic_ids.values()))
        return _NUMBERS.get(field.name, 0)

    def _text(self, name: str) -> str:
        if name == "subscribed_topic_regex":
            return self._source.choice(PATTERNS)
        if name in ("name", "topic", "topic_name", "topic_names", "resource_name"):
            return NAME if self._shape.long_names or self._api in _CHANGING else self._source.choice(TARGETS)
        if name in ("group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys"):
            return self._source.choice(GROUPS)
        if name in ("protocol_type", "protocol_name"):
            return "consumer" if name == "protocol_type" else "range"
        if name == "server_assignor":
            return "uniform"
        return NAME if self._shape.long_names else ""


_CHANGING: Final = frozenset({19, 20, 21, 33, 37, 43, 44, 45})
"""Apis that make, delete or alter topics: they name one that there is not."""

_NUMBERS: Final = {
    "acks": -1, "timeout_ms": 500, "max_wait_ms": 50, "min_bytes": 1, "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20,
    "session_timeout_ms": 6_000, "rebalance_timeout_ms": 500, "num_partitions": 1, "replication_factor": 1, "count": 3,
    "session_epoch": -1, "replica_id": -1, "resource_type": 2, "timestamp": 0, "response_partition_limit": 2_000,
    "validate_only": True, "member_epoch": 0, "generation_id": 1, "generation_id_or_member_epoch": -1,
}  # fmt: skip


def any_largest(source: random.Random, world: World, batch: bytes) -> tuple[str, bytes]:
    """One of them, and what it is called."""
    api = source.choice(list(VERSIONS))
    version = source.choice(VERSIONS[api])
    shape = source.choice(SHAPES)
    return f"largest: {shape.name}", largest_frame(source, world, api, version, shape, batch)
