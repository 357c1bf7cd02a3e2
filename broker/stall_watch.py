"""How long the event loop keeps everybody waiting: a timer notes how late it is called.

All clients of a broker share one event loop. No request may keep it for more than 20 ms (decision 52); this is how
operators see it when something does, be it a request, the disk, another process or the machine.
"""

import asyncio
import time
from typing import Final

from ottla.broker.metrics import Timing

PERIOD_S: Final = 0.05


class StallWatch:
    """``start`` it on the loop that is to be watched."""

    def __init__(self, stalls: Timing) -> None:
        self._stalls = stalls
        self._due = 0.0
        self._cpu = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._longest_s = self._longest_cpu_s = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due, self._cpu = loop.time() + PERIOD_S, time.thread_time()
        self._timer = loop.call_at(self._due, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def take_longest(self) -> tuple[float, float]:
        """The longest stall since this was asked last, and the longest of the loop thread's own CPU time."""
        longest = self._longest_s, self._longest_cpu_s
        self._longest_s = self._longest_cpu_s = 0.0
        return longest

    def _tick(self) -> None:
        late_s = max(0.0, asyncio.get_running_loop().time() - self._due)
        busy_s = min(late_s, time.thread_time() - self._cpu)  # what others kept the processor for is not ours
        self._stalls.observe(late_s)
        self._longest_s = max(self._longest_s, late_s)
        self._longest_cpu_s = max(self._longest_cpu_s, busy_s)
        self.start()
