"""Staying awake for a moment after traffic, because the answer or the next request is mostly on its way.

Waking a process that sleeps on a core that sleeps costs its waker 50 us and more on many machines, virtual ones above all:
more than the work it is woken for. So an event loop goes on turning for a moment before it sleeps; whoever else wants the
core gets it at every turn. Where others keep it for long, because they compute, whoever gave it away waits as long: then the
loop leaves turning alone for a while. And so it does while much data flows: everybody has enough to do then, and waking is a
small part of it. See docs/decisions/0010.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

BUSY_POLL_MAX_US = 100_000
"""More than a tenth of a second is no moment any more."""

CROWDED_S = 1e-3
"""Away for so long: others compute on this core. Those who only exchange messages give it back sooner."""

BULK: Final = 32 * 1024
"""Who sends or receives so many bytes at once wants throughput."""

BULK_REST_S: Final = 5e-3
"""For how long turning is left alone after that."""

FIRST_REST_S, LAST_REST_S = 0.1, 10.0
"""For how long turning is left alone on a crowded core, the first time, and when that happens again and again."""

_let_others_run: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))
_now: Callable[[], float] = time.perf_counter


class BusyPoll:
    """Of one event loop. ``active`` says that so many bytes were sent, or have come."""

    __slots__ = ("_bulk_until", "_loop", "_rest_s", "_resting_until", "_turning", "_until", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0
        self._turning = False
        self._rest_s = FIRST_REST_S
        self._resting_until = 0.0
        self._bulk_until = 0.0
        self.seconds = 0.0

    def active(self, size: int = 0) -> None:
        if self.seconds:
            now = _now()
            if size >= BULK:
                self._until = 0.0
                self._bulk_until = now + BULK_REST_S
            if now < self._bulk_until:
                return
            self._until = now + self.seconds
            if not self._turning and now >= self._resting_until:
                self._turning = True
                self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        before = _now()
        if before < self._until:
            _let_others_run()
            if _now() - before < CROWDED_S:
                self._loop.call_soon(self._turn)  # with something to do the loop looks for events and does not sleep
                return
            self._rest(before)
        self._turning = False

    def _rest(self, now: float) -> None:
        """Longer each time, until turning did no harm for as long as the last rest took."""
        again = now - self._resting_until < self._rest_s
        self._rest_s = min(2 * self._rest_s, LAST_REST_S) if again else FIRST_REST_S
        self._resting_until = now + self._rest_s


_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, BusyPoll] = WeakKeyDictionary()


def busy_poll() -> BusyPoll:
    """The running event loop's own. It does nothing before ``stay_awake`` was called."""
    loop = asyncio.get_running_loop()
    poller = _pollers.get(loop)
    if poller is None:
        poller = _pollers[loop] = BusyPoll(loop)
    return poller


def stay_awake(microseconds: float) -> None:
    """Have the running event loop stay awake for so long after traffic; the longest that anybody asked for holds."""
    poller = busy_poll()
    poller.seconds = max(poller.seconds, microseconds / 1e6)
