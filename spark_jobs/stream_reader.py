"""``spark.readStream.format("ottla")``: how far each micro-batch reads, and what that means in slices.

Spark keeps one instance of the reader in a process of its own for as long as a query runs, and asks it for offsets; its slices
are read by copies in the executors.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.spark_jobs.errors import told_plainly
from ottla.spark_jobs.offsets import Slice, StreamOffset, slices
from ottla.spark_jobs.options import ReadOptions
from ottla.spark_jobs.progress import Available, MinimumRows, next_offset
from ottla.spark_jobs.slice_reader import read_slice

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark_jobs.committing import GroupProgress
    from ottla.spark_jobs.planning import Catalog
    from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

LOOK_S = 0.05
"""How often an idle stream looks for records. Spark asks ninety times a second; a micro-batch takes 0.3 s at least."""

PARTITIONS_S = 1.0
"""How often it looks for new partitions and topics."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What it holds before it is first asked for offsets goes by pickle; what is open comes after."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._catalog: Catalog | None = None
        self._group: GroupProgress | None = None
        self._initial: StreamOffset | None = None
        self._available: Available | None = None
        self._frozen: Available | None = None
        self._looked_at = float("-inf")
        self._listed_at = float("-inf")
        self._minimum = MinimumRows(options.min_offsets_per_trigger, options.max_trigger_delay_ms)

    # --- offsets -----------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Asked again and again before the first batch; the answer stays the same."""
        from ottla.spark_jobs.planning import resolve

        with told_plainly():
            if self._initial is None:
                available = self._look(must_be_there=True)
                starts = resolve(self._options.starting, available.ids, self._open())
                self._initial = StreamOffset(starts, {where.topic: one for where, one in available.ids.items()})
            return self._initial.to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with told_plainly():
            return self._latest(StreamOffset.from_json(start), limit).to_json()

    def _latest(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        first = self._initial is not None and start == self._initial
        if not first:
            self._commit(start)  # Spark asks for the next batch when this one is done
        available = self._frozen or self._newer_than(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end, warnings = next_offset(
            start, available, self._begins, most, first=first, fail=self._options.fail_on_data_loss
        )
        for warning in warnings:
            logger.warning("%s", warning)
        may_wait = self._frozen is None and not isinstance(limit, ReadAllAvailable)
        if may_wait and not self._minimum.reached(end, start, time.monotonic()):
            return start
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What is shown in a query's progress: as of the last look, for nobody decides by it."""
        if self._available is None:
            return None
        return StreamOffset(dict(self._available.ends)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None and self._minimum.least is None else ReadMaxRows(most or 2**62)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with told_plainly():
            self._listed_at = float("-inf")
            self._frozen = self._look()

    def _newer_than(self, start: StreamOffset) -> Available:
        """What is available; where that is nothing new, not before it is time to look again."""
        known = self._available
        if known is None or all(start.offsets.get(where) == end for where, end in known.ends.items()):
            time.sleep(max(self._looked_at + LOOK_S - time.monotonic(), 0))
        return self._look()

    def _look(self, *, must_be_there: bool = False) -> Available:
        """A topic that is not there at the beginning was misspelt; later on it was deleted, which next_offset judges."""
        from ottla.wire.messages import LATEST

        catalog, now = self._open(), time.monotonic()
        known = self._available
        if known is None or must_be_there or now - self._listed_at >= PARTITIONS_S:
            ids, self._listed_at = catalog.partitions(missing_ok=not must_be_there), now
        else:
            ids = dict(known.ids)
        ends = catalog.offsets(dict.fromkeys(ids, LATEST))
        self._looked_at = time.monotonic()
        self._available = Available(ids, ends)
        return self._available

    def _begins(self, partitions: list[Any]) -> dict[Any, int]:
        from ottla.wire.messages import EARLIEST

        return self._open().offsets(dict.fromkeys(partitions, EARLIEST))

    def _open(self) -> "Catalog":
        from ottla.spark_jobs.planning import catalog_for

        if self._catalog is None:
            self._catalog = catalog_for(self._options)
        return self._catalog

    # --- a batch -----------------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_plainly():
            begins, ends = StreamOffset.from_json(start), StreamOffset.from_json(end)
            catalog = self._open()
            starts = {where: ends.begins.get(where, begins.offsets.get(where, 0)) for where in ends.offsets}
            if self._options.from_files:
                catalog.partitions(missing_ok=True)  # the folders may be others than they were
            ranges = [
                Slice(*where, starts[where], offset, ends.ids.get(where.topic, ""), catalog.folder(where))
                for where, offset in sorted(ends.offsets.items())
                if offset > starts[where]
            ]
            cut = slices(
                ranges,
                min_partitions=self._options.min_partitions,
                most_records=self._options.max_records_per_partition,
                cores=os.cpu_count() or 1,
            )
            return [InputPartition(part) for part in cut]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return read_slice(self._options, self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint has it. (Called with the next batch only, and never for the last one.)"""
        self._commit(StreamOffset.from_json(end))

    def _commit(self, done: StreamOffset) -> None:
        if not self._options.group_id:
            return
        from ottla.spark_jobs.committing import GroupProgress

        if self._group is None:
            self._group = GroupProgress(self._options)
        self._group.commit(done.offsets)


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of a stream whose options are wrong: tells so at the first thing that it is asked.

    pyspark 4.3 stops the reader even if there is none because making it failed, and then tells of that failure instead.
    """

    def __init__(self, error: "OttlaError") -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._refuse()

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        with told_plainly():
            raise self._error
