"""The CPU time that single callbacks of an event loop take: no request of one client may keep the loop for long."""

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator

from tests.support.machine import LOAD_ALLOWANCE, slowness

CALLBACK_MAX_S = 0.02
"""CPU time of the loop's thread in one callback, on the reference machine, where all that is compiled is."""

PURE_FACTOR = 3.0
"""What is compiled takes so much longer as plain Python, as which edited files run."""


class LoopTimes:
    """What callbacks of this process's asyncio loop took. (uvloop's own handles cannot be watched.)"""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.longest = ""

    def note(self, seconds: float, handle: asyncio.Handle) -> None:
        if seconds > self.longest_s:
            self.longest_s, self.longest = seconds, repr(handle)[:300]


@contextlib.contextmanager
def loop_times() -> Iterator[LoopTimes]:
    """Measures while it is open. Garbage is collected before, and not meanwhile: brokers do it seldom (node.py)."""
    times = LoopTimes()
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        times.note(time.thread_time() - began, handle)

    gc.collect()
    gc.disable()
    asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]
    try:
        yield times
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        gc.enable()


@contextlib.contextmanager
def no_long_callback(allowed_s: float = CALLBACK_MAX_S) -> Iterator[None]:
    """Fails if a callback takes more CPU time than is allowed, as the machine is."""
    with loop_times() as times:
        yield
    most = allowed_s * PURE_FACTOR * max(1.0, slowness() / LOAD_ALLOWANCE)
    assert times.longest_s <= most, (
        f"{times.longest_s * 1000:.0f} ms of CPU time, allowed {most * 1000:.0f}: {times.longest}"
    )
