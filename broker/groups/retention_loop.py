"""Groups that nobody uses are forgotten, with what they committed."""

import asyncio
import logging
from collections.abc import Callable

from ottla.broker.groups.groups_loop import EMPTY, Groups
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)


class GroupRetention:
    """Owns a task that looks over the groups of this broker, from ``start`` to ``stop``."""

    def __init__(self, groups: Groups, now_ms: Callable[[], int | None]) -> None:
        """``now_ms`` gives None while the clock of this broker is not trusted: then no group is forgotten."""
        self._groups = groups
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group retention")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._groups.limits.check_interval_s)
            try:
                await self.forget_old()
            except OttlaError as error:
                logger.info("groups were not looked over error=%s", error)
            except Exception:
                logger.exception("looking over groups failed")

    async def forget_old(self) -> None:
        """Groups that had no members and committed nothing for offsets.retention.minutes."""
        for name in await self._groups.names():
            try:
                one = await self._groups.get(name, make=False)
                now_ms = self._now_ms()
                if now_ms is None:
                    return
                is_idle = self._groups.idle_ms(one, now_ms) > self._groups.limits.retention_ms
                is_idle = is_idle and not one.writing  # it may have ended just now
                if one.group.state == EMPTY and is_idle:
                    await self._groups.delete(name)
            except OttlaError as error:  # the others are looked at all the same
                logger.info("group was not looked over group=%s error=%s", name, error)
