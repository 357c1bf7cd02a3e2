"""The sparse indexes of one segment: where in the file an offset lies, and from which offset on to look for a time.

In memory they are arrays, searched by bisection; on disk they are Kafka's own ``.index`` (u32 relative offset, u32
position) and ``.timeindex`` (i64 timestamp, u32 relative offset). The files are disposable: whoever doubts one throws
it away and reads the segment's batch headers again.

An offset entry (offset, position) says: the batch that starts at that position ends with that offset. A time entry
(timestamp, offset) says: the batch that ends with that offset has that timestamp, and none before it one as large.
"""

import struct
import sys
from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY = struct.Struct(">qI")

NO_TIMESTAMP: Final = -1

NO_OFFSET: Final = -1
"""The last offset of the batch with the largest timestamp, where there is no batch."""

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""The farthest an offset may lie from its segment's base offset (index entries are 32 bits wide, Kafka's have a sign)."""

assert array("I").itemsize == 4
_SWAP = sys.byteorder == "little"


class OffsetPosition(NamedTuple):
    """An offset of a batch, the first one or in index entries the last one, and where the batch starts in the file."""

    offset: int
    position: int


class BatchPlace(NamedTuple):
    """One batch, as its header tells, and where it starts in its segment or in the buffer that brings it."""

    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int


class SegmentIndex:
    """Both indexes of the segment that starts at ``base_offset``; an entry at least every ``interval_bytes``."""

    __slots__ = (
        "_interval_bytes",
        "_offsets",
        "_positions",
        "_time_offsets",
        "_times",
        "_unindexed_bytes",
        "base_offset",
        "max_timestamp",
        "max_timestamp_offset",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = NO_OFFSET
        self._interval_bytes = interval_bytes
        self._unindexed_bytes = 0
        self._offsets = array("I")
        self._positions = array("I")
        self._times = array("q")
        self._time_offsets = array("I")

    @property
    def last_entry(self) -> OffsetPosition:
        """The entry of the last batch that has one; the segment's start if none has."""
        if not self._offsets:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + self._offsets[-1], self._positions[-1])

    def add(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Take note of the next batch of the segment."""
        if max_timestamp > self.max_timestamp or self.max_timestamp_offset == NO_OFFSET:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._unindexed_bytes > self._interval_bytes:
            self._offsets.append(last_offset - self.base_offset)
            self._positions.append(position)
            self._add_time()
            self._unindexed_bytes = 0
        self._unindexed_bytes += size

    def lookup(self, offset: int) -> OffsetPosition:
        """The entry of the last indexed batch that ends at or before ``offset``."""
        return self._entry(bisect_right(self._offsets, offset - self.base_offset))

    def lookup_position(self, position: int) -> OffsetPosition:
        """The entry of the last indexed batch that starts at or before ``position``."""
        return self._entry(bisect_right(self._positions, position))

    def offset_for_time(self, timestamp: int) -> int:
        """An offset such that no batch that ends before it has a timestamp of ``timestamp`` or later."""
        number = bisect_right(self._times, timestamp)
        return self.base_offset + (self._time_offsets[number - 1] if number else 0)

    def truncate(self, offset: int) -> None:
        """Forget batches that start at ``offset`` or later.

        Afterwards the index knows nothing past ``last_entry``: the caller walks from there and calls ``resume``.
        """
        relative = offset - self.base_offset
        kept = bisect_right(self._offsets, relative - 1) if relative > 0 else 0
        del self._offsets[kept:], self._positions[kept:]
        # Time entries rise in offset too, and one is never later than the offset entry that it was added with.
        kept = bisect_right(self._time_offsets, relative - 1) if relative > 0 else 0
        del self._times[kept:], self._time_offsets[kept:]
        self.max_timestamp = self._times[-1] if self._times else NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset + self._time_offsets[-1] if self._times else NO_OFFSET
        self._unindexed_bytes = 0

    def resume(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Take note of a batch at or past ``last_entry`` again: what the arrays do not tell about it."""
        if max_timestamp > self.max_timestamp or self.max_timestamp_offset == NO_OFFSET:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self._unindexed_bytes = position + size - self.last_entry.position

    def finish(self) -> None:
        """Add the segment's largest timestamp, so that the last time entry tells it. Before encoding."""
        self._add_time()

    def encode(self) -> tuple[bytes, bytes]:
        """The contents of the two files."""
        pairs = array("I", bytes(OFFSET_ENTRY_SIZE * len(self._offsets)))
        pairs[0::2], pairs[1::2] = self._offsets, self._positions
        if _SWAP:
            pairs.byteswap()
        times = b"".join(map(TIME_ENTRY.pack, self._times, self._time_offsets))
        return pairs.tobytes(), times

    @classmethod
    def decode(
        cls, base_offset: int, interval_bytes: int, offset_entries: bytes, time_entries: bytes, segment_size: int
    ) -> "SegmentIndex":
        """The index that two files hold. ValueError if they cannot belong to a segment of ``segment_size`` bytes."""
        index = cls(base_offset, interval_bytes)
        if len(offset_entries) % OFFSET_ENTRY_SIZE or len(time_entries) % TIME_ENTRY.size:
            raise ValueError("torn index file")
        pairs = array("I", offset_entries)
        if _SWAP:
            pairs.byteswap()
        index._offsets, index._positions = pairs[0::2], pairs[1::2]
        times = list(TIME_ENTRY.iter_unpack(time_entries))
        index._times = array("q", [timestamp for timestamp, _ in times])
        index._time_offsets = array("I", [offset for _, offset in times])
        for column in (index._offsets, index._positions, index._times, index._time_offsets):
            if not _rises(column):
                raise ValueError("index entries out of order")
        if index._positions and index._positions[-1] >= segment_size:
            raise ValueError(f"index entry at {index._positions[-1]} of a segment of {segment_size} bytes")
        if segment_size and not times:
            raise ValueError("time index without its last entry")
        index.max_timestamp = index._times[-1] if times else NO_TIMESTAMP
        index.max_timestamp_offset = base_offset + index._time_offsets[-1] if times else NO_OFFSET
        return index

    def _entry(self, number: int) -> OffsetPosition:
        if not number:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + self._offsets[number - 1], self._positions[number - 1])

    def _add_time(self) -> None:
        if self.max_timestamp_offset == NO_OFFSET:
            return
        if not self._times or self.max_timestamp > self._times[-1]:
            self._times.append(self.max_timestamp)
            self._time_offsets.append(self.max_timestamp_offset - self.base_offset)


def _rises(column: "array[int]") -> bool:
    # In C all the way: an index of a full segment has 262,144 entries.
    values = column.tolist()
    return len(set(values)) == len(values) and sorted(values) == values
