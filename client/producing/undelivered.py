"""Failed deliveries that nobody asks about: told in the log, with how many, which topic and why, and not for each record."""

import asyncio
import logging
import threading
import time
import weakref
from collections import deque

from ottla.client.loop_thread import after_clients
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

QUIET_S = 5.0
"""A producer that fails at everything tells of it so often, with the count of what failed meanwhile."""


class FailedBatch:
    """Stands by a batch that failed. When the batch goes and somebody has not asked about all of its records, that is told.

    Who asks, asks the batch; the batch goes when nobody holds a delivery of it any more.
    """

    __slots__ = ("__weakref__", "_asked", "_count", "_error", "_topic", "_untold")

    def __init__(self, topic: str, count: int, error: OttlaError, untold: "Untold") -> None:
        self._topic = topic
        self._count = count
        self._error = error
        self._asked: set[int] = set()
        self._untold = untold

    def asked(self, index: int) -> None:
        """Somebody knows what became of one of its records,"""
        self._asked.add(index)

    def asked_all(self) -> None:
        """or of all of them."""
        self._count = 0

    def tell(self) -> None:
        count, self._count = self._count - len(self._asked), 0
        if count > 0:
            self._untold.add(self._topic, count, self._error)

    def __del__(self) -> None:
        self.tell()


class Untold:
    """Failures of one producer on their way to the log.

    Garbage is collected in any thread and in the middle of anything: nothing here waits for a lock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._news: deque[tuple[str, int, OttlaError]] = deque()
        self._telling = threading.Lock()
        self._quiet_until = float("-inf")
        self._timer_set = False
        self._open: weakref.WeakSet[FailedBatch] = weakref.WeakSet()
        _all.add(self)

    def failed(self, topic: str, count: int, error: OttlaError) -> FailedBatch:
        """A batch failed, and nobody has asked about it yet."""
        batch = FailedBatch(topic, count, error, self)
        self._open.add(batch)
        return batch

    def add(self, topic: str, count: int, error: OttlaError) -> None:
        self._news.append((topic, count, error))
        if time.monotonic() >= self._quiet_until:
            self.tell()
        elif not self._timer_set:
            self._timer_set = True
            try:
                self._loop.call_soon_threadsafe(self._loop.call_later, QUIET_S, self.tell)
            except RuntimeError:
                self._timer_set = False  # the event loop is closed: told at the end

    def tell(self) -> None:
        """Tell what is known to be nobody's: one line for each topic and kind of error."""
        if not self._telling.acquire(blocking=False):
            return  # who holds it tells
        try:
            self._timer_set = False
            found: dict[tuple[str, type[OttlaError]], tuple[int, OttlaError]] = {}
            while self._news:
                topic, count, error = self._news.popleft()
                before, _ = found.get((topic, type(error)), (0, error))
                found[topic, type(error)] = before + count, error
            for (topic, kind), (count, error) in found.items():
                self._quiet_until = time.monotonic() + QUIET_S
                logger.warning(
                    "records were not delivered count=%d topic=%s reason=%s: %s", count, topic, kind.__name__, error
                )
        finally:
            self._telling.release()

    def tell_all(self) -> None:
        """The process ends: what nobody has asked about will not be asked about."""
        for batch in list(self._open):
            batch.tell()
        self.tell()


_all: "weakref.WeakSet[Untold]" = weakref.WeakSet()


def _tell_everything() -> None:
    for untold in list(_all):
        untold.tell_all()


after_clients.append(_tell_everything)
