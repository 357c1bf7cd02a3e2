"""One data folder of a broker: its lock, its identity, how its last run ended, and the logs in it.

A folder is only ever deleted because ``delete_log`` was asked to; that some metadata does not mention a partition is
no reason. A partition that cannot be opened is listed as failed and does not keep the others down.
"""

import logging
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.broker.storage.checkpoint_file import sync_folder
from ottla.broker.storage.data_folder.checkpoints import OffsetCheckpoint
from ottla.broker.storage.data_folder.data_stamps import DataStamps
from ottla.broker.storage.data_folder.folder_lock import FolderLock
from ottla.broker.storage.data_folder.folder_names import FolderNames
from ottla.broker.storage.data_folder.index_format import IndexFormat
from ottla.broker.storage.data_folder.lost_partitions import Loss, Lost, LostPartitions
from ottla.broker.storage.data_folder.meta_properties import FILE_NAME, claim_data_folder
from ottla.broker.storage.data_folder.shutdown_marker import ShutdownMarker, current_boot_id
from ottla.broker.storage.disk_health import is_shortage
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.log_loading import Precautions
from ottla.broker.storage.partition_folder import DELETE_SUFFIX, holds_records, read_topic_id
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.recovery import RecoveryReport
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.broker.storage.truncation import OFFSET_MAX
from ottla.wire.errors import InconsistentTopicId, OttlaError, StorageError
from ottla.wire.log_layout import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, partition_of
from ottla.wire.names import TopicPartition, check_topic_name

RECOVERY_THREADS = 4
FILE_NAME_MAX = 255

_DOOMED = re.compile(rf".+\.[0-9a-f]{{32}}{DELETE_SUFFIX}", re.ASCII)

DAMAGED_PARTITIONS = ".damaged-partitions"

logger = logging.getLogger(__name__)


