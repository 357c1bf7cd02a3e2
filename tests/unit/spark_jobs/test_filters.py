"""Filters as bounds of what is fetched."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from ottla.spark_jobs.filters import Bounds
from ottla.spark_jobs.offsets import Slice

RANGES = [Slice("t", number, 0, 100) for number in range(3)] + [Slice("u", 0, 50, 60)]


def narrowed(*filters, offsets=None):
    bounds = Bounds()
    left = list(bounds.take(list(filters)))
    return bounds.narrowed(RANGES, offsets or (lambda wanted: dict.fromkeys(wanted, 0))), left


def test_offsets_bound_every_range():
    found, left = narrowed(GreaterThan(("offset",), 10), LessThanOrEqual(("offset",), 55))
    assert [(one.topic, one.start, one.end) for one in found] == [
        ("t", 11, 56), ("t", 11, 56), ("t", 11, 56), ("u", 50, 56),
    ]  # fmt: skip
    assert left == []


def test_partitions_and_topics_are_chosen():
    found, left = narrowed(EqualTo(("topic",), "t"), In(("partition",), (1, 2, 9)), LessThan(("partition",), 2))
    assert [(one.topic, one.partition) for one in found] == [("t", 1)]
    assert left == []


def test_a_time_only_moves_the_beginning_and_spark_looks_at_each():
    since = GreaterThanOrEqual(("timestamp",), datetime(2020, 1, 1, tzinfo=UTC))
    asked = {}

    def offsets(wanted):
        asked.update(wanted)
        return {where: -1 if where.topic == "u" else 40 for where in wanted}

    found, left = narrowed(since, offsets=offsets)
    assert set(asked.values()) == {1_577_836_800_000}
    assert [(one.topic, one.start) for one in found] == [("t", 40)] * 3
    assert left == [since]


def test_what_cannot_be_used_is_left_to_spark():
    others = [StringContains(("topic",), "t"), EqualTo(("key",), b"k"), LessThan(("timestamp",), datetime(2020, 1, 1))]
    found, left = narrowed(*others, IsNotNull(("offset",)), IsNotNull(("key",)))
    assert found == RANGES
    assert left == [*others, IsNotNull(("key",))]
