"""Partitions whose records count only once they are on disk: flushed whenever they have grown, and told when that is done."""

import asyncio
import logging

from ottla.broker.replication.partition import Partition
from ottla.broker.storage.flush_loop import Flusher
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)


class DurablePartitions:
    """One flush of a partition at a time; what comes meanwhile shares the next (group commit)."""

    def __init__(self, flusher: Flusher) -> None:
        self._flusher = flusher
        self._tasks: dict[Partition, asyncio.Task[None]] = {}

    def partition_grown(self, partition: Partition) -> None:
        """Something happened to a partition: if it is durable and has records that are not on disk, put them there."""
        if partition.durable and partition.is_leader and _unsafe(partition) and partition not in self._tasks:
            self._tasks[partition] = asyncio.get_running_loop().create_task(self._flush(partition))

    async def _flush(self, partition: Partition) -> None:
        try:
            while _unsafe(partition) and partition.is_leader:
                await self._flusher.durable(partition.log, partition.log.log_end_offset)
                partition.flushed()
        except OttlaError as error:
            logger.error("partition is not flushed partition=%s error=%s", partition.where, error)
            partition.flushed()  # those who wait for it must hear that its log failed
        finally:
            del self._tasks[partition]


def _unsafe(partition: Partition) -> bool:
    return not partition.log.failed and partition.log.flushed_up_to < partition.log.log_end_offset
