"""The log of one partition replica: segments end to end, the leader-epoch cache, and the rules of appending and reading.

Methods run on the broker's event loop unless they say "slow": those may run in a thread, next to the others.

An OSError while writing, flushing or cutting makes the log *failed* until the broker restarts; a full disk, or a want of
descriptors or memory, does not (disk_health.py).
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from ottla.broker.storage.disk_health import NO_DESCRIPTORS, SHORTAGES, DiskHealth
from ottla.broker.storage.incoming import (
    Appended,
    places_of,
    produced_batches,
    replicated_batches,
    split_for_segments,
    stamp_batches,
)
from ottla.broker.storage.log_config import LOG_APPEND_TIME, LogConfig
from ottla.broker.storage.log_loading import LoadedLog, Precautions, load_log
from ottla.broker.storage.partition_folder import claim_folder
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.retention import NO_LIMITS, Limits, SegmentAge, expired
from ottla.broker.storage.segments.index import RELATIVE_OFFSET_MAX, BatchPlace
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.broker.storage.segments.segment_files import DELETED_SUFFIX
from ottla.broker.storage.segments.segments import Segments
from ottla.broker.storage.truncation import OFFSET_MAX, Truncation
from ottla.broker.storage.verification import BatchLocation
from ottla.wire.errors import (
    FencedLeaderEpoch,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageError,
)  # fmt: skip

logger = logging.getLogger(__name__)

EPOCH_MAX: Final = 2**31 - 1


class Log:
    """See the module. Made by ``Log.open``."""

    def __init__(
        self,
        folder: Path,
        topic_id: str,
        config: LogConfig,
        loaded: LoadedLog,
        recovery_point: int,
        precautions: Precautions,
        open_files: OpenFiles,
    ) -> None:
        self.folder = folder
        self.topic_id = topic_id
        self.config = config
        self.recovery = loaded.recovery
        flushed_up_to = min(recovery_point, loaded.segments[-1].next_offset)
        self._segments = Segments(folder, config.index_interval_bytes, loaded.segments, flushed_up_to, open_files)
        self._epochs = loaded.epochs
        self.producers = loaded.producers
        self._precautions = precautions
        self._log_start_offset = self._segments.first.base_offset
        self._disk = DiskHealth(folder)
        self._is_findable = False
        self._truncation = Truncation(folder, self._segments, self._epochs, self.producers, self._disk, precautions)

    @classmethod
    def open(
        cls,
        folder: Path,
        topic_id: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        precautions: Precautions | None = None,
        producer_memory: ProducerMemory | None = None,
        open_files: OpenFiles | None = None,
    ) -> "Log":
        """The log in ``folder``, which is made if it is not there. Slow.

        Unless it was closed cleanly, it is checked from ``recovery_point`` on and cut at the first bad batch; what
        that found stands in ``recovery``. InconsistentTopicId if the folder holds another topic's records.
        """
        precautions = precautions or Precautions()
        claim_folder(folder, topic_id)
        loaded = load_log(
            folder,
            config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            precautions=precautions,
            producer_memory=producer_memory or ProducerMemory(),
        )
        log = cls(folder, topic_id, config, loaded, recovery_point, precautions, open_files or OpenFiles())
        log._log_start_offset = min(max(log._log_start_offset, log_start_offset), log.log_end_offset)
        return log

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._segments.active.next_offset

    @property
    def flushed_up_to(self) -> int:
        """All records before this offset are on disk, not only in the page cache."""
        return self._segments.flushed_up_to

    @property
    def safe_end(self) -> int:
        """Up to where a checkpoint may say that there are records: the log end, or where a truncation is about to put it."""
        return min(self._segments.active.next_offset, self._truncation.to)

    @property
    def sealed_up_to(self) -> int:
        """Where the active segment starts: what lies before does not change any more."""
        return self._segments.active.base_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def failed(self) -> bool:
        """The disk failed under this log: it takes no more records."""
        return self._disk.failure is not None

    @property
    def refuses_records(self) -> bool:
        """There was no room on the disk, no descriptor or no memory for the last records: those that come next may be taken."""
        return self._disk.shortage is not None

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, -1 if there is none."""
        return self._epochs.latest_epoch

    # --- leader epochs ---

    def assign_epoch(self, epoch: int) -> None:
        """A leader of this epoch writes from the log end offset on. On becoming leader, before any append."""
        if epoch < self._epochs.latest_epoch:
            raise FencedLeaderEpoch(
                f"leader epoch {epoch} is older than {self._epochs.latest_epoch}, which the log holds"
            )
        self._disk.check()
        self._epochs.assign(epoch, self.log_end_offset)  # the disk hears of it with the epoch's first record

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch <= ``epoch``, where its records end); (-1, -1) if the log knows nothing of it."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    # --- appending ---

    def append_as_leader(self, records: memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Append produced batches, all or none; ``records`` is stamped in place with offsets and epoch."""
        if self._disk.failure is not None:
            self._disk.check()
        config = self.config
        batches = produced_batches(records, config, now_ms)
        if len(records) > config.segment_bytes:
            raise RecordListTooLarge(f"{len(records)} bytes of records; segment.bytes is {config.segment_bytes}")
        first = batches[0][1]
        if first.producer_id >= 0 or len(batches) > 1:
            repeated = self.producers.repeated(batches, may_have_forgotten=self._log_start_offset > 0)
            if repeated is not None:
                return Appended(repeated.first_offset, repeated.last_offset, -1, -1)
        if leader_epoch != self._epochs.latest_epoch:
            self.assign_epoch(leader_epoch)
        append_time_ms = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else -1
        first_offset = self._segments.active.next_offset
        places = stamp_batches(records, batches, first_offset, leader_epoch, append_time_ms, now_ms)
        max_timestamp = self._write(records, places)
        if first.producer_id >= 0:
            self.producers.note(first, first_offset)
        return Appended(first_offset, places[-1].next_offset - 1, max_timestamp, append_time_ms)

    def append_as_follower(self, records: memoryview, leader_epoch: int = EPOCH_MAX) -> int:
        """Append the leader's batches as they are, and give the new log end offset. A cut-off last batch is ignored.

        The leader is of ``leader_epoch``: nothing that it has is of a later one. DamagedRecords if one of them is damaged, once
        all before it are appended.
        """
        self._disk.check()
        is_first = not self._segments.active.size and not self.size
        end, epoch = self.log_end_offset, self.latest_epoch
        batches, damaged = replicated_batches(records, end, epoch, leader_epoch, is_first=is_first)
        if is_first and batches and batches[0][1].base_offset < end:
            self._begin_inside(batches[0][1].base_offset)
        room = self.config.segment_bytes - self._segments.active.size
        for run in split_for_segments(batches, room, self.config.segment_bytes):
            for _, header in run:
                if header.leader_epoch != self._epochs.latest_epoch:
                    self._epochs.assign(header.leader_epoch, header.base_offset)
            places = places_of(run)
            start = run[0][0]
            try:
                self._write(records[start : start + places[-1].position + places[-1].size], places)
            except StorageError:
                self._epochs.forget_unwritten(self.log_end_offset)
                raise
            for _, header in run:
                if header.producer_id >= 0:
                    self.producers.note(header, header.base_offset)
        if damaged is not None:
            raise damaged
        return self.log_end_offset

    def _begin_inside(self, base_offset: int) -> None:
        """An empty log begins inside the batch that starts at ``base_offset``."""
        log_start_offset = self._log_start_offset
        self.truncate_fully_and_start_at(base_offset)
        self._log_start_offset = log_start_offset

    def should_roll(self, incoming_bytes: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether these records would make the active segment too large or too long in time."""
        active, config = self._segments.active, self.config
        if not active.size:
            return False
        return (
            active.size + incoming_bytes > config.segment_bytes
            or last_offset - active.base_offset > RELATIVE_OFFSET_MAX
            or self._segments.is_due_by_time(max_timestamp, config.segment_ms, config.roll_interval_ms)
        )

    # --- reading ---

    def read(
        self, offset: int, max_bytes: int, *, up_to: int, at_least_one: bool, stays: int = OFFSET_MAX
    ) -> list[memoryview]:
        """Whole batches from the one that holds ``offset`` on: none that ends past ``up_to``, no more than ``max_bytes``.

        If ``at_least_one``, the first batch may be larger than that. What lies before ``stays`` is sure not to be cut while
        somebody holds it. OffsetOutOfRange outside of the log.
        """
        if not self._log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {offset}; the log has {self._log_start_offset} to {self.log_end_offset}")
        try:
            views = self._segments.read(offset, max_bytes, up_to, at_least_one, stays)
        except OSError as error:
            raise self._disk.refuse_read(error) from error
        if self._disk.refuses_reads:
            self._disk.read_again()
        return views

    def max_timestamp(self) -> int:
        """The largest timestamp of all segments; -1 if no record has one."""
        return max(segment.max_timestamp for segment in self._segments.from_offset(self._log_start_offset))

    def find_by_timestamp(self, timestamp_ms: int, from_offset: int = 0) -> memoryview | None:
        """The first batch from an offset on that says it has a record of ``timestamp_ms`` or later; None if there is none."""
        start = max(self._log_start_offset, from_offset)
        try:
            return self._segments.find_by_timestamp(timestamp_ms, start)
        except OSError as error:
            raise self._disk.refuse_read(error) from error

    def locate(self, offset: int) -> BatchLocation:
        """Where the batch that holds ``offset`` lies, for ``check_stored_batch``. CorruptMessage if no batch can be there."""
        try:
            segment, batch = self._segments.locate(offset)
        except OSError as error:
            raise self._disk.refuse_read(error) from error
        return BatchLocation(segment.path, batch, self._epochs.epoch_at(batch.base_offset))

    # --- cutting ---

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at ``offset``, or where the batch that holds it starts.

        ReplicaNotAvailable, and nothing is changed, while somebody holds a slice of what is to go: try again.
        """
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._log_start_offset = min(self._log_start_offset, self._truncation.cut_at(offset))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record gets ``offset``."""
        self._truncation.start_over_at(offset)
        self._log_start_offset = offset

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset forward and give it. The space comes back with the next retention run."""
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {offset}; the log has {self._log_start_offset} to {self.log_end_offset}")
        if offset > self._log_start_offset:
            with self._disk.during("deleting records"):
                self._log_start_offset = offset
                self._epochs.truncate_from_start(self._log_start_offset)
        return self._log_start_offset

    def apply_retention(self, now_ms: int | None, *, up_to: int | None = None, leads: bool = True) -> list[str]:
        """Let go of segments before the log start and, if it ``leads``, of those that limits do not keep; gives their names.

        None has records at or past ``up_to``. Their files are only renamed: ``remove_deleted_files`` does the slow part.
        """
        with self._disk.during("deleting segments", SHORTAGES):
            self._epochs.truncate_from_start(self._log_start_offset)
            ages = [SegmentAge(segment.next_offset, segment.size, segment.age_ms()) for segment in self._segments]
            limits = Limits(self.config.retention_ms, self.config.retention_bytes) if leads else NO_LIMITS
            up_to = self.log_end_offset if up_to is None else up_to
            due = expired(ages, limits, now_ms=now_ms, log_start=self._log_start_offset, up_to=up_to)
            if due == len(self._segments):
                due -= 0 if self._segments.could_roll() else 1
            if not due:
                return []
        with self._disk.during("deleting segments"):
            # On a full disk nothing may be written before the files are gone: their names change, and no more.
            names = self._segments.drop_first(due)
            self._log_start_offset = max(self._log_start_offset, self._segments.first.base_offset)
        logger.info(
            "segments deleted: folder=%s count=%d log_start_offset=%d", self.folder, due, self._log_start_offset
        )
        return names

    def remove_deleted_files(self) -> None:
        """Unlink what was let go of. Slow."""
        for path in self.folder.glob(f"*{DELETED_SUFFIX}"):
            path.unlink(missing_ok=True)

    # --- producers ---

    def producers_to_save(self) -> Callable[[], None] | None:
        """Writes what is known of producers (slow, in a thread), if a segment was sealed since it was written; else None."""
        producers = self.producers
        if producers.saved_up_to >= self.sealed_up_to or self.failed or not producers.states:
            return None
        return partial(producers.save, producers.snapshot(self.log_end_offset))

    # --- flushing and closing ---

    def flush(self, *, sealed_only: bool = False) -> int:
        """Put all records, or all of sealed segments, on disk, and give the offset up to which they are. Slow."""
        with self._disk.during("flushing", NO_DESCRIPTORS):
            if not self._is_findable:
                self._precautions.before_first_flush()
                self._is_findable = True
            return self._segments.flush(sealed_only=sealed_only, with_them=self._epochs.sync)

    def close(self) -> None:
        """Flush, write the indexes and let go of all files. Slow. A failed log is only let go of."""
        try:
            # A log that never had records has nothing that must survive a power cut.
            if not self.failed and (self.size or self._segments.owes_truncation):
                self.flush()
                with self._disk.during("closing"):
                    if self.producers.states:
                        self.producers.save(self.producers.snapshot(self.log_end_offset))
                    self._segments.close()
        finally:
            self.discard()

    def discard(self) -> None:
        """Let go of all files as they are: for a log that is about to be deleted."""
        self._disk.failure = self._disk.failure or "the log is closed"
        self.producers.close()
        self._segments.discard()

    def _write(self, records: memoryview, batches: list[BatchPlace]) -> int:
        last = batches[-1]
        max_timestamp = last.max_timestamp if len(batches) == 1 else max(batch.max_timestamp for batch in batches)
        if self.should_roll(len(records), last.next_offset - 1, max_timestamp):
            self._roll()
        try:
            if self._epochs.unsaved:
                self._epochs.save()
            self._segments.active.append(records, batches)
        except OSError as error:
            raise self._disk.refuse("appending", error) from error
        if self._disk.shortage is not None:
            self._disk.end_shortage()
        return max_timestamp

    def _roll(self) -> None:
        with self._disk.during("rolling", SHORTAGES):
            self._segments.roll()
