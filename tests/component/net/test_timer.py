"""Timers on uvloop, which knows no timers of less than half a millisecond."""

import asyncio

from ottla.net.timer import Timer


async def test_a_timer_knows_its_time_even_if_that_has_come() -> None:
    loop = asyncio.get_running_loop()
    assert not hasattr(loop.call_at(loop.time(), lambda: None), "when"), (
        "uvloop has changed: Timer is not needed any more"
    )
    rung: list[float] = []
    for seconds in (-1.0, 0.0, 0.0001, 0.01):
        when = loop.time() + seconds
        assert Timer(when, lambda: rung.append(loop.time())).when == when
    await asyncio.sleep(0.05)
    assert len(rung) == 4


async def test_a_timer_that_is_cancelled_does_not_ring() -> None:
    rung: list[bool] = []
    for seconds in (0.0, 0.01):
        Timer(asyncio.get_running_loop().time() + seconds, lambda: rung.append(True)).cancel()
    await asyncio.sleep(0.03)
    assert not rung
