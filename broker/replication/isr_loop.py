"""Who is in sync, written to ZooKeeper: followers that caught up join, followers that fell behind leave."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from ottla.broker.peers import Identity
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.state import Change, Isr, LeaderState
from ottla.wire.errors import OttlaError, StaleBrokerEpoch
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.zk.isr_notifications import notify_isr_change
from ottla.zk.metadata import PartitionStateChange, read_partition_state, write_isr
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.topics import PartitionStateZnode

logger = logging.getLogger(__name__)

IN_FLIGHT = 64
RETRY_S = 0.2

Asked = tuple[Partition, LeaderState, Change]
"""A change of the ISR that was asked for in one leader epoch of a partition."""


class IsrLoop:
    """Owns a task from ``start`` to ``stop``, and another one while there are changes whose outcome is unknown."""

    def __init__(
        self, session: ZkSession, identity: Callable[[], Identity], partitions: Iterable[Partition], lag_max_s: float
    ) -> None:
        self._session = session
        self._identity = identity
        self._partitions = partitions
        self._lag_max_s = lag_max_s
        self._candidates: dict[TopicPartition, Partition] = {}
        self._unsettled: dict[TopicPartition, Asked] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self.shrinks = 0
        self.expands = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="isr")

    async def stop(self) -> None:
        tasks = [task for task in (self._task, self._settling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
            try:
                async with asyncio.timeout(max(0.0, next_check - time.monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
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

    async def _write_all(self, asked: list[Asked]) -> None:
        for start in range(0, len(asked), IN_FLIGHT):
            batch = asked[start : start + IN_FLIGHT]
            await asyncio.gather(*(self._write(*one) for one in batch))
            # After every batch: what the controller knows of the others does not wait for all of them.
            await self._notify([partition.where for partition, leading, _ in batch if leading.change is None])

    async def _notify(self, changed: list[TopicPartition]) -> None:
        """Let the controller know which partitions have another ISR."""
        if changed:
            try:
                await notify_isr_change(self._session, changed)
            except OttlaError as error:
                logger.info("isr change was not announced error=%s", error)

    async def _write(self, partition: Partition, leading: LeaderState, change: Change) -> None:
        if partition.leading is not leading:
            return  # it leads in another epoch by now, or not at all
        identity = self._identity()
        # Invariant [I10]: only the incarnation that was told to lead writes. One that registered since then is told anew.
        own_epoch = leading.broker_epoch if leading.broker_epoch != NO_EPOCH else identity.broker_epoch
        epochs = {identity.broker_id: own_epoch}
        if change.joining is not None:
            epochs[change.joining] = change.joining_epoch  # Invariant [I6]: only the life that fetched may join
        state = PartitionStateZnode(
            identity.broker_id, leading.leader_epoch, partition.controller_epoch, change.members, change.elr,
            leader_broker_epoch=own_epoch,
        )  # fmt: skip
        try:
            version = await write_isr(
                self._session, PartitionStateChange(partition.where, state, leading.isr.version, epochs)
            )
        except OttlaError as error:
            # Invariant [I2]: until ZooKeeper has told what stands there, both the old and the new ISR must be obeyed.
            logger.info("isr change unsettled partition=%s error=%s", partition.where, error)
            if isinstance(error, StaleBrokerEpoch):
                leading.life_is_over(change)
            self._unsettled[partition.where] = (partition, leading, change)
            if self._settling is None or self._settling.done():
                self._settling = asyncio.get_running_loop().create_task(self._settle_all(), name="isr settling")
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

    async def _settle_all(self) -> None:
        """Read the truth about changes whose outcome is unknown, until there are none. Other changes go on meanwhile."""
        while self._unsettled:
            try:
                await self._settle()
            except OttlaError as error:
                logger.info("isr changes stay unsettled count=%d error=%s", len(self._unsettled), error)
            except Exception:
                logger.exception("settling isr changes failed")
            if self._unsettled:
                await asyncio.sleep(RETRY_S)

    async def _settle(self) -> None:
        """One sync for all of them, then reads, a bounded number at once."""
        # Where the controller was quicker there is nothing to settle; a change since then has an outcome of its own.
        self._unsettled = {where: asked for where, asked in self._unsettled.items() if _is_open(*asked)}
        unknown = list(self._unsettled.values())
        await self._session.sync("/")
        for start in range(0, len(unknown), IN_FLIGHT):
            batch = unknown[start : start + IN_FLIGHT]
            states = await asyncio.gather(
                *(read_partition_state(self._session, one.where) for one, _, _ in batch), return_exceptions=True
            )
            changed = []
            for asked, found in zip(batch, states, strict=True):
                partition, leading, _ = asked
                if isinstance(found, BaseException):  # it stays unsettled, and keeps no other from being settled
                    logger.info("isr change stays unsettled partition=%s error=%s", partition.where, found)
                    continue
                if self._unsettled.get(partition.where) is asked:
                    del self._unsettled[partition.where]
                if _is_open(*asked) and found is not None and found.state.leader_epoch == leading.leader_epoch:
                    changed += [partition.where] if found.version > leading.isr.version else []
                    self._settled(partition, leading, Isr(found.state.isr, found.version, found.state.elr))
                # In another leader epoch the controller will say so; until then the superset stands.
            await self._notify(changed)


def _is_open(partition: Partition, leading: LeaderState, change: Change) -> bool:
    """Whether a leader still waits for the outcome of this very change."""
    return partition.leading is leading and leading.change is change
