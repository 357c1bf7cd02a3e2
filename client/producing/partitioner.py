"""Which partition a record goes to: the one it names, else its key's, else the next by turns. Pure.

Keys are hashed as Kafka's Java client does it, so that producers of both kinds put the same key into the same partition.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import cycle, islice
from struct import unpack_from
from typing import Protocol

from ottla.wire.errors import LeaderNotAvailable, UnknownTopicOrPartition

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF

CACHE_ITEMS = 65_536
CACHE_KEY_SIZE_MAX = 64
"""Longer keys are rarely repeated, and would make the cache as large as they like."""


def murmur2(key: bytes) -> int:
    """Austin Appleby's MurmurHash2 as org.apache.kafka.common.utils.Utils computes it: a signed 32-bit number."""
    size = len(key)
    words = size >> 2
    result = SEED ^ size
    for word in unpack_from(f"<{words}I", key):
        word = word * MULTIPLIER & MASK
        result = (result * MULTIPLIER & MASK) ^ ((word ^ word >> 24) * MULTIPLIER & MASK)
    if size & 3:
        result = (result ^ int.from_bytes(key[words << 2 :], "little")) * MULTIPLIER & MASK
    result = (result ^ result >> 13) * MULTIPLIER & MASK
    result ^= result >> 15
    return result - (1 << 32) if result >> 31 else result


_murmur2_cached = lru_cache(maxsize=CACHE_ITEMS)(murmur2)


def partition_for_key(key: bytes, count: int) -> int:
    """The partition of ``key`` in a topic of ``count`` partitions, the same for ever."""
    hashed = _murmur2_cached(key) if len(key) <= CACHE_KEY_SIZE_MAX else murmur2(key)
    return (hashed & 0x7FFFFFFF) % count


def partitions_for_keys(keys: Sequence[bytes], count: int) -> list[int]:
    """As partition_for_key for many keys; each distinct one is hashed once."""
    partitions = {key: partition_for_key(key, count) for key in set(keys)}
    return list(map(partitions.__getitem__, keys))


class Picker(Protocol):
    """Picks partitions for records without a key, out of those that have a leader."""

    def pick(self, partitions: Sequence[int]) -> int:
        """The partition of the next record."""

    def pick_many(self, partitions: Sequence[int], count: int) -> list[int]:
        """The partitions of the next ``count`` records."""

    def next_batch(self) -> None:
        """A batch is full: a picker that stays with a partition may go on to another now."""


class RoundRobin:
    """Each record to the next partition: the most even, and the default."""

    def __init__(self, start: int) -> None:
        """``start`` should be random, so that producers that start together do not walk in step."""
        self._turn = start

    def pick(self, partitions: Sequence[int]) -> int:
        if not partitions:
            _check_available(partitions)
        turn = self._turn
        self._turn = turn + 1
        return partitions[turn % len(partitions)]

    def pick_many(self, partitions: Sequence[int], count: int) -> list[int]:
        _check_available(partitions)
        start = self._turn % len(partitions)
        self._turn += count
        return list(islice(cycle(partitions), start, start + count))

    def next_batch(self) -> None:
        """Nothing: the turn goes on by records."""


class Sticky:
    """All records to one partition until its batch is full: fewer and larger batches, even in the long run."""

    def __init__(self, start: int) -> None:
        """``start`` should be random, so that producers that start together do not walk in step."""
        self._turn = start

    def pick(self, partitions: Sequence[int]) -> int:
        _check_available(partitions)
        return partitions[self._turn % len(partitions)]

    def pick_many(self, partitions: Sequence[int], count: int) -> list[int]:
        return [self.pick(partitions)] * count

    def next_batch(self) -> None:
        self._turn += 1


def choose_partition(
    key: bytes | None, partition: int | None, count: int, available: Sequence[int], picker: Picker
) -> int:
    """The partition of one record: the one it names, else its key's out of all ``count``, else the picker's choice.

    A key does not look at what is ``available``: its records would lose their order whenever a leader is missing.
    """
    if partition is not None:
        if not 0 <= partition < count:
            raise UnknownTopicOrPartition(
                f"partition {partition} of a topic that has {count}",
                partition=partition,
                hint="name a partition below it",
            )
        return partition
    return picker.pick(available) if key is None else partition_for_key(key, count)


def _check_available(partitions: Sequence[int]) -> None:
    if not partitions:
        raise LeaderNotAvailable("no partition of the topic has a leader at the moment")
