"""The segments of one log, end to end, the last one active; and how far they are on disk.

The event loop changes the list, a thread flushes: the lock guards the list and the life of descriptors. Appends and
reads never take it.
"""

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

from ottla.broker.storage.checkpoint_file import sync_folder
from ottla.broker.storage.disk_health import is_shortage
from ottla.broker.storage.segments.index import NO_TIMESTAMP, BatchPlace
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.segment_files import sync_index
from ottla.wire.errors import CorruptMessage
from ottla.wire.names import SEGMENT_BYTES_MIN

FLUSHED_AT_ONCE = 8
"""How many segments are flushed before the next ones are: each takes one more descriptor meanwhile."""

_base_offset = attrgetter("base_offset")


class Segments:
    """See the module. Methods raise OSError; what that means for the log is the log's to say."""

    def __init__(
        self, folder: Path, interval_bytes: int, segments: list[Segment], flushed_up_to: int, open_files: OpenFiles
    ) -> None:
        self._folder = folder
        self._interval_bytes = interval_bytes
        self._list = segments
        self.active = segments[-1]
        self.flushed_up_to = flushed_up_to
        self._flush_target = 0
        self._rolled_at = float("-inf")
        self._folder_changed = True
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._open_files = open_files
        for segment in segments:
            if segment.sealed:
                segment.close_files()  # what was mapped to load it
            segment.use(open_files)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    @property
    def first(self) -> Segment:
        return self._list[0]

    def holding(self, offset: int) -> Segment:
        """The segment in whose range ``offset`` lies."""
        return self._list[self._number(offset)]

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """The segments from the one in whose range ``offset`` lies on."""
        if offset >= self.active.base_offset:
            yield self.active
            return
        for number in range(self._number(offset), len(self._list)):
            yield self._list[number]

    def read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool, stays: int) -> list[memoryview]:
        """Whole batches; see ``Log.read``."""
        active = self.active
        start = active.recent.get(offset)
        if start is not None and up_to >= active.next_offset and active.size - start <= max_bytes:
            # A reader that keeps up asks for the last batches, all of them: there is nothing to think about.
            return [active.read(start, active.size, may_be_cut=stays < active.next_offset)]
        views: list[memoryview] = []
        for segment in self.from_offset(offset):
            if segment.base_offset >= up_to:
                break
            try:
                start = segment.position_of(offset, to_show=True)
                end = limit = segment.position_of(up_to)
                if end - start > max_bytes:
                    end = segment.last_end_within(start, start + max_bytes)
                    if end == start and at_least_one and not views:
                        end = start + segment.batch_at(start).size
            except CorruptMessage:
                if views:
                    break  # what lies before a damaged batch is whole
                raise
            if end > start:
                may_be_cut = stays < segment.next_offset and end > segment.position_of(stays)
                views.append(segment.read(start, end, may_be_cut=may_be_cut))
                max_bytes -= end - start
            full = max_bytes <= 0 and (views or not at_least_one)
            if end < limit or full:
                break
        return views

    def locate(self, offset: int) -> tuple[Segment, BatchPlace]:
        """The batch that holds ``offset``, by the headers before it. CorruptMessage where there cannot be one."""
        segment = self.holding(offset)
        return segment, segment.batch_at(segment.position_of(offset, to_show=True))

    def find_by_timestamp(self, timestamp_ms: int, from_offset: int) -> memoryview | None:
        """See ``Log.find_by_timestamp``."""
        for segment in self.from_offset(from_offset):
            if segment.size and segment.max_timestamp >= timestamp_ms:
                batch = segment.find_by_timestamp(timestamp_ms, from_offset)
                if batch is not None:
                    return segment.read(batch.position, batch.position + batch.size)
        return None

    def is_due_by_time(self, max_timestamp: int, segment_ms: int, roll_interval_ms: int) -> bool:
        """Whether records of this timestamp belong into a new segment; never two within an interval while they are small.

        Timestamps are the producer's: each of its batches could begin a segment, with its files and descriptors.
        """
        active = self.active
        if active.first_timestamp == NO_TIMESTAMP or max_timestamp - active.first_timestamp <= segment_ms:
            return False
        return active.size >= SEGMENT_BYTES_MIN or time.monotonic() - self._rolled_at >= roll_interval_ms / 1000

    def could_roll(self) -> bool:
        """Start a new segment, so that the active one can be deleted; False if there is no room for that yet."""
        try:
            self.roll()
        except OSError as error:
            if not is_shortage(error):
                raise
            return False
        return True

    def roll(self) -> None:
        """Start a new segment, unless the active one is empty."""
        with self._lock:
            last = self.active
            if not last.size:
                return
            # What may fail for want of room or descriptors comes first: until both are done nothing has changed.
            last.save_index()
            following = Segment.create(self._folder, last.next_offset, self._interval_bytes)
            following.use(self._open_files)
            last.seal()
            self.active = following
            self._rolled_at = time.monotonic()
            self._list.append(following)
            self._folder_changed = True

    def prepare_truncation(self, segment: Segment) -> None:
        """Have what it takes to cut this segment; a flush, in a thread, leaves it alone from now on."""
        with self._lock:
            segment.prepare_truncation()

    def truncate_to(self, offset: int) -> None:
        """Cut at ``offset``, where a batch starts and which does not lie before the first segment."""
        with self._lock:
            # From the end, so that a crash in between leaves no gap.
            while self._list[-1].base_offset > offset:
                self._list[-1].mark_deleted()
                self._list.pop()
                self.active = self._list[-1]
            self.active.truncate_to(offset)
            self._folder_changed = True

    def create_aside(self, offset: int) -> Segment:
        """A new segment for ``start_over_with``: what needs room or a descriptor is done before anything is dropped."""
        segment = Segment.create(self._folder, offset, self._interval_bytes, aside=True)
        segment.use(self._open_files)
        return segment

    def start_over_with(self, segment: Segment) -> None:
        """Drop all segments for a new one."""
        with self._lock:
            for dropped in reversed(self._list):
                dropped.mark_deleted()
            segment.take_its_place()
            self.active = segment
            self._list[:] = [segment]
            self.active.was_cut = self._folder_changed = True

    def drop_first(self, count: int) -> list[str]:
        """Let go of the oldest segments, never of the active one; gives their names."""
        # Invariant: there is always an active segment.
        assert count < len(self._list)
        names = []
        with self._lock:
            for _ in range(count):
                self._list[0].mark_deleted()
                names.append(self._list.pop(0).path.name)
            self._folder_changed = True
        return names

    def lower_flushed(self, offset: int) -> None:
        """What lies past ``offset`` is about to be cut: a flush that is under way must not vouch for it."""
        with self._lock:
            self.flushed_up_to = min(self.flushed_up_to, offset)
            self._flush_target = min(self._flush_target, offset)

    @property
    def owes_truncation(self) -> bool:
        """Whether a truncation is not on disk yet: the next flush puts it there, whether records are due or not."""
        return any(segment.was_cut for segment in self._list)

    def flush(self, *, sealed_only: bool, with_them: Callable[[], None] = lambda: None) -> int:
        """Put all records, or all of sealed segments, on disk; gives the offset up to which they are. Slow.

        ``with_them`` is called once it is decided which records: what belongs to them must be on disk as well.
        """
        with self._flushing:
            with self._lock:
                self._flush_target = self.active.base_offset if sealed_only else self.active.next_offset
            with_them()
            while self._flush_some():
                pass
            return self.flushed_up_to

    def _flush_some(self) -> bool:
        """Flush the first segments that are due, not more than there are descriptors for; whether more are due."""
        with self._lock:
            all_due = [segment for segment in self._list if self._is_due(segment)]
            due = all_due[:FLUSHED_AT_ONCE]
            files = _copies(due)
            cut = [segment for segment in due if segment.was_cut]
            for segment in cut:
                segment.was_cut = False  # before: a cut from now on is the next flush's
            folder_changed, self._folder_changed = self._folder_changed, False
            are_more = len(all_due) > len(due)
            end = due[-1].next_offset if are_more else self._flush_target
        try:
            try:
                for fd in files:
                    os.fdatasync(fd)
            finally:
                for fd in files:
                    os.close(fd)
            # A recovery point past a sealed segment says that its indexes can be trusted as well.
            for segment in due:
                if segment.sealed:
                    sync_index(self._folder, segment.base_offset)
            if folder_changed:
                sync_folder(self._folder)
        except OSError:
            self._folder_changed |= folder_changed  # a want of descriptors passes, and the flush is done again
            for segment in cut:
                segment.was_cut = True
            raise
        with self._lock:
            self.flushed_up_to = max(self.flushed_up_to, min(end, self._flush_target))
            for segment in due:
                if segment.sealed and segment.next_offset <= self.flushed_up_to:
                    segment.flushed()
        return are_more

    def close(self) -> None:
        """Write the indexes of the active segment and let go of all files. Slow."""
        with self._lock:
            self.active.close()
        self.discard()

    def discard(self) -> None:
        """Let go of all files as they are."""
        with self._lock:
            for segment in self._list:
                segment.close_files()

    def _is_due(self, segment: Segment) -> bool:
        has_records = segment.next_offset > self.flushed_up_to and segment.base_offset < self._flush_target
        return has_records or segment.was_cut

    def _number(self, offset: int) -> int:
        return max(0, bisect_right(self._list, offset, key=_base_offset) - 1)


def _copies(segments: list[Segment]) -> list[int]:
    """Descriptors of their own: the event loop may close or replace the segments' at any time. All of them or none."""
    files: list[int] = []
    try:
        for segment in segments:
            files.append(os.dup(segment.fd) if segment.fd >= 0 else os.open(segment.path, os.O_RDONLY))
    except OSError:
        for fd in files:
            os.close(fd)
        raise
    return files
