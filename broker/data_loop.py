"""What a broker tells of its data, after the first word at registration: that it was heard, and a new stamp every minute."""

import asyncio
import logging
import uuid
from collections.abc import Callable

from ottla.broker.data_trust import DataTrust
from ottla.broker.membership_loop import MembershipLoop
from ottla.net.retry import backoff
from ottla.wire.errors import OttlaError
from ottla.zk.broker_znodes import DataState
from ottla.zk.membership import mark_reported, write_data
from ottla.zk.session import ZkSession

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
        ready: Callable[[], bool],
        leaderless: Callable[[], bool],
    ) -> None:
        """``ready``: the controller has spoken of all partitions here. ``leaderless``: of one it waits for our records."""
        self._session = session
        self._membership = membership
        self._trust = trust
        self._ready = ready
        self._leaderless = leaderless
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="data")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        said, life = self._membership.data, self._membership.identity.broker_epoch
        heard = said is DataState.WHOLE or await self._report(life)
        if said is DataState.LOST:
            if not heard:
                return  # a restart says it again
            # While a partition waits for what was here, the right folder may be put back yet: it must be known then.
            await _until(lambda: not self._leaderless())
            await self._stamp()
        while True:
            await asyncio.sleep(STAMP_S)
            if self._membership.data is said:  # another folder of this broker has been in use since, if not
                await self._stamp()

    async def _report(self, life: int) -> bool:
        """Wait until the controller has acted on what was said at registration, and note that.

        It speaks of a partition that is affected only after it has written that this replica does not count there. If
        this life ends before, the next one says the same again, and nobody here knows whether that was heard: False.
        """
        await _until(self._ready)
        for wait_s in backoff(CHECK_S, CHECK_S):
            if self._membership.identity.broker_epoch != life:
                break
            try:
                await mark_reported(self._session, self._membership.identity.broker_id, life)
                await asyncio.to_thread(self._trust.reported)
                logger.info("the controller has acted on lost data data=%s", self._membership.data.value)
                return True
            except (OSError, OttlaError) as error:
                logger.info("not noted that lost data was reported error=%s", error)
                await asyncio.sleep(wait_s)
        return False

    async def _stamp(self) -> None:
        identity = self._membership.identity
        if not self._membership.registered:
            return
        try:
            data = await asyncio.to_thread(self._trust.stamp, uuid.uuid4().hex)
            await write_data(self._session, identity.broker_id, identity.broker_epoch, data)
        except (OSError, OttlaError) as error:
            logger.warning("data folders were not stamped error=%s", error)


async def _until(condition: Callable[[], bool]) -> None:
    for wait_s in backoff(CHECK_S, CHECK_S):
        if condition():
            return
        await asyncio.sleep(wait_s)
