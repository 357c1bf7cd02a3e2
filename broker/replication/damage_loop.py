"""Batches that may be damaged on this broker's disk: checked there, and if they are, another replica in sync is asked to lead.

Nobody is believed: a follower that got a damaged batch only says where, and this broker reads its own copy and checks it. What
is damaged is noted on disk before the controller hears of it, so that a restart does not forget it, and the log is cut only
when the controller does not count this replica any more (Partitions). If no other replica is in sync, nothing is thrown away.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from ottla.broker.replication.partition import Damage, Partition
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.disk_health import is_shortage
from ottla.broker.storage.verification import check_stored_batch
from ottla.net.retry import backoff
from ottla.wire.errors import CorruptMessage, OttlaError
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

CHECK_EVERY_S = 1.0
"""How often a batch of a partition is checked at most, whoever asks for it."""

REMEMBERED_MAX = 1000
"""Of how many partitions it is remembered when they were last checked."""

FIRST_RETRY_S, LAST_RETRY_S = 0.1, 10.0


class DamageLoop:
    """Owns a task while there is something to check, or a damaged log that counts."""

    def __init__(self, log_dirs: Sequence[LogDir], ask: Callable[[list[TopicPartition]], Awaitable[None]]) -> None:
        """``ask`` tells the controller which partitions here are damaged."""
        self._log_dirs = log_dirs
        self._ask = ask
        self._suspected: dict[Partition, int] = {}
        self._checked_at: dict[Partition, float] = {}
        self._damaged: set[Partition] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def suspect(self, partition: Partition, offset: int) -> None:
        """The batch at ``offset`` may be damaged: somebody got it so, or could not read it."""
        now = time.monotonic()
        if partition.damage is not None or now - self._checked_at.get(partition, float("-inf")) < CHECK_EVERY_S:
            return
        if len(self._checked_at) >= REMEMBERED_MAX:
            self._checked_at.clear()
        self._checked_at[partition] = now
        self._suspected[partition] = offset
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="damaged batches")

    def suspect_in(self, find: Callable[[str, int], Partition | None], topic: str, number: int, offset: int) -> None:
        """The same for a partition by its name, if this broker still leads it."""
        partition = find(topic, number)
        if partition is not None and partition.is_leader:
            self.suspect(partition, offset)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while self._suspected or self._damaged:
            self._wake.clear()
            if self._suspected:
                waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
            try:
                await self._check_all()
                await self._hand_over()
            except OttlaError as error:
                logger.info("no other leader of damaged partitions yet error=%s", error)
            except Exception:  # a loop that ended by itself would leave a leader that cannot be copied
                logger.exception("damaged partitions could not be handed over")
            try:
                async with asyncio.timeout(next(waits)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _check_all(self) -> None:
        """One batch at a time: that is all that reports can cost."""
        while self._suspected:
            partition, offset = self._suspected.popitem()
            log = partition.log
            if not log.log_start_offset <= offset < log.log_end_offset:
                continue
            epoch = partition.leader_epoch
            damage, why = await _check(partition, offset)
            if why is None:
                logger.info(
                    "batch cannot be checked now, what is noted of it stays: partition=%s offset=%d",
                    partition.where,
                    offset,
                )
                continue
            if partition.leader_epoch != epoch or not log.log_start_offset <= damage.offset < log.log_end_offset:
                continue  # it may have been cut or deleted meanwhile
            if why:
                logger.error(
                    "log is damaged, another replica in sync is asked to take its place: partition=%s offset=%d leader=%d "
                    "error=%s", partition.where, damage.offset, partition.leader, why,
                )  # fmt: skip
                partition.damage = damage
                self._damaged.add(partition)
            else:
                logger.warning(
                    "batch is intact here that was reported as damaged: partition=%s offset=%d", partition.where, offset
                )
                await self._forget(partition)

    async def _hand_over(self) -> None:
        """Ask the controller for all that are noted on disk, until they do not count here any more."""
        for partition in list(self._damaged):
            if partition.damage is not None and partition.damage.offset < partition.log.log_start_offset:
                partition.damage = None  # it was deleted
                await self._forget(partition)
        self._damaged = {
            partition for partition in self._damaged if partition.damage is not None and self._dir_of(partition)
        }
        noted = [partition.where for partition in self._damaged if await self._note(partition)]
        if noted:
            await self._ask(sorted(noted))

    async def _note(self, partition: Partition) -> bool:
        log_dir, damage = self._dir_of(partition), partition.damage
        if log_dir is None or damage is None:
            return False
        if log_dir.damaged.offsets.get(partition.where) != damage.offset:
            try:
                await asyncio.to_thread(log_dir.note_damage, partition.where, damage.offset)
            except OSError as error:
                logger.error("damage was not noted, and will be: partition=%s error=%s", partition.where, error)
                return False
        return partition.damage is not None

    async def _forget(self, partition: Partition) -> None:
        log_dir = self._dir_of(partition)
        if log_dir is not None and partition.where in log_dir.damaged.offsets:
            try:
                await asyncio.to_thread(log_dir.damaged.forget, [partition.where])
            except OSError as error:
                logger.error("damage that is mended was not forgotten: partition=%s error=%s", partition.where, error)

    def _dir_of(self, partition: Partition) -> LogDir | None:
        """The data folder that has the partition; None if it has gone from this broker."""
        for log_dir in self._log_dirs:
            if log_dir.logs.get(partition.where) is partition.log:
                return log_dir
        return None


async def _check(partition: Partition, offset: int) -> tuple[Damage, str | None]:
    """Read the batch from the disk; where it is, and what is wrong with it (None if there are no descriptors to tell)."""
    unknown = Damage(offset, offset + 1)
    try:
        location = partition.log.locate(offset)
        damage = Damage(location.place.base_offset, max(location.place.next_offset, offset + 1))
        return damage, await asyncio.to_thread(check_stored_batch, location)
    except CorruptMessage as error:
        return unknown, str(error)
    except FileNotFoundError:
        return unknown, ""  # retention was quicker
    except OSError as error:
        return unknown, None if is_shortage(error) else str(error)
