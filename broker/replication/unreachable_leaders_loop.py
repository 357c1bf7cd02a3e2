"""Leaders that a follower cannot fetch from: the controller is told, as long as that lasts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.broker.replication.fetch_loop import Fetchers
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

CHECK_S = 0.5
REPORT_AGAIN_S = 2.0


class UnreachableLeaders:
    """Owns a task from ``start`` to ``stop``. ``report`` tells the controller which leaders cannot be fetched from."""

    def __init__(
        self, fetchers: Fetchers, report: Callable[[list[int]], Awaitable[None]], silence_max_s: float
    ) -> None:
        self._fetchers = fetchers
        self._report = report
        self._silence_max_s = silence_max_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="unreachable leaders")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            leaders = self._fetchers.unreachable_leaders(self._silence_max_s)
            if leaders:
                await self._tell(leaders)
            await asyncio.sleep(REPORT_AGAIN_S if leaders else CHECK_S)

    async def _tell(self, leaders: list[int]) -> None:
        logger.info("leaders cannot be fetched from leaders=%s", leaders)
        try:
            await self._report(leaders)
        except OttlaError as error:
            logger.info("unreachable leaders could not be reported leaders=%s error=%s", leaders, error)
        except Exception:  # a loop that ended by itself would report nothing any more
            logger.exception("unreachable leaders could not be reported leaders=%s", leaders)
