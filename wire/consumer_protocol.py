"""What consumers tell each other through their group's coordinator: Kafka's ConsumerProtocol, versions 0 to 3.

A version (i16), then fields as Kafka's other messages write them: big-endian integers, strings with an i16 of length, arrays
and bytes with an i32. What a later version has behind the fields known here is ignored, as Kafka does.
"""

import struct
from typing import NamedTuple

from ottla.wire.errors import InvalidRequest
from ottla.wire.names import TopicPartition

PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 1
NO_GENERATION = -1

_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")


class Subscription(NamedTuple):
    """What a member wants, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """Partitions that it still has, if it lets go of them only when told to (cooperative)."""
    generation: int = NO_GENERATION
    """In which generation it had them."""
    rack: str | None = None


class Assignment(NamedTuple):
    """What a member gets."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    out = bytearray(_I16.pack(SUBSCRIPTION_VERSION))
    out += _I32.pack(len(subscription.topics))
    for topic in subscription.topics:
        _add_string(out, topic)
    _add_bytes(out, subscription.user_data)
    _add_partitions(out, subscription.owned)
    out += _I32.pack(subscription.generation)
    _add_string(out, subscription.rack)
    return bytes(out)


def decode_subscription(data: bytes) -> Subscription:
    """InvalidRequest if it is none."""
    reader = _Reader(data)
    version = reader.i16()
    topics = tuple(reader.string() or "" for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.i32() if version >= 2 else NO_GENERATION
    rack = reader.string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation, rack)


def encode_assignment(assignment: Assignment) -> bytes:
    out = bytearray(_I16.pack(ASSIGNMENT_VERSION))
    _add_partitions(out, assignment.partitions)
    _add_bytes(out, assignment.user_data)
    return bytes(out)


def decode_assignment(data: bytes) -> Assignment:
    """InvalidRequest if it is none. No bytes at all are no partitions: what a member gets of which the leader did not know."""
    if not data:
        return Assignment(())
    reader = _Reader(data)
    reader.i16()
    partitions = reader.partitions()
    return Assignment(partitions, reader.nullable_bytes())


def _add_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out += _I16.pack(-1)
        return
    encoded = text.encode()
    out += _I16.pack(len(encoded)) + encoded


def _add_bytes(out: bytearray, data: bytes | None) -> None:
    out += _I32.pack(-1) if data is None else _I32.pack(len(data)) + data


def _add_partitions(out: bytearray, partitions: tuple[TopicPartition, ...]) -> None:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    out += _I32.pack(len(by_topic))
    for topic, numbers in by_topic.items():
        _add_string(out, topic)
        out += _I32.pack(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def i16(self) -> int:
        return int(self._unpack(_I16))

    def i32(self) -> int:
        return int(self._unpack(_I32))

    def count(self) -> int:
        """Of an array: no more than there are bytes left, so that a lie costs nothing."""
        count = self.i32()
        if not -1 <= count <= len(self._data) - self._at:
            raise InvalidRequest(f"consumer protocol: an array of {count} in {len(self._data) - self._at} bytes")
        return max(count, 0)

    def string(self) -> str | None:
        size = self.i16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise InvalidRequest("consumer protocol: a string that is not UTF-8") from None

    def nullable_bytes(self) -> bytes | None:
        size = self.i32()
        return None if size < 0 else self._take(size)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found = []
        for _ in range(self.count()):
            topic = self.string() or ""
            found += [TopicPartition(topic, self.i32()) for _ in range(self.count())]
        return tuple(found)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise InvalidRequest(f"consumer protocol: {size} bytes where {len(taken)} are left")
        self._at += size
        return taken

    def _unpack(self, kind: struct.Struct) -> int:
        value: int
        (value,) = kind.unpack(self._take(kind.size))
        return value
