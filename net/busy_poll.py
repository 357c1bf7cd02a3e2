"""Staying awake for a moment after traffic, because the answer or the next request is mostly on its way.

Waking a process that sleeps on a core that sleeps costs its waker 50 us and more on many machines, virtual ones above all:
more than the work it is woken for. So an event loop goes on turning for a moment before it sleeps; whoever else wants the
core gets it at every turn. See docs/decisions/0010.
"""

import asyncio
import os
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

BUSY_POLL_MAX_US = 100_000
"""More than a tenth of a second is no moment any more."""

_let_others_run: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))
_now = time.perf_counter


class BusyPoll:
    """Of one event loop. ``active`` says that something was sent, or has come."""

    __slots__ = ("_loop", "_turning", "_until", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0
        self._turning = False
        self.seconds = 0.0

    def active(self) -> None:
        if self.seconds:
            self._until = _now() + self.seconds
            if not self._turning:
                self._turning = True
                self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if _now() < self._until:
            _let_others_run()
            self._loop.call_soon(self._turn)  # with something to do the loop looks for events and does not sleep
        else:
            self._turning = False


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
