"""Leaders whose disk failed: the controller is asked for others, until it has found some or the broker is restarted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.broker.replication.partition import Partition
from ottla.net.retry import backoff
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0


class FailureLoop:
    """Owns a task while there is something to ask for. ``ask`` tells the controller which partitions failed."""

    def __init__(self, ask: Callable[[list[TopicPartition]], Awaitable[None]]) -> None:
        self._ask = ask
        self._failed: set[Partition] = set()
        self._task: asyncio.Task[None] | None = None

    def partition_changed(self, partition: Partition) -> None:
        """Something happened to a partition."""
        if partition.log.failed and partition.is_leader and partition not in self._failed:
            self._failed.add(partition)
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._run(), name="failures")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        for wait_s in backoff(FIRST_RETRY_S, LAST_RETRY_S):
            self._failed = {partition for partition in self._failed if partition.is_leader}
            if not self._failed:
                break
            names = sorted(partition.where for partition in self._failed)
            logger.warning("disk failed, another leader is asked for partitions=%s", names)
            try:
                await self._ask(names)
            except OttlaError as error:
                logger.info("no other leader yet error=%s", error)
            except Exception:  # a loop that ended by itself would leave a leader that cannot lead
                logger.exception("asking for another leader failed")
            await asyncio.sleep(wait_s)
        self._task = None
