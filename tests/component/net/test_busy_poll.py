"""After traffic an event loop stays awake for a moment, lets others run meanwhile, and then sleeps."""

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import cast

import pytest

from ottla.net.busy_poll import BULK, BULK_REST_S, FIRST_REST_S, LAST_REST_S, BusyPoll, busy_poll, stay_awake
from tests.support.machine import scaled


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does meanwhile, the core does not seem crowded."""
    monkeypatch.setattr("ottla.net.busy_poll.CROWDED_S", 3600.0)


async def turns_within(seconds: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often this event loop turned, and let others run, while it had nothing to do but to wait."""
    turns = itertools.count()
    monkeypatch.setattr("ottla.net.busy_poll._let_others_run", lambda: next(turns))
    await asyncio.sleep(seconds)
    return next(turns)


async def test_loop_sleeps_at_once_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    busy_poll().active()
    assert await turns_within(0.05, monkeypatch) == 0


async def test_loop_turns_for_the_time_and_then_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    stay_awake(30_000)
    busy_poll().active()
    assert await turns_within(0.1, monkeypatch) > 10
    assert await turns_within(0.1, monkeypatch) == 0, "what is over is over"


async def test_loop_sleeps_while_much_data_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("ottla.net.busy_poll._now", lambda: clock[0])
    stay_awake(30_000)
    poller = busy_poll()
    poller.active(100)
    assert poller._turning
    poller.active(BULK)
    assert await turns_within(0.05, monkeypatch) == 0
    poller.active(100)
    assert not poller._turning, "what is small in between is part of it"
    clock[0] += 2 * BULK_REST_S
    poller.active(100)
    assert poller._turning
    clock[0] += 1.0
    await asyncio.sleep(0.01)


async def test_traffic_meanwhile_prolongs_it_and_does_not_double_it() -> None:
    stay_awake(100_000)
    poller = busy_poll()
    began = time.perf_counter()
    for _ in range(5):
        poller.active()
        await asyncio.sleep(0.01)
    assert poller._turning
    while poller._turning:
        assert time.perf_counter() - began < scaled(5)
        await asyncio.sleep(0.005)


async def test_longest_wish_of_all_who_share_a_loop_holds() -> None:
    stay_awake(500)
    stay_awake(100)
    stay_awake(0)
    assert busy_poll().seconds == pytest.approx(0.0005)


class Crowd:
    """A core that others keep for ``keeps_s`` whenever they get it, and the clock by which that is seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.keeps_s = 0.0
        self.turns = 0
        self.scheduled: list[Callable[[], object]] = []
        monkeypatch.setattr("ottla.net.busy_poll.CROWDED_S", 1e-3)
        monkeypatch.setattr("ottla.net.busy_poll._now", lambda: self.now)
        monkeypatch.setattr("ottla.net.busy_poll._let_others_run", self.run)
        self.poller = BusyPoll(cast(asyncio.AbstractEventLoop, self))
        self.poller.seconds = 200e-6

    def call_soon(self, work: Callable[[], object]) -> None:
        self.scheduled.append(work)

    def run(self) -> None:
        self.turns += 1
        self.now += self.keeps_s or 10e-6

    def turns_after_traffic(self) -> int:
        before = self.turns
        self.poller.active()
        while self.scheduled:
            self.scheduled.pop()()
        return self.turns - before


def test_a_crowded_core_is_left_to_the_others_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch)
    assert crowd.turns_after_traffic() > 10, "200 us of turns of 10 us"
    crowd.keeps_s = 4e-3
    assert crowd.turns_after_traffic() == 1, "one is enough to see it"
    assert crowd.turns_after_traffic() == 0
    crowd.keeps_s = 0.0
    assert crowd.turns_after_traffic() == 0, "it may be over, but to look would cost milliseconds if it is not"
    crowd.now += FIRST_REST_S
    assert crowd.turns_after_traffic() > 10


def test_rests_grow_while_the_core_stays_crowded_and_begin_anew_when_it_was_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(monkeypatch)

    def rest() -> float:
        """How long the next turn on the crowded core makes it rest."""
        crowd.keeps_s = 4e-3
        assert crowd.turns_after_traffic() == 1
        began = crowd.now
        while not crowd.turns_after_traffic():
            crowd.keeps_s = 0.0
            crowd.now += 0.01
        return crowd.now - began

    rests = [rest() for _ in range(9)]
    assert rests == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10], abs=0.02)
    crowd.now += LAST_REST_S
    assert rest() == pytest.approx(FIRST_REST_S, abs=0.02)


async def test_others_are_served_while_the_loop_is_awake() -> None:
    stay_awake(50_000)
    busy_poll().active()
    async with asyncio.timeout(scaled(5)):
        assert await asyncio.to_thread(lambda: 42) == 42
        reader, writer = await asyncio.open_connection(*(await echo()).sockets[0].getsockname())
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        writer.close()


async def echo() -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)