class LogDir:
    """See the module. Made by ``LogDir.open``; ``logs`` and ``failed`` hold every partition found or created."""

    def __init__(
        self,
        folder: Path,
        lock: FolderLock,
        data_uuid: str,
        marker: ShutdownMarker,
        producer_memory: ProducerMemory | None = None,
        open_files: OpenFiles | None = None,
    ) -> None:
        self.folder = folder
        self.data_uuid = data_uuid
        self.stamps = DataStamps(folder)
        self.lost = LostPartitions(folder)
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, str] = {}
        self._lock = lock
        self._marker = marker
        self.producer_memory = producer_memory or ProducerMemory()
        self.open_files = open_files or OpenFiles()
        self._names = FolderNames(folder)
        self.was_empty = False
        """Whether nothing at all was in the folder before."""
        self._recovery_points = OffsetCheckpoint(folder / RECOVERY_POINTS)
        self._log_starts = OffsetCheckpoint(folder / LOG_START_OFFSETS)
        self._high_watermarks = OffsetCheckpoint(folder / HIGH_WATERMARKS)
        self.damaged = OffsetCheckpoint(folder / DAMAGED_PARTITIONS)
        """Partitions with a damaged batch, and its offset: they are cut there once the controller does not count them."""
        self._checkpoints = (self._recovery_points, self._log_starts, self._high_watermarks)
        self._after_power_cut = marker.tail_suspect
        """Whether unflushed records may be gone for a known reason: then a high watermark past the log end is no news."""
        self.knows_partitions = not self._recovery_points.missing
        """Whether the recovery points tell which partitions have a folder here."""

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        broker_id: int,
        cluster_id: str,
        config_for: Callable[[str], LogConfig],
        boot_id: str | None = None,
        producer_memory: ProducerMemory | None = None,
        open_files: OpenFiles | None = None,
    ) -> "LogDir":
        """Lock ``folder`` and open all logs in it, recovering them if the last run did not end cleanly. Slow."""
        folder.mkdir(parents=True, exist_ok=True)
        was_empty = not any(folder.iterdir())
        lock = FolderLock(folder)
        try:
            fresh = not (folder / FILE_NAME).exists() and not _partition_folders(folder)
            data_uuid = claim_data_folder(folder, broker_id, cluster_id)
            marker = ShutdownMarker(folder, boot_id or current_boot_id(), fresh=fresh)
            log_dir = cls(folder, lock, data_uuid, marker, producer_memory, open_files)
            log_dir.was_empty = was_empty
            log_dir.knows_partitions |= fresh
            log_dir._open_logs(config_for)
            log_dir._compare_with_checkpoints()
            if fresh:
                log_dir.checkpoint_recovery_points()  # from now on it tells which partitions have a folder here
        except BaseException:
            lock.release()
            raise
        logger.info(
            "data folder opened: folder=%s logs=%d failed=%d unclean=%s tail_suspect=%s",
            folder,
            len(log_dir.logs),
            len(log_dir.failed),
            log_dir.unclean,
            log_dir.tail_suspect,
        )
        return log_dir

    @property
    def unclean(self) -> bool:
        """The last run did not end with a clean shutdown."""
        return self._marker.unclean

    @property
    def tail_suspect(self) -> bool:
        """Records that were acked may be gone: register as unclean, then call ``tail_reported``."""
        return self._marker.tail_suspect

    @property
    def tail_unreported(self) -> bool:
        """They are suspect, and the controller does not know yet."""
        return self._marker.unreported

    def tail_reported(self) -> None:
        """The controller knows of the suspicion."""
        self._marker.tail_reported()

    def high_watermark(self, partition: TopicPartition) -> int:
        """The last checkpointed high watermark as far as the log bears it out: a hint to start from, never the truth."""
        log = self.logs[partition]
        known = self._high_watermarks.offsets.get(partition, 0)
        return max(log.log_start_offset, min(known, log.log_end_offset))

    def create_log(self, partition: TopicPartition, topic_id: str, config: LogConfig) -> Log:
        """The log of a partition, made if there is none. InconsistentTopicId if there is one of another topic.

        The caller writes the recovery points before the log takes records: they tell which partitions have a folder here.
        """
        check_topic_name(partition.topic)
        if partition in self.failed:
            raise StorageError(
                f"{partition} could not be opened: {self.failed[partition]}",
                topic=partition.topic,
                partition=partition.partition,
            )
        log = self.logs.get(partition)
        if log is None:
            for checkpoint in self._checkpoints:
                checkpoint.forget([partition])
            log = Log.open(
                self.folder / str(partition), topic_id, config, clean=True, precautions=self._precautions(partition),
                producer_memory=self.producer_memory, open_files=self.open_files,
            )  # fmt: skip
            self._names.made()
            self.logs[partition] = log
            logger.info("log created: partition=%s topic_id=%s", partition, topic_id)
        elif log.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{log.folder} holds records of topic id {log.topic_id}, not {topic_id}",
                topic=partition.topic,
                partition=partition.partition,
            )
        return log

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """See to it that nothing here claims that these partitions have records, or should have some. Slow."""
        for checkpoint in (*self._checkpoints, self.damaged):
            checkpoint.forget(partitions)
        self.lost.remove(partitions)

    def note_damage(self, partition: TopicPartition, offset: int) -> None:
        """Remember a damaged batch, over restarts. Slow."""
        self.damaged.write(lambda: {**self.damaged.offsets, partition: offset})

    def delete_log(self, partition: TopicPartition) -> Path:
        """Take a log out of service. Gives the folder that holds its files now, for ``remove_folder``.

        OSError if the folder cannot be renamed: the log stays in ``logs``, takes no records, and can be deleted again.
        """
        doomed, failed = self.delete_logs([partition])
        if failed is not None:
            raise failed
        return doomed[0]

    def delete_logs(self, partitions: Collection[TopicPartition]) -> tuple[list[Path], OSError | None]:
        """The same for several logs, with one write of each checkpoint; and the first error. Slow."""
        try:
            # First: a checkpoint that names a partition without a folder means that the folder was lost.
            self.forget(partitions)
        except OSError as error:
            if not is_shortage(error):
                return [], error
            # Deleting makes room. If the broker dies before they are written, it takes for lost what nobody counts.
            logger.warning("checkpoints still name deleted logs: partitions=%s error=%s", partitions, error)
        doomed, failed = [], None
        for partition in partitions:
            try:
                doomed.append(self._take_out_of_service(partition))
            except OSError as error:
                logger.warning("log could not be deleted: partition=%s error=%s", partition, error)
                failed = failed or error
        if doomed:
            self._sync_deletions(doomed)
        return doomed, failed

    def _sync_deletions(self, doomed: Collection[Path]) -> None:
        try:
            sync_folder(self.folder)
        except OSError as error:
            if not is_shortage(error):
                raise
            # After a power cut the folders may be back, as those of partitions which nobody counts this broker for.
            logger.warning("deletions not synced: folders=%d error=%s", len(doomed), error)

    def _take_out_of_service(self, partition: TopicPartition) -> Path:
        log = self.logs[partition]
        log.discard()
        suffix = f".{uuid.uuid4().hex}{DELETE_SUFFIX}"
        doomed = self.folder / (log.folder.name[: FILE_NAME_MAX - len(suffix)] + suffix)
        log.folder.rename(doomed)
        del self.logs[partition]
        logger.info("log deleted: partition=%s topic_id=%s", partition, log.topic_id)
        return doomed

    def remove_folder(self, doomed: Path) -> None:
        """Remove the files of a deleted log. Slow."""
        # Invariant: nothing is removed that delete_log has not renamed.
        assert _DOOMED.fullmatch(doomed.name)
        shutil.rmtree(doomed, ignore_errors=True)

    def checkpoint_recovery_points(self) -> None:
        """Note how far each log is on disk. Slow."""
        self._write(self._recovery_points, lambda: {key: log.flushed_up_to for key, log in dict(self.logs).items()})

    def checkpoint_log_start_offsets(self) -> None:
        """Note where each log starts. Slow."""
        self._write(self._log_starts, lambda: {key: log.log_start_offset for key, log in dict(self.logs).items()})

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Note the high watermarks, none past the end of its log. Slow."""

        def current() -> dict[TopicPartition, int]:
            logs = dict(self.logs)
            return {key: min(high_watermarks[key], logs[key].safe_end) for key in high_watermarks.keys() & logs.keys()}

        self._write(self._high_watermarks, current)

    def close(self) -> None:
        """Close all logs, write the checkpoints and, if nothing went wrong, the clean-shutdown marker. Slow."""
        try:
            with ThreadPoolExecutor(RECOVERY_THREADS, "close-log") as threads:
                closed = list(threads.map(_close_log, self.logs.values()))
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            if all(closed):
                self._marker.write()
            logger.info("data folder closed: folder=%s clean=%s", self.folder, all(closed))
        finally:
            self._lock.release()

    def _open_logs(self, config_for: Callable[[str], LogConfig]) -> None:
        for path in self.folder.iterdir():
            if _DOOMED.fullmatch(path.name):
                self.remove_folder(path)
        found, index_format = _partition_folders(self.folder), IndexFormat(self.folder)
        with ThreadPoolExecutor(RECOVERY_THREADS, "open-log") as threads:
            for partition, outcome in zip(
                found, threads.map(lambda key: self._open_log(key, config_for, index_format), found), strict=True
            ):
                if isinstance(outcome, Log):
                    self.logs[partition] = outcome
                elif outcome is not None:
                    self.failed[partition] = outcome
        index_format.mark(len(found))

    def _compare_with_checkpoints(self) -> None:
        """Find partitions that have lost records, remember them, and let no checkpoint claim what is gone.

        Recovery points and log start offsets name every partition that had a folder; high watermarks may name others.
        """
        known = self._recovery_points.offsets.keys() | self._log_starts.offsets.keys()
        losses = {
            partition: self._loss(Loss.FOLDER, partition) for partition in known - self.logs.keys() - self.failed.keys()
        }
        for partition, log in self.logs.items():
            if self._ends_too_early(partition, log.log_end_offset):
                losses[partition] = self._loss(Loss.END, partition)
            elif not self.unclean and log.log_start_offset > self._log_starts.offsets.get(partition, OFFSET_MAX):
                # Not after a crash: retention may have deleted segments and not noted it.
                losses[partition] = self._loss(Loss.START, partition)
        self.lost.add(losses)
        self.lost.remove(
            [key for key, lost in self.lost.losses.items() if key in self.logs and self._is_back(key, lost)]
        )
        for partition, lost in self.lost.losses.items():
            logger.error(
                "partition lost records, it leaves the ISR until it has copied them from a leader: partition=%s missing=%s "
                "log_end_offset=%s expected=%d",
                partition, lost.loss.value,
                self.logs[partition].log_end_offset if partition in self.logs else "none", lost.expected_end,
            )  # fmt: skip
        ends = {partition: log.log_end_offset for partition, log in self.logs.items()}
        for checkpoint in (self._recovery_points, self._high_watermarks):
            checkpoint.lower_all(ends)

    def _loss(self, loss: Loss, partition: TopicPartition) -> Lost:
        ends = (self._recovery_points, self._high_watermarks)
        return Lost(loss, max(checkpoint.offsets.get(partition, 0) for checkpoint in ends))

    def _is_back(self, partition: TopicPartition, lost: Lost) -> bool:
        """Whether somebody has put back what was missing. An empty log is what this broker itself has made in its place."""
        return lost.loss is not Loss.START and self.logs[partition].log_end_offset >= max(lost.expected_end, 1)

    def _ends_too_early(self, partition: TopicPartition, log_end_offset: int) -> bool:
        """Whether a log ends before a checkpoint. After a power cut only what was flushed is sure to be there."""
        if log_end_offset < self._recovery_points.offsets.get(partition, 0):
            return True
        return not self._after_power_cut and log_end_offset < self._high_watermarks.offsets.get(partition, 0)

    def _open_log(
        self, partition: TopicPartition, config_for: Callable[[str], LogConfig], index_format: IndexFormat
    ) -> Log | str | None:
        """None if the folder is nobody's: made just before a power cut, and empty."""
        folder = self.folder / str(partition)
        try:
            topic_id = read_topic_id(folder)
            if topic_id is None:
                return "the folder does not tell its topic id" if holds_records(folder) else None
            index_format.remove_old(folder)
            return Log.open(
                folder,
                topic_id,
                config_for(partition.topic),
                clean=not self.unclean,
                recovery_point=self._recovery_points.offsets.get(partition, 0),
                log_start_offset=self._log_starts.offsets.get(partition, 0),
                precautions=self._precautions(partition),
                producer_memory=self.producer_memory,
                open_files=self.open_files,
            )
        except (OSError, OttlaError, ValueError) as error:
            logger.error("log failed to open: partition=%s error=%s", partition, error)
            return str(error)

    def _precautions(self, partition: TopicPartition) -> Precautions:
        def before_truncation(offset: int) -> None:
            self._recovery_points.lower(partition, offset)
            # Or what comes there next would be taken for deleted after a crash.
            self._log_starts.lower(partition, offset)
            self._high_watermarks.lower(partition, offset)  # or the log would look as if it had lost records

        def before_cut(report: RecoveryReport) -> None:
            if self._ends_too_early(partition, report.log_end_offset):
                self.lost.add({partition: self._loss(Loss.END, partition)})
            if report.damaged or report.log_end_offset < self._high_watermarks.offsets.get(partition, 0):
                self._marker.suspect()
            self._recovery_points.lower(partition, report.log_end_offset)

        return Precautions(before_truncation, before_cut, self._names.sync)

    def _write(self, checkpoint: OffsetCheckpoint, current: Callable[[], Mapping[TopicPartition, int]]) -> None:
        # What is known of partitions that could not be opened, or that nobody leads or follows yet, must outlive this run.
        def known() -> dict[TopicPartition, int]:
            return {key: value for key, value in checkpoint.offsets.items() if key in self.failed or key in self.logs}

        # Both are looked at once nobody else writes: what was lowered or forgotten meanwhile must not come back.
        checkpoint.write(lambda: {**known(), **current()})


def _partition_folders(folder: Path) -> list[TopicPartition]:
    found = (partition_of(path.name) for path in folder.iterdir() if path.is_dir())
    return sorted(partition for partition in found if partition is not None)


def _close_log(log: Log) -> bool:
    was_failed = log.failed
    try:
        log.close()
    except StorageError as error:
        logger.error("log failed to close: folder=%s error=%s", log.folder, error)
        return False
    return not was_failed
