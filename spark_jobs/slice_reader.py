"""What a task does with its slice: batches as they come become Arrow record batches of just these offsets and columns."""

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.client.arrow import batches_to_arrow
from ottla.spark_jobs.errors import told_plainly
from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.options import ReadOptions
from ottla.wire.records import RecordBatch

if TYPE_CHECKING:
    import pyarrow

ROWS = 10_000
"""Of one Arrow batch: Spark took these fastest; with 1,000 it was a fifth slower."""

BYTES_MAX = 16 * 1024 * 1024
"""Of one Arrow batch, where records are large: the JVM holds it twice."""


def read_slice(
    options: ReadOptions, columns: tuple[str, ...], part: Slice | None
) -> Generator["pyarrow.RecordBatch", None, None]:
    """All rows of a slice; of None, which Spark makes where there is nothing to read, none."""
    if part is None:
        return
    with told_plainly():
        for group in grouped(_fetched(options, part)):
            yield from _pieces(group, part, columns)


def _fetched(options: ReadOptions, part: Slice) -> Iterable[list[RecordBatch]]:
    if part.folder:
        from ottla.spark_jobs.log_reader import read_log

        return read_log(part, fail_on_data_loss=options.fail_on_data_loss)
    from ottla.spark_jobs.slice_fetch_loop import SliceFetchLoop

    return SliceFetchLoop(options, part)


def grouped(fetched: Iterable[list[RecordBatch]]) -> Iterator[list[RecordBatch]]:
    """Batches that become one Arrow batch together: enough rows, and not too many bytes."""
    group: list[RecordBatch] = []
    rows = size = 0
    for batches in fetched:
        for batch in batches:
            if not batch.count:
                continue
            if group and (rows + batch.count > ROWS + ROWS // 4 or size + batch.size > BYTES_MAX):
                yield group
                group, rows, size = [], 0, 0
            group.append(batch)
            rows += batch.count
            size += batch.size
    if group:
        yield group


def _pieces(group: list[RecordBatch], part: Slice, columns: tuple[str, ...]) -> Iterator["pyarrow.RecordBatch"]:
    """The rows of a group that are in the slice, in pieces that are not too long."""
    table = batches_to_arrow(group, part.topic, part.partition, columns=columns)
    first, last = 0, table.num_rows
    if group[0].base_offset < part.start:
        first = sum(offset < part.start for offset in group[0].offsets())
    if group[-1].next_offset > part.end:
        last -= sum(offset >= part.end for offset in group[-1].offsets())
    count = last - first
    if count <= 2 * ROWS:
        if count > 0:
            yield table if count == table.num_rows else table.slice(first, count)
        return
    for start in range(first, last, ROWS):
        yield table.slice(start, min(ROWS, last - start))
