"""Reading segment files as they stand on the disk, for ``ottla log dump``. Never changes anything."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ottla.broker.storage.segments.segment_files import base_offsets, segment_path
from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, check_batch
from ottla.wire.errors import CorruptMessage, OttlaError
from ottla.wire.log_layout import LOG_SUFFIX
from ottla.wire.records import RecordBatch


@dataclass(frozen=True)
class StoredBatch:
    """One batch where it stands."""

    path: Path
    position: int
    header: BatchHeader
    data: bytes

    def records(self) -> RecordBatch:
        return RecordBatch(self.data, verify=False)


class CorruptSegment(OttlaError):
    """A segment file holds something that is no whole and true batch."""

    def __init__(self, path: Path, position: int, why: str, left: int) -> None:
        super().__init__(
            f"{path} is corrupt at position {position}, {left} bytes before its end: {why}",
            hint="a broker cuts a log here when it recovers; of a partition that is in use this may be a batch being written",
        )


def segment_files(path: Path) -> list[Path]:
    """The segments of a partition folder in order, or the one file."""
    if not path.is_dir():
        path.stat()  # FileNotFoundError, with the name
        return [path]
    files = [segment_path(path, base) for base in base_offsets(path)]
    if not files:
        raise FileNotFoundError(2, f"no *{LOG_SUFFIX} segment in this folder", str(path))
    return files


def read_segment(path: Path) -> Iterator[StoredBatch]:
    """Every batch up to the end of the file as it is now; CorruptSegment at the first that is not whole and true."""
    expected = int(path.stem) if path.stem.isascii() and path.stem.isdigit() else None
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = 0
        while position < size:
            try:
                data = _read_batch(file, size - position)
                header = check_batch(data)
                # The base offset is not under the CRC; it is where the batch before ends.
                if expected is not None and header.base_offset != expected:
                    raise CorruptMessage(f"base offset {header.base_offset} where {expected} was due")
            except OttlaError as error:
                raise CorruptSegment(path, position, str(error), size - position) from None
            yield StoredBatch(path, position, header, data)
            position += header.size
            expected = header.next_offset


def _read_batch(file: BinaryIO, left: int) -> bytes:
    if left < HEADER_SIZE:
        raise CorruptMessage(f"{left} bytes are less than a batch header")
    head = file.read(HEADER_SIZE)
    size = int.from_bytes(head[8:LENGTH_OVERHEAD], "big", signed=True) + LENGTH_OVERHEAD
    # Checked before anything is read for it: the length may be any number.
    if not HEADER_SIZE <= size <= left:
        raise CorruptMessage(f"a batch of {size} bytes where {left} are left")
    return head + file.read(size - HEADER_SIZE)
