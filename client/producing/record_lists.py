"""Lists of records of one partition, and where to cut them into batches. Pure."""

import operator
from bisect import bisect_left
from itertools import accumulate

from ottla.wire.names import TopicPartition

RECORD_OVERHEAD = 16
"""What a record costs beside its key and value: its lengths, its timestamp."""

RecordList = tuple[TopicPartition, list[bytes | None] | None, list[bytes | None]]
"""Keys, if there are any, and values for a partition."""

BatchRange = tuple[int, int, int]
"""Where a batch of a list begins and ends, and its size."""


def cut(
    keys: list[bytes | None] | None, values: list[bytes | None], batch_size: int, record_max: int
) -> tuple[list[BatchRange], int]:
    """The batches of a list, and the size of its largest record: a batch is full with the record that fills it."""
    lengths = _lengths(values)
    if keys is not None:
        lengths = list(map(operator.add, lengths, _lengths(keys)))
    count = len(lengths)
    total = sum(lengths) + count * RECORD_OVERHEAD
    if total - lengths[-1] - RECORD_OVERHEAD < batch_size and total <= record_max:
        return [(0, count, total)], 0  # no record is larger than all of them
    largest = max(lengths) + RECORD_OVERHEAD
    ends = list(accumulate(lengths, initial=0))

    def bytes_before(index: int) -> int:
        return ends[index] + index * RECORD_OVERHEAD

    pieces: list[BatchRange] = []
    start = 0
    while start < count:
        limit = bytes_before(start) + batch_size
        end = bisect_left(range(count), limit, lo=start + 1, key=bytes_before)
        if end > start + 1 and bytes_before(end) - bytes_before(start) > record_max:
            end -= 1  # the record that fills it is large: it gets a batch of its own
        pieces.append((start, end, bytes_before(end) - bytes_before(start)))
        start = end
    return pieces, largest


def _lengths(items: list[bytes | None]) -> list[int]:
    try:
        return list(map(len, items))  # type: ignore[arg-type]
    except TypeError:  # one is None
        return [len(item) if item is not None else 0 for item in items]
