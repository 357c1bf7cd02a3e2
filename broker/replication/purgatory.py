"""Requests that wait for something to happen to a partition: fetches for records, acks for the high watermark.

Kafka's pattern: an operation that cannot complete is watched under the keys of its partitions, tried once more (what it
waits for may have happened meanwhile), and tried again whenever one of its keys is touched. Touching is cheap and may
happen many times in one turn of the event loop; operations are tried once, at the end of the turn.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

R = TypeVar("R")


class Waiting(Generic[R]):
    """One operation: ``attempt`` gives its result or None, ``give_up`` what it results in when time is over."""

    __slots__ = ("attempt", "future", "give_up", "keys", "timer")

    def __init__(
        self,
        attempt: Callable[[], R | None],
        give_up: Callable[[], R],
        keys: tuple[Hashable, ...],
        future: asyncio.Future[R],
    ) -> None:
        self.attempt = attempt
        self.give_up = give_up
        self.keys = keys
        self.future = future
        self.timer: asyncio.TimerHandle | None = None


class Purgatory(Generic[R]):
    """All operations of one kind that wait."""

    def __init__(self) -> None:
        self._watched: dict[Hashable, dict[Waiting[R], None]] = {}
        self._touched: dict[Hashable, None] = {}
        self._scheduled = False
        self.size = 0

    def wait(
        self, attempt: Callable[[], R | None], give_up: Callable[[], R], keys: Iterable[Hashable], timeout_s: float
    ) -> asyncio.Future[R]:
        """Wait until ``attempt`` gives a result, ``timeout_s`` is over, or the future is cancelled."""
        loop = asyncio.get_running_loop()
        operation = Waiting(attempt, give_up, tuple(keys), loop.create_future())
        for key in operation.keys:
            self._watched.setdefault(key, {})[operation] = None
        self.size += 1
        operation.timer = loop.call_later(timeout_s, self._time_is_over, operation)
        operation.future.add_done_callback(lambda _: self._remove(operation))
        self._try(operation)
        return operation.future

    def touch(self, key: Hashable) -> None:
        """Something happened to ``key``: those who watch it are tried at the end of this turn."""
        if key in self._watched:
            self._touched[key] = None
            if not self._scheduled:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._try_touched)

    def _try_touched(self) -> None:
        self._scheduled = False
        touched, self._touched = self._touched, {}
        tried: dict[Waiting[R], None] = {}
        for key in touched:
            tried.update(self._watched.get(key, {}))
        for operation in tried:
            self._try(operation)

    def _try(self, operation: Waiting[R]) -> None:
        self._complete(operation, operation.attempt)

    def _time_is_over(self, operation: Waiting[R]) -> None:
        self._complete(operation, operation.give_up)

    def _complete(self, operation: Waiting[R], result_of: Callable[[], R | None]) -> None:
        if operation.future.done():  # Invariant: an operation completes once
            return
        try:
            result = result_of()
        except Exception as error:
            operation.future.set_exception(error)
            return
        if result is not None:
            operation.future.set_result(result)

    def _remove(self, operation: Waiting[R]) -> None:
        self.size -= 1
        if operation.timer is not None:
            operation.timer.cancel()
        for key in operation.keys:
            watchers = self._watched.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self._watched[key]
