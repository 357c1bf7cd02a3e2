"""Walks over very many groups give the event loop away in between."""

import asyncio
import time

from ottla.broker.groups.walk import Walk
from tests.support.loop_time import no_long_callback
from tests.support.waiting import eventually


def spend(seconds: float) -> None:
    ends_at = time.thread_time() + seconds
    while time.thread_time() < ends_at:
        pass


async def test_a_walk_visits_all_and_keeps_nobody_waiting() -> None:
    seen: list[int] = []

    def visit(number: int) -> None:
        spend(0.001)
        seen.append(number)
        if number == 7:
            raise ValueError("of one group")

    with no_long_callback():
        await asyncio.sleep(0)
        Walk().over(range(500), visit)
        await eventually(lambda: len(seen) == 500)
    assert seen == list(range(500))


async def test_a_walk_ends_when_it_is_stopped() -> None:
    seen: list[int] = []
    walk = Walk()

    def visit(number: int) -> None:
        spend(0.001)
        seen.append(number)

    walk.over(range(500), visit)
    walk.stop()
    await asyncio.sleep(0.05)
    assert 0 < len(seen) < 20
