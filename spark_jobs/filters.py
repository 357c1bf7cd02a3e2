"""Filters that Spark hands over, as bounds of what is fetched: on topic, partition, offset, and the beginning of a time."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.positions import Offsets
from ottla.wire.names import TopicPartition

T = TypeVar("T")

NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


class Bounds:
    """What is left of the ranges of a read. Nothing of it is forgotten, so a filter that was taken need not run again."""

    def __init__(self) -> None:
        self._topics: set[str] | None = None
        self._partitions: set[int] | None = None
        self._offset_from = 0
        self._offset_to: float = math.inf
        self._numbers: list[tuple[float, float]] = []
        self._since_ms: int | None = None

    def take(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take note of what can be used; gives back those that Spark must still look at."""
        for one in filters:
            if not self._take(one):
                yield one

    def _take(self, one: Filter) -> bool:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        name = attribute[0] if len(attribute) == 1 else ""
        value: Any = getattr(one, "value", None)
        if isinstance(one, IsNotNull):
            return name in NEVER_NULL
        if name == "topic" and isinstance(one, EqualTo | In):
            self._topics = _within(self._topics, {value} if isinstance(one, EqualTo) else set(value or ()))
            return True
        if name == "partition" and isinstance(one, EqualTo | In):
            self._partitions = _within(self._partitions, {value} if isinstance(one, EqualTo) else set(value or ()))
            return True
        if name in ("partition", "offset") and isinstance(value, int):
            return self._take_range(name, one, value)
        if (
            name == "timestamp"
            and isinstance(value, datetime)
            and isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo)
        ):
            self._since_ms = max(self._since_ms or 0, _milliseconds(value))
        return False  # times are not in order: Spark must look at each

    def _take_range(self, name: str, one: Filter, value: int) -> bool:
        least: float = -math.inf
        behind: float = math.inf
        match one:
            case GreaterThan():
                least = value + 1
            case GreaterThanOrEqual():
                least = value
            case LessThan():
                behind = value
            case LessThanOrEqual():
                behind = value + 1
            case EqualTo():
                least, behind = value, value + 1
            case _:
                return False
        if name == "partition":
            self._numbers.append((least, behind))
        else:
            self._offset_from = int(max(self._offset_from, least))
            self._offset_to = min(self._offset_to, behind)
        return True

    def narrowed(self, ranges: list[Slice], offsets: Callable[[dict[TopicPartition, int]], Offsets]) -> list[Slice]:
        """What of these ranges can have rows that pass."""
        left = [one for one in ranges if self._wants(one)]
        firsts: Offsets = {}
        if self._since_ms is not None and left:
            firsts = offsets({one.where: self._since_ms for one in left})
        narrow = []
        for one in left:
            first = firsts.get(one.where, 0)
            start = max(one.start, self._offset_from, one.end if first < 0 else first)
            end = int(min(one.end, self._offset_to))
            if start < end:
                narrow.append(one._replace(start=start, end=end))
        return narrow

    def _wants(self, one: Slice) -> bool:
        return (
            (self._topics is None or one.topic in self._topics)
            and (self._partitions is None or one.partition in self._partitions)
            and all(least <= one.partition < behind for least, behind in self._numbers)
        )


def _within(before: set[T] | None, more: set[T]) -> set[T]:
    return more if before is None else before & more


def _milliseconds(value: datetime) -> int:
    """Rounded down: a record of that very millisecond must not be left out."""
    moment = value if value.tzinfo is not None else value.astimezone()
    return max(math.floor(moment.astimezone(UTC).timestamp() * 1000), 0)
