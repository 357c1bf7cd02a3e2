"""What a broker tells of its data, after the first word at registration: that it was heard, and a new stamp every minute."""

import asyncio
import logging
import time
from collections.abc import Callable

from ottla.broker.data_trust import DataTrust, after_loss
from ottla.broker.membership_loop import MembershipLoop
from ottla.wire.errors import OttlaError
from ottla.zk.broker_znodes import BrokerDataZnode, DataState, StampedFolders
from ottla.zk.membership import mark_reported, read_data, write_data
from ottla.zk.session import ZkSession

logger = logging.getLogger(__name__)

CHECK_S = 0.2
STAMP_S = 60.0
"""How old a copy of a folder may be that is put in its place unnoticed."""

REPLACED = (DataState.LOST, DataState.RETURNED)
"""Other folders are in use than those that ZooKeeper knows: they are stamped only once the controller has acted on it."""


class DataLoop:
    """Owns a task from ``start`` to ``stop``."""

    def __init__(
        self,
        session: ZkSession,
        membership: MembershipLoop,
        trust: DataTrust,
        all_told: Callable[[int], bool],
        waits: Callable[[], bool],
    ) -> None:
        """``all_told``: the controller has spoken of all partitions here in this life. ``waits``: of one nobody leads."""
        self._session = session
        self._membership = membership
        self._trust = trust
        self._all_told = all_told
        self._waits = waits
        self._heard_in = -1  # the life in which the controller has acted on what was said
        self._stamp_at = time.monotonic() + STAMP_S
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="data")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self._look()
            except (OSError, OttlaError) as error:
                logger.warning("data folders were not stamped error=%s", error)
                self._stamp_at = time.monotonic() + STAMP_S
            except Exception:
                logger.exception("looking after data folders failed")

    async def _look(self) -> None:
        membership = self._membership
        life, said = membership.identity.broker_epoch, membership.data
        if not membership.registered:
            return
        if said is not DataState.WHOLE and self._heard_in != life and self._all_told(life):
            # The controller speaks of a partition that is affected only after it has written that this replica does not
            # count there. If this life ends before, the next one says the same again.
            await self._report(life, said)
        elif time.monotonic() >= self._stamp_at and (said not in REPLACED or self._heard_in == life):
            known = await read_data(self._session, membership.identity.broker_id)
            forget = self._all_told(life) and not self._waits()
            await self._stamp(life, known.away if known is not None and not forget else None)

    async def _report(self, life: int, said: DataState) -> None:
        broker_id = self._membership.identity.broker_id
        if said in REPLACED:
            known = await read_data(self._session, broker_id)
            stamped = await asyncio.to_thread(self._trust.stamp)
            data = after_loss(known, said, stamped, self._waits())
            await self._write(life, data)
        if await mark_reported(self._session, broker_id, life):
            await asyncio.to_thread(self._trust.reported)
            self._heard_in = life
            logger.info("the controller has acted on lost data data=%s", said.value)

    async def _stamp(self, life: int, away: StampedFolders | None) -> None:
        await self._write(life, BrokerDataZnode(await asyncio.to_thread(self._trust.stamp), away))

    async def _write(self, life: int, data: BrokerDataZnode) -> None:
        await write_data(self._session, self._membership.identity.broker_id, life, data)
        self._trust.confirmed(data.stamped)
        self._stamp_at = time.monotonic() + STAMP_S
