"""One segment of a log: a file of record batches that only grows, and its sparse indexes.

Only the *active* segment, the last of its log, is written to. A *sealed* one lets go of its indexes until somebody reads.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.broker.storage.segments.batch_file import BatchFile
from ottla.broker.storage.segments.index import NO_TIMESTAMP, BatchPlace, OffsetPosition, SegmentIndex
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.broker.storage.segments.segment_files import (
    TEMPORARY_SUFFIX,
    load_index,
    mark_deleted,
    remove_index,
    save_index,
    segment_path,
    sync_index,
)
from ottla.wire.errors import CorruptMessage

_RECENT_MAX = 64
"""Batches whose places are remembered one by one: readers at the tail ask for exactly these."""


class Segment:
    """See the module. ``size`` and ``next_offset`` say what may be read; bytes past them are not there."""

    __slots__ = (
        "_file",
        "_folder",
        "_index",
        "_index_saved",
        "_interval_bytes",
        "_sealed_max_timestamp",
        "_tail",
        "base_offset",
        "first_timestamp",
        "next_offset",
        "recent",
    )

    def __init__(self, folder: Path, base_offset: int, interval_bytes: int, file: BatchFile) -> None:
        self._folder = folder
        self._interval_bytes = interval_bytes
        self._file = file
        self._index: SegmentIndex | None = None
        self._index_saved = False
        self._sealed_max_timestamp = NO_TIMESTAMP
        self._tail = OffsetPosition(base_offset, 0)
        self.recent: dict[int, int] = {}
        """Where the last batches start, by their base offsets, while the segment is active."""
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.first_timestamp = NO_TIMESTAMP

    @classmethod
    def create(cls, folder: Path, base_offset: int, interval_bytes: int, *, aside: bool = False) -> "Segment":
        """A new, empty, active segment; ``aside``: of a name that no restart takes for a segment, until ``take_its_place``."""
        path = segment_path(folder, base_offset)
        if aside:
            path = path.with_name(path.name + TEMPORARY_SUFFIX)
            path.unlink(missing_ok=True)
        segment = cls(folder, base_offset, interval_bytes, BatchFile.create(path))
        segment._index = SegmentIndex(base_offset, interval_bytes)
        return segment

    def take_its_place(self) -> None:
        """Rename a segment that was made aside: those that were in its place are gone."""
        self._file.rename(segment_path(self._folder, self.base_offset))

    def use(self, open_files: OpenFiles) -> None:
        """Count among these from now on, as a segment of a log that is in service."""
        self._file.use(open_files)

    @classmethod
    def open_active(cls, folder: Path, base_offset: int, interval_bytes: int) -> "Segment":
        """The last segment of a log. CorruptMessage if it does not end with a whole batch."""
        segment = cls(folder, base_offset, interval_bytes, BatchFile.open_active(segment_path(folder, base_offset)))
        try:
            segment._find_end(to_go_on=True)
        except BaseException:
            segment.close_files()
            raise
        return segment

    @classmethod
    def open_sealed(cls, folder: Path, base_offset: int, interval_bytes: int) -> "Segment":
        """A segment that another one follows. Its index is loaded again when somebody needs it."""
        segment = cls(folder, base_offset, interval_bytes, BatchFile.open_sealed(segment_path(folder, base_offset)))
        segment._find_end()
        segment._sealed_max_timestamp = segment.index.max_timestamp
        segment.save_index()
        # Looked at, and let go of until somebody reads: most sealed segments are never read again.
        segment._index = None
        segment.close_files()
        return segment

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def sealed(self) -> bool:
        return self._file.sealed

    @property
    def fd(self) -> int:
        """The descriptor to flush; below zero if there is none any more."""
        return self._file.fd

    @property
    def was_cut(self) -> bool:
        """Whether it was cut, or made in the place of others, since it was last flushed."""
        return self._file.was_cut

    @was_cut.setter
    def was_cut(self, was_cut: bool) -> None:
        self._file.was_cut = was_cut

    @property
    def max_timestamp(self) -> int:
        return self._sealed_max_timestamp if self.sealed else self.index.max_timestamp

    def age_ms(self) -> int:
        """The largest timestamp, or when the segment was last written if its records have none."""
        return self.max_timestamp if self.max_timestamp != NO_TIMESTAMP else int(self.path.stat().st_mtime * 1000)

    @property
    def index(self) -> SegmentIndex:
        if self._index is None:
            index = load_index(self._folder, self.base_offset, self._interval_bytes, self.size)
            self._index_saved = index is not None and self._is_honest(index)
            self._index = index if index is not None and self._index_saved else self._build_index()
        return self._index

    def append(self, records: memoryview, batches: Sequence[BatchPlace]) -> None:
        """Write ``records``, which hold ``batches``: all of them or, raising OSError, none."""
        file = self._file
        size = file.size
        file.append(records)
        index = self.index
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = batches[0].max_timestamp
        recent = self.recent
        for position, batch_size, base_offset, next_offset, max_timestamp in batches:
            index.add(next_offset - 1, size + position, batch_size, max_timestamp)
            recent[base_offset] = size + position
            self.next_offset = next_offset
        while len(recent) > _RECENT_MAX:
            del recent[next(iter(recent))]
        self._tail = OffsetPosition(base_offset, size + position)
        self._index_saved = False

    def read(self, start: int, end: int, *, may_be_cut: bool = False) -> memoryview:
        """The bytes from position ``start`` to ``end``; see BatchFile."""
        return self._file.read(start, end, may_be_cut=may_be_cut)

    def walk(self, position: int) -> Iterator[BatchPlace]:
        """The batches from the one at ``position`` on; see BatchFile."""
        return self._file.walk(position)

    def batch_at(self, position: int) -> BatchPlace:
        """The batch that starts at ``position``."""
        return self._file.batch_at(position)

    def position_of(self, offset: int, *, to_show: bool = False) -> int:
        """Where the batch that holds ``offset`` starts; ``size`` if the segment ends before.

        CorruptMessage if it is ``to_show`` to somebody, and its base offset lies.
        """
        if offset >= self.next_offset:
            return self.size
        position = self.recent.get(offset)
        return position if position is not None else self._locate(offset, to_show=to_show).position

    def _locate(self, offset: int, *, to_show: bool = False) -> OffsetPosition:
        # The last batch has an entry of its own, in memory only: the common read is at the tail.
        place = self._tail if offset >= self._tail.offset else self._checked(self.index.lookup(offset))
        due = place.offset
        for batch in self.walk(place.position):
            # A base offset that lies is passed over, not believed: whoever asks for what comes behind gets that.
            behind = due + batch.next_offset - batch.base_offset
            if behind > offset:
                if to_show:
                    self._check_tiles(batch, due)
                return OffsetPosition(due, batch.position)
            due = behind
        return OffsetPosition(due, self.size)

    def last_end_within(self, start: int, limit: int) -> int:
        """The last position up to ``limit`` where a batch ends, walking whole batches from ``start``."""
        if limit >= self.size:
            return self.size
        end = max(start, self.batch_before(limit))
        try:
            for batch in self.walk(end):
                if batch.position + batch.size > limit:
                    break
                end = batch.position + batch.size
        except CorruptMessage:
            if end == start:
                raise  # else what lies before the damaged batch is whole
        return end

    def batch_before(self, position: int) -> int:
        """Where a batch starts, not far before ``position`` or there."""
        return self._checked(self.index.lookup_position(max(position, 0))).position

    def find_by_timestamp(self, timestamp: int, from_offset: int) -> BatchPlace | None:
        """The first batch that reaches past ``from_offset`` and has a record of ``timestamp`` or later."""
        place = self._locate(max(from_offset, self.index.offset_for_time(timestamp)))
        due = place.offset
        for batch in self.walk(place.position):
            if batch.max_timestamp >= timestamp:
                self._check_tiles(batch, due)
                return batch
            due += batch.next_offset - batch.base_offset
        return None

    def batch_start(self, offset: int) -> int:
        """The base offset of the batch that holds ``offset``; where the segment ends if that is before."""
        return self._locate(offset).offset if offset < self.next_offset else self.next_offset

    def can_truncate_to(self, offset: int) -> bool:
        """Whether nobody holds a slice of what lies past ``offset``, which is where a batch starts."""
        return self._file.can_cut_at(self.position_of(offset))

    def truncate_to(self, offset: int) -> None:
        """Cut everything from ``offset`` on, which is where a batch starts; the segment is active afterwards."""
        position = self.position_of(offset)
        self.recent.clear()
        index = self.index
        remove_index(self._folder, self.base_offset)
        self._file.cut_at(position)
        index.truncate(offset)
        self._index_saved = False
        self._find_end()

    def seal(self) -> None:
        """Write the indexes: nothing is appended any more."""
        self.save_index()
        self._sealed_max_timestamp = self.index.max_timestamp
        self._file.seal()
        self._index = None
        self.recent.clear()

    def close(self) -> None:
        """Make the indexes of an active segment durable and let go of all files. Slow."""
        if not self.sealed and not self._index_saved:
            self.save_index()
            sync_index(self._folder, self.base_offset)
        self.close_files()

    def close_files(self) -> None:
        self._file.close()

    def prepare_truncation(self) -> None:
        """Have the index, and a descriptor to read and to cut by: where there is none left, nothing has been cut yet."""
        self._file.keep_fd()
        self._index = self.index

    def flushed(self) -> None:
        """A sealed segment is on disk."""
        self._file.flushed()

    def mark_deleted(self) -> None:
        """Rename the files out of the way. Slices that readers hold stay good."""
        mark_deleted(self._folder, self.base_offset)
        self.close_files()

    def _is_honest(self, index: SegmentIndex) -> bool:
        """Whether a batch has the largest timestamp that a loaded index claims: retention rests on it."""
        if not self.size:
            return index.last_entry.position == 0
        claimed = index.max_timestamp_offset
        try:
            for batch in self.walk(index.lookup(claimed).position):
                if batch.next_offset > claimed:
                    return batch.next_offset - 1 == claimed and batch.max_timestamp == index.max_timestamp
        except CorruptMessage:
            pass
        return False

    def _checked(self, entry: OffsetPosition) -> OffsetPosition:
        """The first offset of the batch of an index entry, and where it starts.

        Nothing guards index files against bit rot, but an entry that lies points at no batch that ends with its offset.
        """
        if not entry.position:
            return OffsetPosition(self.base_offset, 0)
        try:
            batch = self.batch_at(entry.position)
        except (CorruptMessage, StopIteration):
            batch = None
        if batch is None or batch.next_offset - 1 != entry.offset:
            self._index, self._index_saved = self._build_index(), False
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(batch.base_offset, entry.position)

    def _build_index(self) -> SegmentIndex:
        index = SegmentIndex(self.base_offset, self._interval_bytes)
        offset = self.base_offset
        try:
            for batch in self.walk(0):
                offset += batch.next_offset - batch.base_offset
                index.add(offset - 1, batch.position, batch.size, batch.max_timestamp)
        except CorruptMessage:
            pass  # what lies before can be found; whoever looks for the batch, or loads the segment, meets the damage itself
        return index

    def _check_tiles(self, batch: BatchPlace, due: int) -> None:
        """Nothing vouches for a base offset but that the batch before ends there [I27]."""
        if batch.base_offset != due:
            raise CorruptMessage(
                f"{self.path} has base offset {batch.base_offset} at position {batch.position}, where {due} was due"
            )

    def _find_end(self, *, to_go_on: bool = False) -> None:
        """Set what is known of the segment's batches from its index and the few batches past the last entry.

        CorruptMessage if records are ``to_go_on`` behind them, and a base offset lies.
        """
        self._tail = self._checked(self.index.last_entry)
        index = self.index
        due = self._tail.offset
        for batch in self.walk(self._tail.position):
            if to_go_on:
                self._check_tiles(batch, due)
            self._tail = OffsetPosition(due, batch.position)
            due += batch.next_offset - batch.base_offset
            index.resume(due - 1, batch.position, batch.size, batch.max_timestamp)
        self.next_offset = due
        self.first_timestamp = self._find_first_timestamp()

    def _find_first_timestamp(self) -> int:
        if self.index.max_timestamp == NO_TIMESTAMP:
            return NO_TIMESTAMP
        return next(
            (batch.max_timestamp for batch in self.walk(0) if batch.max_timestamp != NO_TIMESTAMP), NO_TIMESTAMP
        )

    def save_index(self) -> None:
        """Write the indexes, if they have changed."""
        if self._index_saved:
            return
        if self.size:
            self.index.finish()
        save_index(self._folder, self.index)
        self._index_saved = True
