"""Forgets named writes that nobody goes on with; on the broker that is the controller, so that one does it."""

import asyncio
import logging
from collections.abc import Callable

from ottla.wire.errors import OttlaError
from ottla.zk.named_writes import expire_ended, expire_writes
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)

CHECK_S_MAX = 3600.0

ENDED_KEPT_MS = 24 * 3600 * 1000
"""How long it is known of a write that it has ended: no attempt at one of its tasks can be on its way for longer."""


class NamedWritesLoop:
    """Owns a task from ``start`` to ``stop``."""

    def __init__(
        self, session: ZkSession, in_charge: Callable[[], bool], expiration_ms: int, now_ms: Callable[[], int | None]
    ) -> None:
        """``in_charge``: whether this broker is the controller; ``now_ms``: None while its clock is not trusted."""
        self._session = session
        self._in_charge = in_charge
        self._expiration_ms = expiration_ms
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="named writes")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(self._expiration_ms / 4000, CHECK_S_MAX))
            try:
                if self._in_charge():
                    await self._forget()
            except OttlaError as error:
                logger.info("named writes were not looked over error=%s", error)
            except Exception:
                logger.exception("looking over named writes failed")

    async def _forget(self) -> None:
        now_ms = self._now_ms()
        if now_ms is None:
            return
        expired = await expire_writes(self._session, now_ms - self._expiration_ms)
        ended = await expire_ended(self._session, now_ms - min(self._expiration_ms, ENDED_KEPT_MS))
        if expired or ended:
            logger.info("named writes forgotten tasks=%d ended_writers=%d", expired, ended)
