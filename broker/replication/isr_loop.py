"""Who is in sync, written to ZooKeeper: followers that caught up join, followers that fell behind leave."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from ottla.broker.peers import Identity
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.state import Change, Isr, LeaderState
from ottla.wire.errors import OttlaError, StaleBrokerEpoch
from ottla.wire.names import TopicPartition
from ottla.zk.isr_notifications import notify_isr_change
from ottla.zk.metadata import PartitionStateChange, read_partition_state, write_isr
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.topics import PartitionStateZnode

logger = logging.getLogger(__name__)

IN_FLIGHT = 64
RETRY_S = 0.2


class IsrLoop:
    """Owns a task from ``start`` to ``stop``."""

    def __init__(
        self, session: ZkSession, identity: Callable[[], Identity], partitions: Iterable[Partition], lag_max_s: float
    ) -> None:
        self._session = session
        self._identity = identity
        self._partitions = partitions
        self._lag_max_s = lag_max_s
        self._candidates: dict[TopicPartition, Partition] = {}
        self._unsettled: dict[TopicPartition, Partition] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.shrinks = 0
        self.expands = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="isr")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def may_have_caught_up(self, partition: Partition) -> None:
        """A follower of this partition may have caught up."""
        self._candidates[partition.where] = partition
        self._wake.set()

    def partition_changed(self, partition: Partition) -> None:
        """Its role or its settings are not what they were: perhaps some are eligible who should be so no more."""
        if partition.leading is not None and partition.leading.elr_outlived(partition.min_insync):
            self.may_have_caught_up(partition)

    async def _run(self) -> None:
        next_check = time.monotonic() + self._lag_max_s / 2
        while True:
            wait_s = RETRY_S if self._unsettled else max(0.0, next_check - time.monotonic())
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._settle()
                await self._let_in()
                if time.monotonic() >= next_check:
                    next_check = time.monotonic() + self._lag_max_s / 2
                    await self._throw_out()
            except Exception:
                logger.exception("the isr loop failed")
                await asyncio.sleep(RETRY_S)

    async def _let_in(self) -> None:
        candidates, self._candidates = self._candidates, {}
        asked = []
        for partition in candidates.values():
            leading = partition.leading
            if leading is None:
                continue
            if leading.elr_outlived(partition.min_insync):
                asked.append((partition, leading, leading.ask_to_clear_elr()))
                continue
            for replica in leading.followers:
                if partition.may_join(replica):
                    asked.append((partition, leading, leading.ask_to_join(replica, partition.min_insync)))
                    break
        await self._write_all(asked)

    async def _throw_out(self) -> None:
        """Who has fallen behind leaves."""
        now = time.monotonic()
        asked = []
        for partition in list(self._partitions):
            leading = partition.leading
            if leading is None or leading.change is not None:
                continue
            laggards = leading.laggards(partition.log.log_end_offset, now, self._lag_max_s)
            if any(map(partition.may_join, leading.followers)):
                self.may_have_caught_up(partition)  # whoever could not be let in when it fetched
            self.partition_changed(partition)
            if laggards:
                logger.info("followers are behind partition=%s brokers=%s", partition.where, sorted(laggards))
                asked.append((partition, leading, leading.ask_to_leave(laggards, partition.min_insync)))
        await self._write_all(asked)

    async def _write_all(self, asked: list[tuple[Partition, LeaderState, Change]]) -> None:
        for start in range(0, len(asked), IN_FLIGHT):
            await asyncio.gather(*(self._write(*one) for one in asked[start : start + IN_FLIGHT]))
        changed = [partition.where for partition, leading, change in asked if leading.change is None]
        if changed:
            try:
                await notify_isr_change(self._session, changed)
            except OttlaError as error:
                logger.info("isr change was not announced error=%s", error)

    async def _write(self, partition: Partition, leading: LeaderState, change: Change) -> None:
        identity = self._identity()
        epochs = {identity.broker_id: identity.broker_epoch}
        if change.joining is not None:
            epochs[change.joining] = change.joining_epoch  # Invariant [I6]: only the life that fetched may join
        state = PartitionStateZnode(
            identity.broker_id, leading.leader_epoch, partition.controller_epoch, change.members, change.elr
        )
        try:
            version = await write_isr(
                self._session, PartitionStateChange(partition.where, state, leading.isr.version, epochs)
            )
        except OttlaError as error:
            # Invariant [I2]: until ZooKeeper has told what stands there, both the old and the new ISR must be obeyed.
            logger.info("isr change unsettled partition=%s error=%s", partition.where, error)
            if isinstance(error, StaleBrokerEpoch):
                leading.life_is_over(change)
            self._unsettled[partition.where] = partition
            return
        self._settled(partition, leading, Isr(change.members, version, change.elr))

    def _settled(self, partition: Partition, leading: LeaderState, isr: Isr) -> None:
        if partition.leading is not leading or isr.version < leading.isr.version:
            return  # the controller was quicker
        before = leading.isr.members
        leading.settled(isr)
        partition.version = max(partition.version, isr.version)
        if len(isr.members) > len(before):
            self.expands += 1
        elif len(isr.members) < len(before):
            self.shrinks += 1
        logger.info("isr changed partition=%s isr=%s version=%d", partition.where, list(isr.members), isr.version)
        partition.flushed()  # the high watermark may move, and those who wait for it
        if any(map(partition.may_join, leading.followers)):
            # One at a time: the next one, or one that was not let in, need not fetch again for it.
            self.may_have_caught_up(partition)

    async def _settle(self) -> None:
        """Read the truth about changes whose fate is unknown."""
        unsettled, self._unsettled = self._unsettled, {}
        for where, partition in unsettled.items():
            leading = partition.leading
            if leading is None or leading.change is None:
                continue
            try:
                await self._session.sync("/")
                found = await read_partition_state(self._session, where)
            except OttlaError:
                self._unsettled[where] = partition
                continue
            if found is None or found.state.leader_epoch != leading.leader_epoch:
                continue  # another leader epoch: the controller will say so; until then the superset stands
            self._settled(partition, leading, Isr(found.state.isr, found.version, found.state.elr))
