"""Operations that wait complete exactly once: when what they wait for happens, when time is over, or when nobody cares."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.replication.purgatory import Purgatory
from ottla.wire.errors import StorageError


class Operation:
    """Something that can be made true, and that counts how it was asked."""

    def __init__(self) -> None:
        self.result: str | None = None
        self.attempts = 0
        self.given_up = 0

    def attempt(self) -> str | None:
        self.attempts += 1
        return self.result

    def give_up(self) -> str:
        self.given_up += 1
        return "given up"


def wait(purgatory: Purgatory[str], operation: Operation, *keys: str, timeout_s: float = 60.0) -> "asyncio.Future[str]":
    return purgatory.wait(operation.attempt, operation.give_up, keys, timeout_s)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_operation_completes_when_its_key_is_touched() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    waiting = wait(purgatory, operation, "p")
    await turns()
    assert not waiting.done()
    operation.result = "done"
    await turns()
    assert not waiting.done(), "nobody told the purgatory yet"
    purgatory.touch("p")
    assert await waiting == "done"
    await turns()
    assert purgatory.size == 0
    assert purgatory._watched == {}


async def test_what_happened_between_the_first_try_and_the_watch_is_seen() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    assert operation.attempt() is None  # the handler's own try, which found nothing
    operation.result = "meanwhile"
    purgatory.touch("p")  # nobody watches yet: this touch is lost
    assert await wait(purgatory, operation, "p", timeout_s=5) == "meanwhile"
    assert operation.given_up == 0


async def test_an_operation_completes_once_however_often_it_is_touched() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "q", "r", timeout_s=0.05)
    completions: list[str] = []
    waiting.add_done_callback(lambda done: completions.append(done.result()))
    operation.result = "done"
    for key in ("p", "q", "r", "p"):
        purgatory.touch(key)
    await turns()
    attempts = operation.attempts
    assert attempts == 2, "once when it came, once for all touches of a turn together"
    for key in ("p", "q", "r"):
        purgatory.touch(key)
    await asyncio.sleep(0.1)  # past its timeout
    assert completions == ["done"]
    assert (operation.attempts, operation.given_up) == (attempts, 0)


async def test_many_touches_in_one_turn_cost_one_try() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "q")
    for _ in range(1000):
        purgatory.touch("p")
        purgatory.touch("q")
    await turns()
    assert operation.attempts == 2
    waiting.cancel()


async def test_time_over_gives_up_once_and_removes_it() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    assert await wait(purgatory, operation, "p", timeout_s=0.01) == "given up"
    await turns()
    assert (operation.given_up, purgatory.size, purgatory._watched) == (1, 0, {})


async def test_cancelling_removes_it_and_its_timer() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "q", timeout_s=0.02)
    waiting.cancel()
    await turns()
    assert (purgatory.size, purgatory._watched) == (0, {})
    operation.result = "too late"
    purgatory.touch("p")
    await asyncio.sleep(0.05)
    assert (operation.attempts, operation.given_up) == (1, 0)


async def test_a_failing_attempt_fails_its_own_operation_and_no_other() -> None:
    purgatory: Purgatory[str] = Purgatory()

    def fails_later() -> Callable[[], str | None]:
        calls = iter([None])

        def attempt() -> str | None:
            try:
                return next(calls)
            except StopIteration:
                raise StorageError("the disk") from None

        return attempt

    bad = purgatory.wait(fails_later(), lambda: "given up", ["p"], 60)
    good = Operation()
    waiting = wait(purgatory, good, "p")
    good.result = "fine"
    purgatory.touch("p")
    assert await waiting == "fine"
    with pytest.raises(StorageError):
        await bad
    await turns()
    assert purgatory.size == 0


async def test_other_keys_are_not_tried() -> None:
    purgatory: Purgatory[str] = Purgatory()
    mine, other = Operation(), Operation()
    first, second = wait(purgatory, mine, "p"), wait(purgatory, other, "q")
    purgatory.touch("p")
    await turns()
    assert (mine.attempts, other.attempts) == (2, 1)
    first.cancel()
    second.cancel()


async def test_the_same_key_twice_is_watched_once() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "p")
    operation.result = "done"
    purgatory.touch("p")
    assert await waiting == "done"
    await turns()
    assert (purgatory.size, purgatory._watched) == (0, {})


async def test_an_operation_that_waits_again_inside_an_attempt_is_not_lost() -> None:
    purgatory: Purgatory[str] = Purgatory()
    inner = Operation()
    started: list[asyncio.Future[str]] = []

    def attempt() -> str | None:
        if not started:
            started.append(wait(purgatory, inner, "p"))
        return None

    outer = purgatory.wait(attempt, lambda: "outer over", ["p"], 60)
    inner.result = "inner done"
    purgatory.touch("p")
    assert await started[0] == "inner done"
    assert not outer.done()
    outer.cancel()
