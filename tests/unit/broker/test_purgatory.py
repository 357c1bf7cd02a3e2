"""Operations that wait complete exactly once: when what they wait for happens, when time is over, or when nobody cares."""

import asyncio
from functools import partial

import pytest

from ottla.broker.purgatory import SPARE_DEADLINES, Purgatory, Waiting
from ottla.net.reply import Reply, Turn
from ottla.wire.errors import StorageError, UnknownServerError
from ottla.wire.messages import Done

DONE = Reply(Done())
GIVEN_UP = Reply(None, error=StorageError("given up"))


class Operation:
    """Something that can be made true, and that counts how it was asked."""

    def __init__(self) -> None:
        self.result: Reply | None = None
        self.attempts = 0
        self.given_up = 0

    def attempt(self) -> Reply | None:
        self.attempts += 1
        return self.result

    def give_up(self) -> Reply:
        self.given_up += 1
        return GIVEN_UP


@pytest.fixture
def purgatory() -> Purgatory:
    return Purgatory(Turn())


def wait(purgatory: Purgatory, operation: Operation, *keys: str, timeout_s: float = 60.0) -> Waiting:
    return purgatory.wait(operation.attempt, operation.give_up, keys, timeout_s)


def empty(purgatory: Purgatory) -> bool:
    return purgatory.size == 0 and not purgatory._watched


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def given(waiting: Waiting, timeout_s: float = 5.0) -> Reply:
    arrived = asyncio.Event()
    waiting.on_given = arrived.set
    if waiting.reply is None:
        async with asyncio.timeout(timeout_s):
            await arrived.wait()
    assert waiting.reply is not None
    return waiting.reply


async def test_an_operation_completes_when_its_key_is_touched(purgatory: Purgatory) -> None:
    operation = Operation()
    waiting = wait(purgatory, operation, "p")
    operation.result = DONE
    await turns()
    assert waiting.reply is None, "nobody told the purgatory yet"
    purgatory.touch("p")
    assert waiting.reply is None, "not before the turn is over"
    await turns()
    assert waiting.reply is DONE
    assert empty(purgatory)


async def test_within_a_turn_operations_are_tried_at_its_end_without_waiting_for_the_loop() -> None:
    turn = Turn()
    purgatory = Purgatory(turn)
    operation = Operation()
    waiting = wait(purgatory, operation, "p")
    operation.result = DONE
    turn.begin()
    for _ in range(3):
        purgatory.touch("p")
    assert waiting.reply is None
    turn.end()
    assert waiting.reply is DONE
    assert operation.attempts == 1


async def test_what_a_completion_touches_is_tried_in_the_same_turn() -> None:
    turn = Turn()
    purgatory = Purgatory(turn)
    first, second = Operation(), Operation()
    one, two = wait(purgatory, first, "p"), wait(purgatory, second, "q")
    first.result = second.result = DONE
    one.on_given = lambda: purgatory.touch("q")
    turn.begin()
    purgatory.touch("p")
    turn.end()
    assert (one.reply, two.reply) == (DONE, DONE)


async def test_an_operation_completes_once_however_often_it_is_touched(purgatory: Purgatory) -> None:
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "q", "r", timeout_s=0.05)
    completions: list[Reply | None] = []
    waiting.on_given = lambda: completions.append(waiting.reply)
    operation.result = DONE
    for key in ("p", "q", "r", "p"):
        purgatory.touch(key)
    await turns()
    assert operation.attempts == 1, "once for all touches of a turn together"
    for key in ("p", "q", "r"):
        purgatory.touch(key)
    waiting.give(GIVEN_UP)
    await asyncio.sleep(0.1)  # past its timeout
    assert completions == [DONE]
    assert (operation.attempts, operation.given_up) == (1, 0)


async def test_time_over_gives_up_once_and_removes_it(purgatory: Purgatory) -> None:
    operation = Operation()
    assert await given(wait(purgatory, operation, "p", timeout_s=0.01)) is GIVEN_UP
    await turns()
    assert operation.given_up == 1
    assert empty(purgatory)


async def test_each_gives_up_at_its_own_time_whatever_the_order_they_came_in(purgatory: Purgatory) -> None:
    order: list[int] = []
    waiting = {number: wait(purgatory, Operation(), "p", timeout_s=0.03 * number + 0.01) for number in (3, 1, 2, 0)}
    for number, later in waiting.items():
        later.on_given = partial(order.append, number)
    assert await given(wait(purgatory, Operation(), "p", timeout_s=0.2)) is GIVEN_UP
    assert order == [0, 1, 2, 3]
    assert empty(purgatory)


