"""Where logs begin, on disk: noted soon after records were deleted, for all partitions of a data folder at once."""

import asyncio
import logging
from collections.abc import Sequence

from ottla.broker.replication.partition import Partition
from ottla.broker.storage.data_folder.log_dir import LogDir

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class LogStartLoop:
    """A task for each data folder in which something is to be noted: one that takes nothing any more holds up no other."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        self._folders = [_FolderLoop(log_dir) for log_dir in log_dirs]

    def start_moved(self, partition: Partition) -> None:
        for folder in self._folders:
            if folder.has(partition):
                folder.start_moved(partition)

    async def stop(self) -> None:
        await asyncio.gather(*(folder.stop() for folder in self._folders))


class _FolderLoop:
    """Owns a task while there is something to be noted. Nobody is told of a deletion before it survives a crash."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self._moved: dict[Partition, None] = {}
        self._task: asyncio.Task[None] | None = None

    def has(self, partition: Partition) -> bool:
        return self._log_dir.logs.get(partition.where) is partition.log

    def start_moved(self, partition: Partition) -> None:
        self._moved[partition] = None
        if self._task is None or self._task.done():
            name = f"log starts of {self._log_dir.folder}"
            self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._moved:
            starts = {partition: partition.log.log_start_offset for partition in self._moved if self.has(partition)}
            self._moved.clear()
            try:
                await asyncio.to_thread(self._log_dir.checkpoint_log_start_offsets)
            except Exception as error:
                unforeseen = None if isinstance(error, OSError) else error
                logger.error(
                    "log starts were not noted, and will be folder=%s error=%r", self._log_dir.folder, error,
                    exc_info=unforeseen,
                )  # fmt: skip
                self._moved.update(dict.fromkeys(starts))
                await asyncio.sleep(RETRY_S)
                continue
            for partition, start in starts.items():
                partition.keep_start(start)
