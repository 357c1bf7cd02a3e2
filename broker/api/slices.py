"""Long work on the event loop, cut into slices: whoever else has something to do gets the loop between two of them.

State may change at each ``rest``: who leads a partition, whether a session or a connection still is. Look again after it.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

SLICE_S: Final = 0.003
"""How long a slice is. What one step of the work takes may come on top."""

T = TypeVar("T")
R = TypeVar("R")


class Slices:
    """The time of one piece of work.

    Only a long request may rest: its connection handles no other request meanwhile. Short requests of one connection may be
    pipelined, and one that rested would be overtaken by the next: their handlers give ``enabled=False``.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._ends_at = time.perf_counter() + SLICE_S if enabled else math.inf

    async def rest(self) -> None:
        """Call it after every step: gives the loop away if the slice is over."""
        if time.perf_counter() >= self._ends_at:
            await asyncio.sleep(0)
            self._ends_at = time.perf_counter() + SLICE_S


async def in_slices(do: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What ``do`` gives for each."""
    slices = Slices()
    results: list[R] = []
    for item in items:
        results.append(do(item))
        await slices.rest()
    return results
