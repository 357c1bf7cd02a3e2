"""The background work on a data folder: retention, checkpoints, and a periodic flush if one is set."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log import Log
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE = 1000
"""Producers that are forgotten before the event loop sees to others."""


@dataclass(frozen=True, slots=True)
class CleanIntervals:
    """How often what is done, in milliseconds; Kafka's names and defaults."""

    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    log_flush_interval_ms: int | None = None


@dataclass(slots=True)
class _Duty:
    work: Callable[[], Awaitable[None]]
    interval_ms: int
    due: float


class CleanLoop:
    """Owns one task, from ``start`` to ``stop``. The methods in between are what the task does, each in its time."""

    def __init__(
        self,
        log_dir: LogDir,
        *,
        high_watermarks: Callable[[], Mapping[TopicPartition, int]],
        leads: Callable[[TopicPartition], bool],
        now_ms: Callable[[], int | None],
        clock: Callable[[], float],
        intervals: CleanIntervals,
        shortened: Callable[[TopicPartition], None] = lambda partition: None,
    ) -> None:
        """``now_ms`` is the time of day that retention compares with, ``clock`` the monotonic one, in seconds.

        While ``now_ms`` gives None, nothing is deleted by age. Limits hold for partitions that this broker
        ``leads``: a follower deletes only what its leader has deleted, whose log start offset comes with its fetches.
        ``shortened`` hears of partitions whose log begins later than before.
        """
        self._log_dir = log_dir
        self._high_watermarks = high_watermarks
        self._leads = leads
        self._now_ms = now_ms
        self._clock = clock
        self._intervals = intervals
        self._shortened = shortened
        self._stopping = False
        self._wake = asyncio.Event()
        self._flush_due = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="clean logs")

    async def stop(self) -> None:
        """End the task once what it is doing is done."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    def flush_sealed_soon(self) -> None:
        """Too many sealed segments keep a descriptor until they are flushed: do not wait for the next checkpoint."""
        self._flush_due = True
        self._wake.set()

    async def apply_retention(self) -> None:
        """Delete segments that are not kept any more, below the high watermark only: where that is unknown, nothing.

        Whether this broker leads is looked up for each partition, right before its segments are chosen.
        """
        high_watermarks = self._high_watermarks()
        for partition, log in list(self._log_dir.logs.items()):
            high_watermark = high_watermarks.get(partition)
            if high_watermark is not None and not log.failed:
                with _one_failing_alone(log):
                    if log.apply_retention(self._now_ms(), up_to=high_watermark, leads=self._leads(partition)):
                        self._shortened(partition)
                        await asyncio.to_thread(log.remove_deleted_files)
        await asyncio.to_thread(self._log_dir.checkpoint_log_start_offsets)

    async def expire_producers(self) -> None:
        """Forget idempotent producers that were silent for producer.id.expiration.ms, some at a time."""
        for log in list(self._log_dir.logs.values()):
            while log.producers.expire(EXPIRED_AT_ONCE):  # noqa: ASYNC110  # others have their turn in between
                await asyncio.sleep(0)

    async def checkpoint_recovery_points(self) -> None:
        """Flush sealed segments, so that a crash costs no more than a look at the active ones, and note how far.

        What is known of producers is saved with them: nothing of that happens at the roll itself, where a producer waits.
        """
        for log in list(self._log_dir.logs.values()):
            with _one_failing_alone(log):
                if log.flushed_up_to < log.sealed_up_to and not log.failed:
                    await asyncio.to_thread(log.flush, sealed_only=True)
                save_producers = log.producers_to_save()
                if save_producers is not None:
                    await asyncio.to_thread(save_producers)
        await asyncio.to_thread(self._log_dir.checkpoint_recovery_points)

    async def checkpoint_high_watermarks(self) -> None:
        """Note the high watermarks."""
        await asyncio.to_thread(self._log_dir.checkpoint_high_watermarks, dict(self._high_watermarks()))

    async def flush(self) -> None:
        """Put everything on disk."""
        for log in list(self._log_dir.logs.values()):
            if log.flushed_up_to < log.log_end_offset and not log.failed:
                with _one_failing_alone(log):
                    await asyncio.to_thread(log.flush)

    def _duties(self) -> list[_Duty]:
        intervals = self._intervals
        plan: list[tuple[Callable[[], Awaitable[None]], int | None]] = [
            (self.apply_retention, intervals.log_retention_check_interval_ms),
            (self.expire_producers, intervals.log_retention_check_interval_ms),
            (self.checkpoint_recovery_points, intervals.log_flush_offset_checkpoint_interval_ms),
            (self.checkpoint_high_watermarks, intervals.replica_high_watermark_checkpoint_interval_ms),
            (self.flush, intervals.log_flush_interval_ms),
        ]
        now = self._clock()
        return [_Duty(work, every, now + every / 1000) for work, every in plan if every is not None]

    async def _run(self) -> None:
        duties = self._duties()
        while True:
            duty = min(duties, key=lambda each: each.due)
            try:
                async with asyncio.timeout(max(0.0, duty.due - self._clock())):
                    await self._wake.wait()
            except TimeoutError:
                await self._do(duty.work)
                duty.due = self._clock() + duty.interval_ms / 1000
            self._wake.clear()
            if self._stopping:
                return
            if self._flush_due:
                self._flush_due = False
                await self._do(self.checkpoint_recovery_points)

    async def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OSError as error:
            # A checkpoint could not be written; the next time it is written anew, from the start.
            logger.error("cleaning failed: duty=%s error=%s", getattr(work, "__name__", work), error)


@contextmanager
def _one_failing_alone(log: Log) -> Iterator[None]:
    """A log that fails, or is deleted meanwhile, does not keep the others from their turn."""
    try:
        yield
    except (OSError, OttlaError) as error:
        logger.error("cleaning failed: folder=%s error=%s", log.folder, error)
