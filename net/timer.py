"""A timer that knows its time. uvloop's own do not, where less than half a millisecond is left: they are no timers any more."""

import asyncio
from collections.abc import Callable


class Timer:
    """Calls ``work`` when the event loop's clock says ``when``, unless it is cancelled before."""

    __slots__ = ("_handle", "when")

    def __init__(self, when: float, work: Callable[[], None]) -> None:
        self.when = when
        self._handle = asyncio.get_running_loop().call_at(when, work)

    def cancel(self) -> None:
        self._handle.cancel()
