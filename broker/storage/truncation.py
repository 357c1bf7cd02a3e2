"""Cutting a log: at an offset, or all of it. A log has one Truncation.

Everything that can meet a shortage (disk_health.py) comes first, and until it is done nothing is changed. An error after that
fails the log.
"""

import logging
from pathlib import Path
from typing import Final

from ottla.broker.storage.disk_health import SHORTAGES, DiskHealth
from ottla.broker.storage.epochs import EpochCache
from ottla.broker.storage.log_loading import Precautions
from ottla.broker.storage.producers.log_producers import LogProducers
from ottla.broker.storage.segments.segments import Segments
from ottla.wire.errors import ReplicaNotAvailable

logger = logging.getLogger(__name__)

OFFSET_MAX: Final = 2**63 - 1


class Truncation:
    """See the module. ``to`` is where the log is about to end: no checkpoint may say more."""

    def __init__(
        self,
        folder: Path,
        segments: Segments,
        epochs: EpochCache,
        producers: LogProducers,
        disk: DiskHealth,
        precautions: Precautions,
    ) -> None:
        self.to = OFFSET_MAX
        self._folder = folder
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._disk = disk
        self._precautions = precautions

    def cut_at(self, offset: int) -> int:
        """Cut the log at ``offset``, or where the batch that holds it starts; gives where it is cut.

        The offset is not before the first segment. ReplicaNotAvailable while somebody holds a slice of what is to go.
        """
        segments = self._segments
        is_shorter = offset < segments.active.next_offset
        if is_shorter:
            with self._disk.during("truncating", SHORTAGES):
                segment = segments.holding(offset)
                offset = segment.batch_start(offset)
                segments.prepare_truncation(segment)
                last_batches = self._producers.last_batches_before(offset, list(segments))
                if not segment.can_truncate_to(offset):
                    raise ReplicaNotAvailable(
                        f"{self._folder}: records past {offset} are to be cut, and still being sent"
                    )
                self._make_durable(offset)
        with self._disk.during("truncating"):
            if is_shorter:
                segments.truncate_to(offset)
                self.to = OFFSET_MAX
                self._producers.truncate(offset, last_batches)
                logger.info("log truncated: folder=%s log_end_offset=%d", self._folder, offset)
            # Even if no record goes: an epoch that wrote nothing may stand at the end, and the leader may not know it.
            self._epochs.truncate_from_end(offset)
        return offset

    def start_over_at(self, offset: int) -> None:
        """Drop everything; the next record gets ``offset``."""
        with self._disk.during("truncating", SHORTAGES):
            segment = self._segments.create_aside(offset)
            try:
                self._make_durable(offset)
            except OSError:
                segment.close_files()
                raise
        with self._disk.during("truncating"):
            self._segments.start_over_with(segment)
            self.to = OFFSET_MAX
            self._producers.clear()
            self._epochs.clear()
            logger.info("log emptied: folder=%s log_start_offset=%d", self._folder, offset)

    def _make_durable(self, offset: int) -> None:
        """No checkpoint says more than ``offset`` from now on."""
        self.to = offset
        self._segments.lower_flushed(offset)
        try:
            self._precautions.before_truncation(offset)
        except OSError:
            self.to = OFFSET_MAX
            raise
