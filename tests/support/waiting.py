"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

import asyncio
import time
from collections.abc import Callable

from tests.support.machine import scaled


async def eventually(condition: Callable[[], bool], timeout_s: float = scaled(10.0)) -> None:
    """Return as soon as the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true after {timeout_s} s"
        await asyncio.sleep(0.01)
