"""Valid requests of every api in every version, made by the tables of their fields: what mutations begin with. Pure."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.chaos.fuzz.batches import honest
from ottla.chaos.fuzz.schemas import PRODUCE, VERSIONS, schema_of_request
from ottla.wire.kafka.fields import STRUCTURE, Field
from ottla.wire.kafka.schemas import struct_writer

TARGETS: Final = ("fuzz-target-a", "fuzz-target-b")
"""Topics that are written to and read."""

SCRATCH: Final = ("fuzz-scratch-a", "fuzz-scratch-b", "fuzz-scratch-c")
"""Topics that may come and go, and be altered."""

GROUPS: Final = ("fuzz-group-a", "fuzz-group-b", "fuzz-group-c")
PARTITIONS: Final = 2
BROKERS: Final = 3
CLIENT_ID: Final = b"fuzz"

_CHANGING: Final = frozenset({19, 20, 21, 33, 37, 43, 44, 45})
"""Apis that make, delete or alter topics: they get to know the scratch ones only."""

_SETTINGS: Final = ("retention.ms", "max.message.bytes", "min.insync.replicas", "no.such.setting", "")
_NUMBERS: Final[Mapping[str, tuple[int, ...]]] = {
    "acks": (-1, -1, -1, 1, 0),
    "timeout_ms": (0, 100, 500),
    "max_wait_ms": (0, 0, 50),
    "min_bytes": (0, 1),
    "max_bytes": (0, 1, 100_000),
    "partition_max_bytes": (0, 1, 100_000),
    "session_timeout_ms": (600, 6000, 6000),  # the first is refused
    "rebalance_timeout_ms": (100, 500),
    "num_partitions": (-1, 1, 2),
    "replication_factor": (-1, 1, 3),
    "count": (1, 2, 3),
    "session_id": (0, 0, 0, 1),
    "session_epoch": (-1, -1, 0, 1),
    "replica_id": (-1,),  # a number from 0 on is a broker's, which must prove itself
    "resource_type": (2, 2, 2, 4),
    "timestamp": (-1, -2, -3, 0, 1_700_000_000_000),
    "response_partition_limit": (1, 2000),
    "transaction_timeout_ms": (1000,),
}


class World(NamedTuple):
    """What there is in the cluster that requests name."""

    topic_ids: Mapping[str, bytes]
    now_ms: int


def request_frame(
    source: random.Random, world: World, api: int, version: int, correlation_id: int, records: bytes | None = None
) -> bytes:
    """A request as it goes over the wire, its length in front."""
    schema = schema_of_request(api)
    flexible = version in schema.flexible
    values = _Maker(source, world, api, version, records).struct(schema.fields)
    body = bytearray()
    body += api.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    body += len(CLIENT_ID).to_bytes(2, "big") + CLIENT_ID
    if flexible:
        body.append(0)
    struct_writer(schema.fields, version, flexible)(body, values)
    return len(body).to_bytes(4, "big") + bytes(body)


def any_api(source: random.Random) -> tuple[int, int]:
    """An api and one of its versions."""
    api = source.choice(list(VERSIONS))
    return api, source.choice(VERSIONS[api])


class _Maker:
    """Values for the fields of one request."""

    def __init__(self, source: random.Random, world: World, api: int, version: int, records: bytes | None) -> None:
        self._source = source
        self._world = world
        self._api = api
        self._version = version
        self._records = records
        self._topics = SCRATCH if api in _CHANGING else TARGETS

    def struct(self, fields: Sequence[Field]) -> dict[str, Any]:
        return {field.name: self._value(field) for field in fields if self._version in field.versions}

    def _value(self, field: Field) -> Any:
        must_be = self._api == PRODUCE and field.name in ("records", "topic_data", "partition_data")
        if self._version in field.nullable and not must_be and self._source.random() < 0.3:
            return None
        if field.name == "transactional_id" and self._api == PRODUCE:
            return None
        if not field.is_array:
            return self._one(field)
        count = 1 if must_be or self._source.random() < 0.7 else self._source.randrange(4)
        return [self._one(field) for _ in range(count)]

    def _one(self, field: Field) -> Any:
        if field.kind == STRUCTURE:
            return self.struct(field.fields)
        if field.kind == "string":
            return self._text(field.name)
        if field.kind == "bytes":
            return self._bytes(field.name)
        if field.kind == "uuid":
            return self._topic_id()
        if field.kind == "bool":
            # What would really be made or altered is left to requests that were not mutated: one flipped bit is a
            # topic of thousands of partitions.
            return field.name == "validate_only" or self._source.random() < 0.5
        return self._number(field)

    def _text(self, name: str) -> str:
        if name in ("name", "topic", "topic_name", "topic_names", "resource_name"):
            settings = self._api in (19, 33, 44) and name == "name" and self._source.random() < 0.3
            return self._source.choice(_SETTINGS if settings else self._topics)
        if name in ("group_id", "groups", "groups_names", "key", "coordinator_keys"):
            return self._source.choice(GROUPS)
        if name in ("protocol_type", "protocol_name"):
            return "consumer" if name == "protocol_type" else "range"
        return self._source.choice(("", "text", "ein längerer Text", "1"))

    def _bytes(self, name: str) -> bytes:
        if name == "records":
            return self._records if self._records is not None else honest(self._source, self._world.now_ms)
        return self._source.randbytes(self._source.randrange(40))

    def _topic_id(self) -> bytes | None:
        if self._api in _CHANGING or self._source.random() < 0.1:
            return self._source.randbytes(16) if self._source.random() < 0.5 else None
        return self._source.choice(list(self._world.topic_ids.values()))

    def _number(self, field: Field) -> int:
        name = field.name
        if name in _NUMBERS:
            return self._source.choice(_NUMBERS[name])
        if "partition" in name or name == "index":
            return self._source.randrange(PARTITIONS)
        if name in ("replicas", "broker_ids"):
            return self._source.randrange(BROKERS)
        return self._source.choice((0, 0, 1, 2, -1))
