"""Offsets of many partitions: as Spark keeps them in a checkpoint, cut to a trigger's limit, and cut into slices. Pure.

A stream's offset is Spark's Kafka source's, ``{"orders": {"0": 23}}``, and beside it two notes under names that no topic
can have (docs/decisions/0026)::

    "@ids":  {"orders": "uuid"}      which topic of that name is meant: one that was deleted and made anew is another
    "@from": {"orders": {"0": 0}}    where a partition began that is new with this offset

Spark compares offsets as text, so they are written in one order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from ottla.spark_jobs.positions import Offsets
from ottla.wire.names import TopicPartition

IDS, FROM = "@ids", "@from"

SLICE_RECORDS_MAX = 1_000_000
"""A slice takes a core a second or so: small enough that the last ones keep no core waiting for long, and large enough that
what a task costs by itself, a tenth of that where measured, is little."""

SLICE_RECORDS_MIN = 50_000
"""Less is not cut for the sake of idle cores: a task costs as much as reading so many records."""


@dataclass(frozen=True)
class StreamOffset:
    """How far a stream has read: the next offset of each partition."""

    offsets: Offsets = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    begins: Offsets = field(default_factory=dict)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "StreamOffset":
        offsets = {topic: parts for topic, parts in told.items() if not topic.startswith("@")}
        return cls(_by_partition(offsets), dict(told.get(IDS, {})), _by_partition(told.get(FROM, {})))

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = _by_topic(self.offsets)
        ids = {topic: self.ids[topic] for topic in told if topic in self.ids}
        return told | ({IDS: ids} if ids else {}) | ({FROM: _by_topic(self.begins)} if self.begins else {})


def _by_partition(told: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, parts in told.items()
        for partition, offset in parts.items()
    }


def _by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = {}
    for where, offset in sorted(offsets.items()):
        told.setdefault(where.topic, {})[str(where.partition)] = offset
    return told


# --- a trigger's limit -------------------------------------------------------------------------------------------------


def count_between(begins: Offsets, ends: Offsets) -> int:
    return sum(max(end - begins[where], 0) for where, end in ends.items())


def limited(begins: Offsets, ends: Offsets, most: int) -> Offsets:
    """Ends such that no more than ``most`` offsets lie before them, shared by how much each partition has.

    What rounding leaves goes to those that it cost most, so that the limit is used up and no partition waits for ever.
    """
    sizes = {where: max(end - begins[where], 0) for where, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    shares = {where: divmod(size * most, total) for where, size in sizes.items()}
    rest = most - sum(whole for whole, _ in shares.values())
    favoured = set(sorted(shares, key=lambda where: (-shares[where][1], where))[:rest])
    return {where: begins[where] + whole + (where in favoured) for where, (whole, _) in shares.items()}


# --- slices --------------------------------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """What one task reads: of one partition the offsets from ``start`` up to ``end``; in mode=files from a folder."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    folder: str = ""

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def slices(
    ranges: list[Slice], *, min_partitions: int = 0, most_records: int | None = None, cores: int = 1
) -> list[Slice]:
    """The ranges cut into slices: each small enough, and where there is work for them, as many as there are cores."""
    ranges = [one for one in ranges if one.end > one.start]
    total = sum(one.end - one.start for one in ranges)
    largest = most_records or SLICE_RECORDS_MAX
    wanted = max(min_partitions, min(cores, total // SLICE_RECORDS_MIN))
    counts = _shares([one.end - one.start for one in ranges], wanted)
    return [piece for one, count in zip(ranges, counts, strict=True) for piece in _cut(one, count, largest)]


def _shares(sizes: list[int], wanted: int) -> list[int]:
    """Into how many pieces each is cut, so that there are as many as wanted: by size, what is left to the largest rests."""
    total = sum(sizes)
    if wanted <= len(sizes):
        return [1] * len(sizes)
    counts = [max(1, min(size, size * wanted // total)) for size in sizes]
    rests = sorted(range(len(sizes)), key=lambda place: -(sizes[place] * wanted % total))
    while sum(counts) < min(wanted, total):
        for place in rests:
            if counts[place] < sizes[place] and sum(counts) < wanted:
                counts[place] += 1
    return counts


def _cut(one: Slice, count: int, largest: int) -> list[Slice]:
    size = one.end - one.start
    count = max(count, math.ceil(size / largest))
    borders = [one.start + size * number // count for number in range(count + 1)]
    return [one._replace(start=start, end=end) for start, end in pairwise(borders)]
