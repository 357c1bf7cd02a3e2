"""What a broker tells of its data, after the first word at registration: that it was heard, and a new stamp every minute."""

import asyncio
import logging
import time
from collections.abc import Callable

from ottla.broker.data_trust import DataTrust
from ottla.broker.membership_loop import MembershipLoop
from ottla.wire.errors import OttlaError
from ottla.zk.membership import mark_reported, write_data
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.brokers import DataState

logger = logging.getLogger(__name__)

CHECK_S = 0.2
STAMP_S = 60.0
"""How old a copy of a folder may be that is put in its place unnoticed."""


class DataLoop:
    """Owns a task from ``start`` to ``stop``."""

    def __init__(
        self,
        session: ZkSession,
        membership: MembershipLoop,
        trust: DataTrust,
        all_told: Callable[[int], bool],
        waited_for: Callable[[], bool],
        resume: Callable[[], None],
    ) -> None:
        """``all_told``: the controller has spoken of all partitions here in this life. ``waited_for``: one of them has no
        leader for want of what was on a lost disk. ``resume``: follow, if that was held back."""
        self._session = session
        self._membership = membership
        self._trust = trust
        self._all_told = all_told
        self._waited_for = waited_for
        self._resume = resume
        self._heard_in = -1  # the life in which the controller has acted on what was said
        self._stamp_at = time.monotonic() + STAMP_S
        self._heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def controller_spoke(self) -> None:
        """Perhaps it has acted on what was said."""
        self._heard.set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="data")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._heard.wait()
            except TimeoutError:
                pass
            self._heard.clear()
            try:
                await self._look()
            except (OSError, OttlaError) as error:
                logger.warning("data folders were not stamped error=%s", error)
                self._stamp_at = time.monotonic() + STAMP_S
            except Exception:
                logger.exception("looking after data folders failed")

    async def _look(self) -> None:
        membership = self._membership
        broker_epoch = membership.identity.broker_epoch
        if not membership.registered:
            return
        is_whole = membership.data is DataState.WHOLE and not membership.has_losses
        if not is_whole and self._heard_in != broker_epoch:
            # The controller speaks of a partition that is affected only after it has written that this replica does not
            # count there. If this life ends before, the next one says the same again.
            if self._all_told(broker_epoch):
                await self._report(broker_epoch)
        elif time.monotonic() >= self._stamp_at:
            await self._stamp(broker_epoch)

    async def _report(self, broker_epoch: int) -> None:
        """Invariant [I14]: folders that took the place of lost ones are stamped, and only then take records that count,
        when nobody waits for the lost ones any more: should those come back before, they are still whole."""
        membership = self._membership
        if membership.data is DataState.LOST:
            if self._waited_for():
                return
            await self._stamp(broker_epoch)
        if await mark_reported(self._session, membership.identity.broker_id, broker_epoch):
            await asyncio.to_thread(self._trust.reported)
            self._heard_in = broker_epoch
            logger.info(
                "the controller has acted on lost data data=%s lost_partitions=%d",
                membership.data.value, len(membership.lost_partitions),
            )  # fmt: skip
            membership.held = False
            self._resume()

    async def _stamp(self, broker_epoch: int) -> None:
        data = await asyncio.to_thread(self._trust.stamp)
        await write_data(self._session, self._membership.identity.broker_id, broker_epoch, data)
        self._trust.confirmed(data)
        self._stamp_at = time.monotonic() + STAMP_S
