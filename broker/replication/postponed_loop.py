"""Partitions whose log could not be made for want of disk space or descriptors: tried again until there is enough."""

import asyncio
import logging

from ottla.broker.replication.partitions import Partitions
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class PostponedLoop:
    """Owns a task while there is something to try again."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._task: asyncio.Task[None] | None = None
        partitions.on_postponed = self.begin

    def begin(self) -> None:
        """There is something."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="postponed partitions")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        is_done = False
        while not is_done:
            await asyncio.sleep(RETRY_S)
            try:
                is_done = await self._partitions.apply_postponed()
            except (OSError, OttlaError) as error:
                logger.info("postponed partitions wait error=%s", error)
            except Exception:  # a loop that ended by itself would leave partitions without a leader
                logger.exception("postponed partitions could not be taken")
