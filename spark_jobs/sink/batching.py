"""Cuts the rows of each partition into batches and numbers them: the same rows give the same batches, however they come."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.spark_jobs.sink.binary_columns import joined
from ottla.spark_jobs.sink.placing import one_array, sizes_of
from ottla.spark_jobs.sink.rows import join_row_headers
from ottla.wire.batch import NO_PRODUCER, Codec
from ottla.wire.columns import Columns
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_joined_batch

Array = np.ndarray[Any, Any]

ROWS_MAX = 100_000
"""Rows in one batch."""

SEQUENCES = 2**31
"""Sequence numbers go round after this many."""


@dataclass
class _Open:
    """What waits for a batch to be full, and the number of its first row."""

    rows: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    count: int = 0
    next_sequence: int = 0


@dataclass(frozen=True)
class Numbers:
    """Whose batches they are."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1


class Batching:
    """Makes batches of rows that have a partition."""

    def __init__(self, numbers: Numbers, codec: Codec, timestamp_ms: int) -> None:
        self._numbers = numbers
        self._codec = codec
        self._timestamp_ms = timestamp_ms
        self._open: dict[TopicPartition, _Open] = {}

    def add(
        self, topic: str, rows: pa.Table, places: Array, batch_bytes: int
    ) -> Iterator[tuple[TopicPartition, bytearray]]:
        """Batches that these rows fill; the rest waits for more rows, or for ``finish``."""
        order = np.argsort(places, kind="stable")
        sorted_places = places[order]
        borders = np.flatnonzero(np.diff(sorted_places)) + 1
        starts, ends = [0, *borders.tolist()], [*borders.tolist(), len(order)]
        arranged = rows if len(starts) == 1 else rows.take(pa.array(order))
        for start, end in zip(starts, ends, strict=True):
            if start < end:
                where = TopicPartition(topic, int(sorted_places[start]))
                yield from self._add(where, arranged.slice(start, end - start), batch_bytes)

    def finish(self) -> Iterator[tuple[TopicPartition, bytearray]]:
        """The last batch of each partition."""
        for where, waiting in self._open.items():
            if waiting.rows:
                yield where, self._encode(waiting, pa.concat_tables(waiting.rows))
        self._open = {}

    def _add(
        self, where: TopicPartition, rows: pa.Table, batch_bytes: int
    ) -> Iterator[tuple[TopicPartition, bytearray]]:
        waiting = self._open.setdefault(where, _Open())
        ends = np.cumsum(sizes_of(rows))
        start = 0
        # Invariant: where a batch ends depends on the rows since the last end alone, not on the tables in which they came.
        while True:
            before = int(ends[start - 1]) if start else 0
            room = batch_bytes - waiting.bytes
            end = int(np.searchsorted(ends, before + room, side="right"))
            end = min(max(end, start + (0 if waiting.count else 1)), start + ROWS_MAX - waiting.count)
            if end >= len(ends):
                break
            waiting.rows.append(rows.slice(start, end - start))
            yield where, self._encode(waiting, pa.concat_tables(waiting.rows))
            waiting.rows, waiting.bytes, waiting.count = [], 0, 0
            start = end
        if start < len(ends):
            waiting.rows.append(rows.slice(start))
            waiting.bytes += int(ends[-1]) - (int(ends[start - 1]) if start else 0)
            waiting.count += len(ends) - start

    def _encode(self, waiting: _Open, rows: pa.Table) -> bytearray:
        sequence = waiting.next_sequence
        waiting.next_sequence = (sequence + rows.num_rows) % SEQUENCES
        key_lengths, keys = joined(one_array(rows["key"])) if "key" in rows.column_names else (None, None)
        value_lengths, values = joined(one_array(rows["value"]))
        headers = join_row_headers(one_array(rows["headers"])) if "headers" in rows.column_names else None
        columns = Columns(None, key_lengths, keys, value_lengths, values, headers)
        numbers = self._numbers
        return encode_joined_batch(
            columns,
            rows.num_rows,
            self._timestamp_ms,
            codec=self._codec,
            producer_id=numbers.producer_id,
            producer_epoch=numbers.epoch,
            base_sequence=sequence if numbers.producer_id >= 0 else -1,
        )
