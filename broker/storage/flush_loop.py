"""Group commit, for ``log.flush.policy=durable``: one fdatasync for all who wait for the same log."""

import asyncio
import logging
from concurrent.futures import Executor

from ottla.broker.storage.log import Log
from ottla.wire.errors import NotLeaderOrFollower, OttlaError, StorageError

Waiters = list[tuple[int, asyncio.Future[None]]]

logger = logging.getLogger(__name__)


class Flusher:
    """Flushes logs in threads, each log once at a time; whoever comes meanwhile shares the next flush."""

    def __init__(self, executor: Executor | None = None) -> None:
        """``executor`` runs the flushes; without one, the event loop's own threads do."""
        self._executor = executor
        self._waiters: dict[Log, Waiters] = {}
        self._tasks: dict[Log, asyncio.Task[None]] = {}

    async def durable(self, log: Log, offset: int) -> None:
        """Return when all records before ``offset`` are on disk.

        StorageError if the flush failed; NotLeaderOrFollower if the records were cut meanwhile.
        """
        if log.flushed_up_to >= offset:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(log, []).append((offset, waiter))
        if log not in self._tasks:
            self._tasks[log] = asyncio.create_task(self._run(log), name=f"flush {log.folder.name}")
        await waiter

    async def close(self) -> None:
        """Wait until nobody waits any more."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _run(self, log: Log) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiters.get(log):
                await loop.run_in_executor(self._executor, log.flush)
                self._answer(log)
        except OttlaError as error:
            self._give_up(log, error)
        except BaseException as error:
            # Nobody may wait for ever, whatever it was; the waiters cannot know if their records are on disk.
            self._give_up(log, StorageError(f"{log.folder}: flushing ended: {error!r}"))
            raise
        finally:
            self._waiters.pop(log, None)
            del self._tasks[log]

    def _answer(self, log: Log) -> None:
        still: Waiters = []
        for offset, waiter in self._waiters[log]:
            if waiter.done():
                continue
            if offset <= log.flushed_up_to:
                waiter.set_result(None)
            elif offset > log.log_end_offset:
                waiter.set_exception(NotLeaderOrFollower(f"the log was cut before offset {offset} was on disk"))
            else:
                still.append((offset, waiter))
        self._waiters[log] = still

    def _give_up(self, log: Log, error: OttlaError) -> None:
        for _, waiter in self._waiters.pop(log, []):
            if not waiter.done():
                waiter.set_exception(error)
