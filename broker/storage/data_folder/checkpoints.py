"""Offsets of all partitions of a data folder in one text file: recovery points, high watermarks, log start offsets.

A checkpoint is a hint that saves work or narrows a guess, never the truth about what the log holds: one that cannot be
read is treated as absent.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ottla.broker.storage.checkpoint_file import read_rows, write_rows
from ottla.wire.log_layout import parse_offsets
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)


class OffsetCheckpoint:
    """One checkpoint file of a data folder and what it holds. Its methods are slow (fsync) and may run in threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._writing: Mapping[TopicPartition, int] = {}
        """What may be in the file soon."""
        self.missing = not path.exists()
        """Whether there was no file that could be read."""
        try:
            self._offsets = parse_offsets(read_rows(path, columns=3))
        except (OSError, ValueError) as error:
            logger.warning("checkpoint unreadable, ignored: path=%s error=%s", path, error)
            self._offsets = {}
            self.missing = True

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """What the file holds."""
        return self._offsets

    def write(self, current: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Replace the file by what ``current`` says once nobody else is writing."""
        with self._lock:
            with self._reading:
                offsets = self._writing = dict(current())
            self._replace(offsets)
            self._writing = {}

    def lower(self, partition: TopicPartition, offset: int) -> None:
        """See to it that the file says no more than ``offset`` for a partition. Waits for the disk only if it does say more."""
        with self._reading:
            if max(self._offsets.get(partition, 0), self._writing.get(partition, 0)) <= offset:
                return
        with self._lock:
            if self._offsets.get(partition, 0) > offset:
                self._replace({**self._offsets, partition: offset})

    def lower_all(self, ends: Mapping[TopicPartition, int]) -> None:
        """The same for many partitions at once."""
        with self._lock:
            lowered = {key: ends[key] for key, offset in self._offsets.items() if key in ends and offset > ends[key]}
            if lowered:
                self._replace({**self._offsets, **lowered})

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """See to it that the file says nothing of partitions: earlier ones of the same names may have left their mark."""
        with self._lock:
            if not self._offsets.keys().isdisjoint(partitions):
                self._replace({key: offset for key, offset in self._offsets.items() if key not in partitions})

    def _replace(self, offsets: dict[TopicPartition, int]) -> None:
        if offsets != self._offsets or not self.path.exists():
            write_rows(self.path, ((key.topic, key.partition, offset) for key, offset in sorted(offsets.items())))
            self._offsets = offsets
