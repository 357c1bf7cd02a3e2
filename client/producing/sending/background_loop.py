"""What a send loop has done in the background: connecting, asking who leads. One task of a kind at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """Owns its tasks; ``on_done`` is called after each."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._stopped = False

    def run(self, key: object, work: Callable[[], Awaitable[None]]) -> None:
        """Do ``work``, unless a task of this kind is running."""
        if key not in self._tasks and not self._stopped:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._run(key, work))

    def stop(self) -> None:
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, key: object, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OttlaError:
            pass  # it is seen again, if it lasts, by whoever waits for the delivery
        except Exception:
            logger.exception("a background task of the send loop failed")
        finally:
            self._tasks.pop(key, None)
        self._on_done()
