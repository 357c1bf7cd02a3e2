"""Requests that wait for something to happen: acks for the high watermark, fetches of consumers for records.

Kafka's pattern: an operation that cannot complete is watched under the keys of its partitions and tried again whenever
one of its keys is touched. Touching is cheap and may happen many times in one turn; operations are tried once, at its end.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from ottla.net.reply import Later, Reply, Turn
from ottla.wire.errors import OttlaError, UnknownServerError

logger = logging.getLogger(__name__)


SPARE_DEADLINES = 1000
"""How many deadlines of operations that are done may be kept: so long no time is spent on throwing them away."""


Deadline = list[Any]
"""When, a number that no other has, and the operation; None for one that is done, whose answer must not be kept for it."""


class Waiting(Later):
    """One operation: ``attempt`` gives its result or None, ``give_up`` what it results in when time is over."""

    __slots__ = ("_purgatory", "attempt", "deadline", "give_up", "keys")

    def __init__(
        self,
        purgatory: "Purgatory",
        attempt: Callable[[], Reply | None],
        give_up: Callable[[], Reply],
        keys: tuple[Hashable, ...],
    ) -> None:
        self.reply = None
        self.abandoned = False
        self.held_back = False
        self.on_given = None
        self.on_abandoned = None
        self._purgatory = purgatory
        self.attempt = attempt
        self.give_up = give_up
        self.keys = keys
        self.deadline: Deadline = [0.0, 0, None]

    def give(self, reply: Reply) -> None:
        if self.reply is None and not self.abandoned:  # Invariant: an operation completes once
            self._purgatory.remove(self)
            self.reply = reply
            if self.on_given is not None:
                self.on_given()

    def abandon(self) -> None:
        if self.open:
            self._purgatory.remove(self)
            super().abandon()

    def try_again(self) -> None:
        if self.open:
            self._purgatory.try_again(self)


class Purgatory:
    """All operations of one kind that wait."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._watched: dict[Hashable, dict[Waiting, None]] = {}
        self._touched: dict[Hashable, None] = {}
        self._again: dict[Waiting, None] = {}
        self._deadlines: list[Deadline] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0

    def wait(
        self,
        attempt: Callable[[], Reply | None],
        give_up: Callable[[], Reply],
        keys: Iterable[Hashable],
        timeout_s: float,
    ) -> Waiting:
        """Wait until ``attempt`` gives a result or ``timeout_s`` is over; the caller has made the first attempt itself."""
        operation = Waiting(self, attempt, give_up, tuple(dict.fromkeys(keys)))
        watched = self._watched
        for key in operation.keys:
            watchers = watched.get(key)
            if watchers is None:
                watched[key] = {operation: None}
            else:
                watchers[operation] = None
        self.size += 1
        self._set_deadline(operation, timeout_s)
        return operation

    def touch(self, key: Hashable) -> None:
        """Something happened to ``key``: those who watch it are tried at the end of this turn."""
        if key in self._watched:
            if not self._touched:
                self._turn.put_off(self._try_touched)
            self._touched[key] = None

    def try_again(self, operation: Waiting) -> None:
        """What kept this one, and not its keys, has changed."""
        self._again[operation] = None
        self._turn.put_off(self._try_touched)

    def remove(self, operation: Waiting) -> None:
        """Watch an operation no more. Its deadline may stay in the heap, and means nothing when it comes."""
        self.size -= 1
        operation.deadline[2] = None
        for key in operation.keys:
            watchers = self._watched[key]
            del watchers[operation]
            if not watchers:
                del self._watched[key]

    def _try_touched(self) -> None:
        touched, self._touched = self._touched, {}
        again, self._again = self._again, {}
        if again:
            tried = list(again | {operation: None for key in touched for operation in self._watched.get(key, ())})
        elif len(touched) == 1:
            (key,) = touched
            tried = list(self._watched.get(key, ()))
        else:
            tried = list(dict.fromkeys([operation for key in touched for operation in self._watched.get(key, ())]))
        for operation in tried:
            if operation.open:
                _complete(operation, operation.attempt)

    # --- deadlines: one timer for all, for nearly every operation completes long before its own ---------------------------

    def _set_deadline(self, operation: Waiting, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._count += 1
        entry = operation.deadline = [loop.time() + timeout_s, self._count, operation]
        if len(self._deadlines) > 2 * self.size + SPARE_DEADLINES:
            self._deadlines = [known for known in self._deadlines if known[2] is not None]
            heapify(self._deadlines)
        heappush(self._deadlines, entry)
        if self._deadlines[0] is entry:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(entry[0], self._time_is_over)

    def _time_is_over(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._deadlines and (self._deadlines[0][2] is None or self._deadlines[0][0] <= now):
            operation = heappop(self._deadlines)[2]
            if operation is not None:
                _complete(operation, operation.give_up)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._deadlines[0][0], self._time_is_over) if self._deadlines else None


class Located(Protocol):
    """A partition, as far as those who wait for it need it."""

    @property
    def where(self) -> Hashable: ...


class Purgatories:
    """All that there are, with one turn: whoever serves them ends it. (Followers' fetches wait in their fetch sessions.)"""

    def __init__(self, turn: Turn) -> None:
        self.produce = Purgatory(turn)
        """Produce requests, until their records are committed."""
        self.fetch = Purgatory(turn)
        """Fetches of consumers, until more records are committed."""
        self.heartbeat = Purgatory(turn)
        """Heartbeats of groups' members, until they must join again."""
        self.delete_records = Purgatory(turn)
        """Deletions of records, until every replica in sync has heard of them."""

    def partition_changed(self, partition: Located) -> None:
        """More of it is committed, or it is not what it was."""
        where = partition.where
        self.produce.touch(where)
        self.fetch.touch(where)

    def start_changed(self, partition: Located) -> None:
        """A replica begins later, or the partition is not what it was."""
        self.delete_records.touch(partition.where)


def _complete(operation: Waiting, result_of: Callable[[], Reply | None]) -> None:
    try:
        reply = result_of()
    except OttlaError as error:
        reply = Reply(None, error=error)
    except Exception:
        logger.exception("a waiting request failed keys=%s", operation.keys)
        reply = Reply(None, error=UnknownServerError("the broker's log has the details"))
    if reply is not None:
        try:
            operation.give(reply)
        except Exception:  # of whoever is to have it: the others that are tried with it must not wait for that
            logger.exception("an answer could not be given keys=%s", operation.keys)
