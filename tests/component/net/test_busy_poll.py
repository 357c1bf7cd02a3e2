"""After traffic an event loop stays awake for a moment, lets others run meanwhile, and then sleeps."""

import asyncio
import itertools
import time

import pytest

from ottla.net.busy_poll import busy_poll, stay_awake


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


async def test_traffic_meanwhile_prolongs_it_and_does_not_double_it() -> None:
    stay_awake(20_000)
    poller = busy_poll()
    began = time.perf_counter()
    for _ in range(5):
        poller.active()
        await asyncio.sleep(0.01)
    assert poller._turning
    while poller._turning:
        assert time.perf_counter() - began < 5
        await asyncio.sleep(0.005)


async def test_longest_wish_of_all_who_share_a_loop_holds() -> None:
    stay_awake(500)
    stay_awake(100)
    stay_awake(0)
    assert busy_poll().seconds == pytest.approx(0.0005)


async def test_others_are_served_while_the_loop_is_awake() -> None:
    stay_awake(50_000)
    busy_poll().active()
    async with asyncio.timeout(5):
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
