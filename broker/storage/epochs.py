"""The leader-epoch cache of one log: which epoch's leader wrote from which offset on.

Truncation after a change of leader rests on it (KIP-101, KIP-279): a follower asks where the leader's copy of an epoch
ends, and both cut what lies past it. Entries rise strictly in both epoch and start offset.

Memory comes first. The file is written before the first record of an epoch is, and made durable before any flush of such
records counts (docs/decisions/0014): recovery may therefore trust that a batch whose epoch the cache does not know is damaged,
or was never said to be on disk. An epoch that wrote nothing is nothing that a restart would have to know of.
"""

import logging
import os
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from ottla.broker.storage.checkpoint_file import read_rows, sync_folder, write_rows
from ottla.broker.storage.disk_health import is_shortage
from ottla.wire.names import NO_EPOCH

FILE_NAME = "leader-epoch-checkpoint"

NO_OFFSET = -1
"""The end offset of an epoch that cannot be told."""

logger = logging.getLogger(__name__)


class EpochStart(NamedTuple):
    """From ``start_offset`` on, records were written by the leader of ``epoch``."""

    epoch: int
    start_offset: int


class EpochCache:
    """The entries in memory and their file. What is forgotten is written at once, what is new by ``save``."""

    def __init__(self, path: Path, entries: list[EpochStart] | None = None) -> None:
        self.path = path
        self._entries = entries or []
        self.unsaved = False
        """Whether there is an entry that the file does not have: ``save`` before a record of its epoch is written."""
        self._unsynced = bool(self._entries)  # a crash may have come between save and sync

    @classmethod
    def load(cls, folder: Path) -> "EpochCache":
        """The cache of a partition folder; empty if its file is missing or garbage."""
        path = folder / FILE_NAME
        try:
            return cls(path, parse_entries(read_rows(path, columns=2)))
        except ValueError as error:
            logger.warning("epoch checkpoint unreadable, ignored: path=%s error=%s", path, error)
            return cls(path)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch known, NO_EPOCH if there is none."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote ``offset``, NO_EPOCH if it lies before all entries."""
        place = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[place - 1].epoch if place else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that ``epoch`` writes from ``start_offset`` on; False if that was known. Epochs never go back."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}")
        if self._entries and epoch == self._entries[-1].epoch:
            return False
        if epoch < self.latest_epoch:
            raise ValueError(f"epoch {epoch} at offset {start_offset} comes after {self._entries[-1]}")
        # Epochs that wrote nothing before this one began hold no records: the new one takes their place.
        kept = [entry for entry in self._entries if entry.start_offset < start_offset]
        self._entries = [*kept, EpochStart(epoch, start_offset)]
        self.unsaved = True
        return True

    def save(self) -> None:
        """Write the file: a crash of this process does not lose it."""
        self._write(self._entries)

    def sync(self) -> None:
        """Make the file as it was last saved durable. Slow: may run in a thread, next to the others."""
        if not self._unsynced:
            return
        self._unsynced = False  # before: what is saved from now on needs another one
        try:
            fd = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            sync_folder(self.path.parent)
        except BaseException:
            self._unsynced = True
            raise

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Where the records of ``epoch`` end here: (largest known epoch <= asked, its end offset).

        (NO_EPOCH, NO_OFFSET) if this log knows nothing of the epoch: it is newer than all entries, or there are none.
        """
        if epoch == NO_EPOCH or not self._entries or epoch > self.latest_epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end
        place = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        higher = self._entries[place]
        known = self._entries[place - 1].epoch if place else epoch
        return known, higher.start_offset

    def truncate_from_end(self, offset: int) -> None:
        """Forget epochs that began at ``offset`` or later.

        Their records are gone. If there is no room for the file, it is written before the next record is.
        """
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        if len(kept) == len(self._entries):
            return
        try:
            self._replace(kept)
        except OSError as error:
            if not is_shortage(error):
                raise
            self.forget_unwritten(offset)
            logger.warning("epoch checkpoint not written yet: path=%s error=%s", self.path, error)

    def forget_unwritten(self, offset: int) -> None:
        """The same in memory only: no record of these epochs was written."""
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        if len(kept) != len(self._entries):
            self._entries = kept
            self.unsaved = True

    def truncate_from_start(self, offset: int) -> None:
        """Forget epochs that ended at or before ``offset``; the one that wrote ``offset`` now starts there.

        Nobody needs that: if there is no room for the file, all stays as it is until the next call.
        """
        place = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if not place:
            return
        kept = [EpochStart(self._entries[place - 1].epoch, offset), *self._entries[place:]]
        if kept == self._entries:
            return
        try:
            self._replace(kept)
        except OSError as error:
            if not is_shortage(error):
                raise
            logger.warning("old leader epochs not dropped: path=%s error=%s", self.path, error)

    def clear(self) -> None:
        """Forget everything. If there is no room for the file, it is written before the next record is."""
        self.truncate_from_end(-1)

    def restore(self, entries: list[EpochStart]) -> None:
        """Take over entries that were read from the batches themselves, after the file was lost. Slow."""
        self._replace(entries)
        self.sync()

    def _replace(self, entries: list[EpochStart]) -> None:
        # The file first: if writing fails, memory still says what the disk says.
        self._write(entries)
        self._entries = entries

    def _write(self, entries: list[EpochStart]) -> None:
        write_rows(self.path, entries, durable=False)
        self.unsaved = False
        self._unsynced = True


def parse_entries(rows: list[list[str]]) -> list[EpochStart]:
    """Rows ``epoch start_offset``. ValueError unless both rise strictly from zero or more."""
    entries = [EpochStart(int(epoch), int(start)) for epoch, start in rows]
    for before, after in zip([EpochStart(-1, -1), *entries], entries, strict=False):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            raise ValueError(f"{after} comes after {before}")
    return entries
