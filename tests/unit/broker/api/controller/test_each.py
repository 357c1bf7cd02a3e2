"""Many things in one request: what fails does so alone."""

import asyncio

from ottla.broker.api.controller.each import Outcome, each
from ottla.broker.controller.api import Asked
from ottla.wire.errors import InvalidRequest, InvalidTopic, RequestTimedOut

ASKED = Asked("a test", 10.0)


class Doing:
    """Notes what is done; what is called ``bad`` fails, and what is called ``slow`` takes all the time there is."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.left_s: list[float] = []

    async def do(self, name: str, asked: Asked) -> str:
        self.done.append(name)
        self.left_s.append(asked.timeout_s)
        if name == "bad":
            raise InvalidTopic("because")
        if name == "slow":
            await asyncio.sleep(asked.timeout_s)
        return name.upper()


def codes(outcomes: list[Outcome]) -> list[int]:
    return [outcome.error_code for outcome in outcomes]


async def test_one_that_fails_does_not_keep_the_others_from_being_done() -> None:
    doing = Doing()
    outcomes = await each(["a", "bad", "b"], str, doing.do, ASKED)
    assert outcomes == [Outcome(0, "", "A"), Outcome(InvalidTopic.code, "because"), Outcome(0, "", "B")]
    assert doing.done == ["a", "bad", "b"]


async def test_what_is_named_twice_is_refused_both_times_and_not_done() -> None:
    doing = Doing()
    outcomes = await each(["a", "b", "a"], str, doing.do, ASKED)
    assert codes(outcomes) == [InvalidRequest.code, 0, InvalidRequest.code]
    assert doing.done == ["b"]


async def test_nothing_is_asked_and_nothing_answered() -> None:
    assert await each([], str, Doing().do, ASKED) == []


async def test_time_is_over_for_all_at_once_and_what_was_not_begun_is_not_done() -> None:
    doing = Doing()
    outcomes = await each(["slow", "late"], str, doing.do, Asked("a test", 0.01), at_once=1)
    assert codes(outcomes) == [0, RequestTimedOut.code]
    assert doing.done == ["slow"]


async def test_what_may_be_done_at_once_is_begun_in_order() -> None:
    doing = Doing()
    outcomes = await each(["slow", "a"], str, doing.do, Asked("a test", 0.01), at_once=2)
    assert codes(outcomes) == [0, 0]
    assert doing.done == ["slow", "a"]
