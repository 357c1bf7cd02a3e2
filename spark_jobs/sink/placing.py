"""Which partition each row goes to, told by the row's own bytes and nothing that differs between two attempts.

A row that names a partition goes there, one with a key where Kafka's producers put that key. Rows without either are spread by
their place among all such rows of their topic: over no more partitions than there are batches to fill.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.producing.record_lists import RECORD_OVERHEAD
from ottla.spark_jobs.sink.binary_columns import lengths_of
from ottla.spark_jobs.sink.key_hashes import partitions_of_keys
from ottla.wire.errors import MessageTooLarge, UnknownTopicOrPartition

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TopicPlan:
    """What the first attempt found of a topic, and all others go by."""

    partitions: int
    batch_bytes: int


def sizes_of(rows: pa.Table) -> Array:
    """What each row takes in a batch."""
    sizes = np.full(rows.num_rows, RECORD_OVERHEAD, np.int64)
    for name in ("key", "value", "headers"):
        if name in rows.column_names:
            sizes += np.maximum(lengths_of(one_array(rows[name])), 0)
    return sizes


def is_spread(rows: pa.Table) -> Array:
    """Which rows have neither partition nor key."""
    spread = np.ones(rows.num_rows, bool)
    for name in ("partition", "key"):
        if name in rows.column_names:
            spread &= np.asarray(rows[name].is_null().to_numpy(), bool)
    return spread


class Placer:
    """Places the rows of one topic, table by table in their order."""

    def __init__(self, topic: str, plan: TopicPlan, spread_bytes: int, turn: int) -> None:
        """``spread_bytes``: all bytes of rows that have neither partition nor key. ``turn``: with which partition those begin,
        so that tasks do not all begin with the same."""
        self._topic = topic
        self._plan = plan
        self._turn = turn
        self._spread_bytes = max(spread_bytes, 1)
        self._used = max(1, min(plan.partitions, -(-spread_bytes // plan.batch_bytes)))
        self._spread_before = 0

    def place(self, rows: pa.Table, sizes: Array) -> Array:
        """The partition of each row."""
        places = np.zeros(rows.num_rows, np.int64)
        if "key" in rows.column_names:
            places[:] = partitions_of_keys(one_array(rows["key"]), self._plan.partitions)
        spread = is_spread(rows)
        if spread.any():
            places[spread] = self._spread(sizes[spread])
        if "partition" in rows.column_names:
            self._named(one_array(rows["partition"]), places)
        return places

    def _spread(self, sizes: Array) -> Array:
        ends = self._spread_before + np.cumsum(sizes)
        self._spread_before = int(ends[-1])
        shares = (ends - sizes) * self._used // self._spread_bytes
        return (shares + self._turn) % self._plan.partitions

    def _named(self, partitions: pa.Array, places: Array) -> None:
        named = np.asarray(partitions.is_valid().to_numpy(zero_copy_only=False), bool)
        numbers = partitions.fill_null(0).to_numpy()
        wrong = numbers[(numbers < 0) | (numbers >= self._plan.partitions)]
        if len(wrong):
            raise UnknownTopicOrPartition(
                f"a row's column partition is {wrong[0]}, but topic {self._topic!r} has partitions 0 to "
                f"{self._plan.partitions - 1}",
                topic=self._topic,
            )
        places[named] = numbers[named]


def spread_bytes(rows: pa.Table, sizes: Array) -> int:
    return int(sizes[is_spread(rows)].sum())


def by_topic(rows: pa.Table, fixed_topic: str | None) -> Mapping[str, pa.Table]:
    """The rows of each topic, in their order."""
    if fixed_topic is not None:
        return {fixed_topic: rows}
    topics = rows["topic"].unique().to_pylist()
    rest = rows.drop_columns(["topic"])
    if len(topics) == 1:
        return {topics[0]: rest}
    encoded = one_array(rows["topic"].combine_chunks()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    names = encoded.dictionary.to_pylist()
    return {name: rest.take(pa.array(np.flatnonzero(codes == code))) for code, name in enumerate(names)}


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column whose bytes stand together."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        if combined.num_chunks > 1:
            raise MessageTooLarge(f"{combined.nbytes} bytes of one column at once", hint="lower the option sortMemory")
        return combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined
