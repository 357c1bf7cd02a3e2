"""``spark.read.format("ottla")``: planned once, then read slice by slice."""

import logging
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.spark_jobs.errors import told_plainly
from ottla.spark_jobs.filters import Bounds
from ottla.spark_jobs.offsets import Slice, slices
from ottla.spark_jobs.options import ReadOptions
from ottla.spark_jobs.slice_reader import read_slice

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Goes to the executors by pickle: options and columns, and nothing that is open."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        with told_plainly():
            return [InputPartition(part) for part in self._slices()]

    def _slices(self) -> list[Slice]:
        from ottla.spark_jobs.planning import catalog_for, check_range, resolve

        options = self._options
        catalog = catalog_for(options)
        ids = catalog.partitions()
        starts = resolve(options.starting, ids, catalog)
        ends = resolve(options.ending, ids, catalog)
        starts, ends, warnings = check_range(options, starts, ends, catalog)
        for warning in warnings:
            logger.warning("%s", warning)
        ranges = [
            Slice(where.topic, where.partition, starts[where], ends[where], topic_id, catalog.folder(where))
            for where, topic_id in sorted(ids.items())
        ]
        return slices(
            self._bounds.narrowed(ranges, catalog.offsets),
            min_partitions=options.min_partitions,
            most_records=options.max_records_per_partition,
            cores=os.cpu_count() or 1,
        )

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return read_slice(self._options, self._columns, partition.value)


class FilteringBatchReader(BatchReader):
    """With ``pushdown=true``: what filters say of topic, partition, offset and timestamp narrows what is fetched.

    A class of its own, because Spark fails a reader that takes filters as long as
    spark.sql.python.filterPushdown.enabled is false, as it is by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        return self._bounds.take(filters)
