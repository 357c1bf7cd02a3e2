"""A file of record batches that only grows: written at its end, read in slices, walked by the headers of its batches.

While batches are added it keeps a descriptor. Once *sealed* it is read through a map that is made on first use and released
when there are too many (open_files.py); where none can be made, it is opened for each read. It keeps its descriptor until it
was flushed, because only an old descriptor is sure to be told of a failed write-back.
"""

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from ottla.broker.storage.disk_health import is_shortage
from ottla.broker.storage.segments.index import BatchPlace
from ottla.broker.storage.segments.mapped_file import MappedFile, read_exactly
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD
from ottla.wire.errors import CorruptMessage

# Of a batch header: base_offset, length, last_offset_delta, max_timestamp.
_GLANCE = struct.Struct(">qi11xi8xq")
_GLANCE_WINDOW = 4096

_CLOSED = -1


class BatchFile:
    """See the module. ``size`` says what may be read; bytes past it are not there."""

    __slots__ = (
        "_keeps_fd",
        "_open_files",
        "_read_side",
        "_waits_for_flush",
        "fd",
        "path",
        "sealed",
        "size",
        "was_cut",
    )

    def __init__(self, path: Path, fd: int, size: int, *, sealed: bool) -> None:
        self.path = path
        self.fd = fd
        """The descriptor to flush; below zero if there is none any more."""
        self.size = size
        self.sealed = sealed
        self.was_cut = False
        """Whether it was cut since it was last flushed: after a power cut it could be as long as before."""
        self._read_side = MappedFile()
        self._open_files: OpenFiles | None = None
        self._waits_for_flush = False
        self._keeps_fd = False  # until it is cut: nobody else closes the descriptor of a sealed file meanwhile

    def use(self, open_files: OpenFiles) -> None:
        """Count among these from now on."""
        self._open_files = open_files
        self._read_side.use(open_files)

    @classmethod
    def create(cls, path: Path) -> "BatchFile":
        return cls(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), 0, sealed=False)

    @classmethod
    def open_active(cls, path: Path) -> "BatchFile":
        fd = os.open(path, os.O_RDWR)
        return cls(path, fd, os.fstat(fd).st_size, sealed=False)

    @classmethod
    def open_sealed(cls, path: Path) -> "BatchFile":
        return cls(path, _CLOSED, path.stat().st_size, sealed=True)

    def append(self, records: memoryview) -> None:
        """Write ``records``: all of them or, raising OSError, none.

        If the file cannot be cut back after a failed write, it is that error which is raised: it is no shortage.
        """
        size = self.size
        try:
            written = os.pwrite(self.fd, records, size)
            while written < len(records):
                more = os.pwrite(self.fd, records[written:], size + written)
                if not more:
                    raise OSError(errno.ENOSPC, "the file system takes no more bytes")
                written += more
        except OSError as error:
            self._undo_append(error)
            raise
        self.size = size + written

    def _undo_append(self, cause: OSError) -> None:
        try:
            os.ftruncate(self.fd, self.size)
        except OSError as error:
            # The bytes past ``size`` are shown to nobody, the log counts as failed, and recovery cuts them.
            raise OSError(errno.EIO, f"{cause}, and the file cannot be cut back: {error}") from cause

    def read(self, start: int, end: int, *, may_be_cut: bool = False) -> memoryview:
        """The bytes from position ``start`` to ``end``. A copy if they may be cut: nobody's slice is to be in the way then."""
        if self.sealed:
            may_be_cut = False
            if not self._is_mapped():
                return memoryview(self._read_copy(start, end - start))
        return self._read_side.read(self.fd, start, end, self.size, may_be_cut)

    def _read_copy(self, position: int, size: int) -> bytes:
        """Read through the descriptor, or through one for this read alone."""
        if self._keeps_fd or not self.sealed:  # else a flush, in a thread, may close the descriptor at any time
            return read_exactly(self.fd, position, size)
        fd = os.open(self.path, os.O_RDONLY)
        try:
            return read_exactly(fd, position, size)
        finally:
            os.close(fd)

    def walk(self, position: int) -> Iterator[BatchPlace]:
        """The batches from the one at ``position`` on, by their headers. CorruptMessage where there cannot be one."""
        if self.sealed:
            self._is_mapped()
        window, window_start = self._read_side.view, 0
        while position < self.size:
            if self.size - position < HEADER_SIZE:
                raise CorruptMessage(f"{self.path} ends inside a batch header at position {position}")
            if position + _GLANCE.size > window_start + len(window):
                size = min(_GLANCE_WINDOW, self.size - position)
                window, window_start = memoryview(self._read_copy(position, size)), position
            base_offset, length, delta, max_timestamp = _GLANCE.unpack_from(window, position - window_start)
            size = length + LENGTH_OVERHEAD
            if size < HEADER_SIZE or position + size > self.size or delta < 0:
                raise CorruptMessage(f"{self.path} has no whole batch at position {position}")
            yield BatchPlace(position, size, base_offset, base_offset + delta + 1, max_timestamp)
            position += size

    def batch_at(self, position: int) -> BatchPlace:
        """The batch that starts at ``position``."""
        return next(self.walk(position))

    def can_cut_at(self, position: int) -> bool:
        """Whether nobody holds a slice of what lies past ``position``."""
        return self._read_side.release() or self._read_side.given_up_to <= position

    def cut_at(self, position: int) -> None:
        """Cut everything from ``position`` on; batches may be added again.

        Readers keep the slices that they hold, for they hold none of what is cut.
        """
        # Invariant: whoever touches a slice past the end of its file dies (SIGBUS).
        assert self.can_cut_at(position)
        self.open_fd()
        os.ftruncate(self.fd, position)
        self.was_cut = True
        self.sealed = self._keeps_fd = False
        self._waits_no_more()
        self.size = position

    def keep_fd(self) -> None:
        """Have a descriptor to read, to cut and to append by, which no flush closes."""
        self.open_fd()
        self._keeps_fd = True

    def open_fd(self) -> None:
        if self.fd == _CLOSED:
            self.fd = os.open(self.path, os.O_RDWR)

    def seal(self) -> None:
        """Nothing is appended any more."""
        self.sealed = True
        if self._open_files is not None and not self._waits_for_flush:
            self._waits_for_flush = True
            self._open_files.sealed()

    def rename(self, path: Path) -> None:
        self.path.rename(path)
        self.path = path

    def close(self) -> None:
        self._keeps_fd = False
        self.close_fd()
        self._read_side.release()

    def flushed(self) -> None:
        """A sealed file is on disk: its descriptor is needed no more, unless it is about to be cut."""
        if not self._keeps_fd:
            self.close_fd()
        self._waits_no_more()

    def close_fd(self) -> None:
        if self.fd != _CLOSED:
            os.close(self.fd)
            self.fd = _CLOSED
        self._waits_no_more()

    def _waits_no_more(self) -> None:
        if self._waits_for_flush and self._open_files is not None:
            self._waits_for_flush = False
            self._open_files.flushed()

    def _is_mapped(self) -> bool:
        """Map a sealed file, unless it is mapped; False if that is not possible now, and it must be read in another way."""
        if self._read_side.mapped_size >= self.size:
            return True
        if not self._read_side.may_map():
            return False
        fd = self.fd if self._keeps_fd else os.open(self.path, os.O_RDONLY)
        try:
            self._read_side.map(fd, self.size)
        except OSError as error:
            if not is_shortage(error):
                raise
            return False
        finally:
            if not self._keeps_fd:
                os.close(fd)
        return True
