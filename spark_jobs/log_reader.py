"""A slice read from the files of its partition: no broker is asked, and none is disturbed.

The folder may be one that a broker writes to. What is below the high watermark does not change; but segments are rolled and
deleted meanwhile, and behind the high watermark a batch may be half written. Files are read, not mapped: a map of a file that
is cut kills its process.
"""

import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.client.consuming.fetched import unpack
from ottla.spark_jobs.errors import data_lost
from ottla.spark_jobs.offsets import Slice
from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD
from ottla.wire.errors import CorruptMessage
from ottla.wire.log_layout import INDEX_SUFFIX, LOG_SUFFIX, is_offset, segment_name
from ottla.wire.records import RecordBatch

logger = logging.getLogger(__name__)

CHUNK = 4 * 1024 * 1024
WINDOW = 64 * 1024
"""What is read at once where only headers are looked at."""

# Of a batch header: base_offset, length, last_offset_delta, max_timestamp.
_GLANCE = struct.Struct(">qi11xi8xq")
_INDEX_ENTRY = struct.Struct(">II")


class Place(NamedTuple):
    """A batch in a segment, as its header tells."""

    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int


def base_offsets(folder: Path) -> list[int]:
    """The first offsets of all segments, rising; none if the folder is gone."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name[: -len(LOG_SUFFIX)]) for name in names if name.endswith(LOG_SUFFIX) and is_offset(name[:-4]))


def read_log(part: Slice, *, fail_on_data_loss: bool) -> Iterator[list[RecordBatch]]:
    """The batches of a slice, some at a time; what retention has taken before it was read is an error or a warning."""
    offset, stuck = part.start, False
    while offset < part.end:
        before = offset
        for batches in _read_from(part, offset):
            offset = batches[-1].next_offset
            yield [batch for batch in batches if batch.base_offset < part.end]
        if offset == before and not stuck:
            stuck = True  # a segment was rolled or deleted while we looked: look once more
        elif offset == before:
            later = [base for base in base_offsets(Path(part.folder)) if base > offset]
            go_on_at = min([*later, part.end])
            what = f"records of {part.where} from offset {offset} on are not in {part.folder} any more"
            logger.warning("%s", data_lost(what, fail_on_data_loss))
            offset = go_on_at
        else:
            stuck = False


def _read_from(part: Slice, offset: int) -> Iterator[list[RecordBatch]]:
    """Batches from ``offset`` on, up to the end of its segment or of the slice; nothing if the segment is not there."""
    folder = Path(part.folder)
    base = max((base for base in base_offsets(folder) if base <= offset), default=None)
    if base is None:
        return
    try:
        fd = os.open(folder / segment_name(base), os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        position = find(fd, folder, base, offset)
        while position is not None and offset < part.end:
            records = _chunk(fd, position)
            if not records:
                return
            batches, error = unpack(part.where, memoryview(records), offset, verify=True)
            if not batches:
                assert error is not None
                raise error
            yield batches
            offset = batches[-1].next_offset
            position += sum(batch.size for batch in batches)
    finally:
        os.close(fd)


def _chunk(fd: int, position: int) -> bytes:
    """Bytes that begin with a whole batch; none if the file has no whole one there (yet)."""
    records = os.pread(fd, CHUNK, position)
    if len(records) < HEADER_SIZE:
        return b""
    size = int.from_bytes(records[8:LENGTH_OVERHEAD], "big", signed=True) + LENGTH_OVERHEAD
    if size > len(records):
        left = os.fstat(fd).st_size - position
        return os.pread(fd, size, position) if size <= left else b""
    return records


def find(fd: int, folder: Path, base: int, offset: int) -> int | None:
    """Where in its segment the batch stands that holds ``offset``; None if it is not there."""
    for place in walk(fd, base, _indexed(fd, folder, base, offset)):
        if place.next_offset > offset:
            return place.position
    return None


def walk(fd: int, base: int, position: int = 0) -> Iterator[Place]:
    """The whole batches of a segment from one on, by their headers; ends before the first that is torn."""
    size = os.fstat(fd).st_size
    window, start, due = b"", position, None
    while position + HEADER_SIZE <= size:
        if position + HEADER_SIZE > start + len(window):
            window, start = os.pread(fd, WINDOW, position), position
            if len(window) < HEADER_SIZE:
                return
        first, length, delta, max_timestamp = _GLANCE.unpack_from(window, position - start)
        whole = length + LENGTH_OVERHEAD
        if whole < HEADER_SIZE or position + whole > size or delta < 0 or first < base or first != (due or first):
            return
        due = first + delta + 1
        yield Place(position, whole, first, due, max_timestamp)
        position += whole


def _indexed(fd: int, folder: Path, base: int, offset: int) -> int:
    """A position from which to walk. Indexes are disposable: one that does not lead to its batch is not believed."""
    try:
        entries = (folder / segment_name(base, INDEX_SUFFIX)).read_bytes()
    except OSError:
        return 0
    low, high = 0, len(entries) // _INDEX_ENTRY.size
    while low < high:
        middle = (low + high) // 2
        relative, _ = _INDEX_ENTRY.unpack_from(entries, middle * _INDEX_ENTRY.size)
        low, high = (middle + 1, high) if base + relative <= offset else (low, middle)
    if low == 0:
        return 0
    relative, position = _INDEX_ENTRY.unpack_from(entries, (low - 1) * _INDEX_ENTRY.size)
    head = os.pread(fd, _GLANCE.size, position)
    if len(head) < _GLANCE.size:
        return 0
    first, _, delta, _ = _GLANCE.unpack(head)
    return int(position) if first + delta == base + relative else 0


def read_batch(fd: int, place: Place) -> RecordBatch:
    data = os.pread(fd, place.size, place.position)
    if len(data) != place.size:
        raise CorruptMessage(f"a batch of {place.size} bytes at position {place.position} was cut while it was read")
    return RecordBatch(data)