async def test_a_deadline_after_many_that_never_came_is_still_kept(purgatory: Purgatory) -> None:
    for _ in range(100):
        operation = Operation()
        wait(purgatory, operation, "p", timeout_s=0.02)
        operation.result = DONE
        purgatory.touch("p")
        await turns()
    last = Operation()
    assert await given(wait(purgatory, last, "p", timeout_s=0.05)) is GIVEN_UP
    assert purgatory._deadlines == []


async def test_abandoning_removes_it(purgatory: Purgatory) -> None:
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "q", timeout_s=0.02)
    waiting.abandon()
    assert empty(purgatory)
    operation.result = DONE
    purgatory.touch("p")
    await asyncio.sleep(0.05)
    assert (operation.attempts, operation.given_up, waiting.reply) == (0, 0, None)


@pytest.mark.parametrize(
    ("raised", "told"), [(StorageError("the disk"), StorageError), (KeyError(), UnknownServerError)]
)
async def test_a_failing_attempt_fails_its_own_operation_and_no_other(
    purgatory: Purgatory, raised: Exception, told: type[Exception]
) -> None:
    def fail() -> Reply | None:
        raise raised

    bad = purgatory.wait(fail, lambda: GIVEN_UP, ["p"], 60)
    good = Operation()
    waiting = wait(purgatory, good, "p")
    good.result = DONE
    purgatory.touch("p")
    assert await given(waiting) is DONE
    assert isinstance((await given(bad)).error, told)
    assert empty(purgatory)


async def test_other_keys_are_not_tried(purgatory: Purgatory) -> None:
    mine, other = Operation(), Operation()
    wait(purgatory, mine, "p")
    wait(purgatory, other, "q")
    purgatory.touch("p")
    await turns()
    assert (mine.attempts, other.attempts) == (1, 0)


async def test_the_same_key_twice_is_watched_once(purgatory: Purgatory) -> None:
    operation = Operation()
    waiting = wait(purgatory, operation, "p", "p")
    operation.result = DONE
    purgatory.touch("p")
    assert await given(waiting) is DONE
    assert empty(purgatory)


async def test_an_operation_that_waits_again_inside_an_attempt_is_not_lost(purgatory: Purgatory) -> None:
    inner = Operation()
    started: list[Waiting] = []

    def attempt() -> Reply | None:
        if not started:
            started.append(wait(purgatory, inner, "p"))
        return None

    outer = purgatory.wait(attempt, lambda: GIVEN_UP, ["p"], 60)
    purgatory.touch("p")
    await turns()
    inner.result = DONE
    purgatory.touch("p")
    assert await given(started[0]) is DONE
    assert outer.open


async def test_operations_that_are_done_are_not_kept_until_their_time_would_have_been_over(
    purgatory: Purgatory,
) -> None:
    patient = wait(purgatory, Operation(), "q", timeout_s=3600)
    for _ in range(3 * SPARE_DEADLINES):
        wait(purgatory, Operation(), "p", timeout_s=3600).give(DONE)
    assert len(purgatory._deadlines) <= SPARE_DEADLINES + 3
    assert patient in [operation for _, _, operation in purgatory._deadlines]


# --- what fails, fails alone ------------------------------------------------------------------------------------------------


def failing() -> None:
    raise ZeroDivisionError("a bug")


async def test_work_that_fails_ends_the_turn_and_the_rest_is_done_in_the_next() -> None:
    turn, done = Turn(), []
    turn.begin()
    turn.put_off(failing)
    turn.put_off(lambda: done.append("left over"))
    with pytest.raises(ZeroDivisionError):
        turn.end()
    await turns()
    assert done == ["left over"]
    turn.put_off(lambda: done.append("later"))
    await turns()
    assert done == ["left over", "later"]


async def test_an_answer_that_cannot_be_given_keeps_no_other_waiting(purgatory: Purgatory) -> None:
    operations = [Operation() for _ in range(2)]
    first, second = (wait(purgatory, operation, "p") for operation in operations)
    first.on_given = failing
    for operation in operations:
        operation.result = DONE
    purgatory.touch("p")
    await turns()
    assert second.reply is DONE
    late = wait(purgatory, Operation(), "p", timeout_s=0.01)
    late.on_given = failing
    assert await given(wait(purgatory, Operation(), "p", timeout_s=0.05)) is GIVEN_UP
    assert await given(wait(purgatory, Operation(), "p", timeout_s=0.01)) is GIVEN_UP
    assert empty(purgatory)
