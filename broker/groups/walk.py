"""Walks over many groups in slices of the event loop's time: there may be tens of thousands."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

logger = logging.getLogger(__name__)

SLICE_S: Final = 0.003


class Walk:
    """What is under way. Groups that have come since a walk began are not visited by it, those that went still are."""

    def __init__(self) -> None:
        self._stopped = False

    def over(self, groups: Iterable[Any], visit: Callable[[Any], None]) -> None:
        """Visit each: the first ones at once, the others in the next turns of the event loop."""
        self._go_on(iter(list(groups)), visit)

    def stop(self) -> None:
        self._stopped = True

    def _go_on(self, left: Iterator[Any], visit: Callable[[Any], None]) -> None:
        ends_at = time.perf_counter() + SLICE_S
        for one in left:
            if self._stopped:
                return
            try:
                visit(one)
            except Exception:  # of one group: the others must be visited all the same
                logger.exception("a group could not be looked at")
            if time.perf_counter() > ends_at:
                asyncio.get_running_loop().call_soon(self._go_on, left, visit)
                return
