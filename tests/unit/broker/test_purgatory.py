"""Operations that wait complete once: when what they wait for happens, or when time is over."""

import asyncio

import pytest

from ottla.broker.replication.purgatory import Purgatory

FOREVER_S = 60.0


def never() -> str:
    raise AssertionError("time was not over")


@pytest.fixture
def purgatory() -> Purgatory[str]:
    return Purgatory()


async def turn() -> None:
    """Let the loop do what is due now, twice: callbacks of futures come a turn later."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_can_complete_at_once_does(purgatory):
    future = purgatory.wait(lambda: "done", never, ["a"], FOREVER_S)
    assert future.done()
    assert await future == "done"
    await turn()
    assert purgatory.size == 0


async def test_a_touched_key_tries_those_who_watch_it_and_nobody_else(purgatory):
    tried = []
    for key in ("a", "b"):
        purgatory.wait(lambda key=key: tried.append(key), never, [key], FOREVER_S)
    assert tried == ["a", "b"]
    purgatory.touch("b")
    purgatory.touch("nobody's")
    await turn()
    assert tried == ["a", "b", "b"]
    assert purgatory.size == 2


async def test_many_touches_in_one_turn_are_one_attempt(purgatory):
    attempts = []
    purgatory.wait(lambda: attempts.append(1), never, ["a", "b"], FOREVER_S)
    for _ in range(100):
        purgatory.touch("a")
        purgatory.touch("b")
    await turn()
    assert len(attempts) == 2


async def test_an_operation_completes_when_its_condition_holds_at_last(purgatory):
    results: list[str] = []
    future = purgatory.wait(lambda: results[0] if results else None, never, ["a"], FOREVER_S)
    purgatory.touch("a")
    await turn()
    assert not future.done()
    results.append("committed")
    purgatory.touch("a")
    assert await future == "committed"
    await turn()
    assert purgatory.size == 0


async def test_when_time_is_over_the_operation_gives_up(purgatory):
    assert await purgatory.wait(lambda: None, lambda: "too late", ["a"], 0.001) == "too late"
    await turn()
    assert purgatory.size == 0


async def test_an_attempt_that_fails_fails_its_own_operation_only(purgatory):
    broken: list[bool] = []

    def attempt() -> None:
        if broken:
            raise ValueError("not leader any more")

    failing = purgatory.wait(attempt, never, ["a"], FOREVER_S)
    other = purgatory.wait(lambda: "fine" if broken else None, never, ["a"], FOREVER_S)
    broken.append(True)
    purgatory.touch("a")
    with pytest.raises(ValueError, match="not leader"):
        await failing
    assert await other == "fine"


async def test_a_cancelled_operation_is_never_tried_again(purgatory):
    attempts = []
    future = purgatory.wait(lambda: attempts.append(1), never, ["a"], FOREVER_S)
    future.cancel()
    await turn()
    purgatory.touch("a")
    await turn()
    assert len(attempts) == 1
    assert purgatory.size == 0
