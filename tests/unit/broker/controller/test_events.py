"""In which order a controller does things, and what it does not do at all."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.controller import events as module
from ottla.broker.controller.events import Cause, Events, OutOfStep
from ottla.broker.controller.removals import Removals
from ottla.wire.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    NotController,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
)
from ottla.zk.errors import ZkUnavailable


class Script:
    """Events that note when they were done."""

    def __init__(self) -> None:
        self.events = Events(7)
        self.done: list[str] = []

    def happens(self, name: str) -> None:
        async def happen(cause: Cause) -> None:
            self.done.append(cause.kind)

        self.events.put(name, happen)

    def work(self, name: str) -> Callable[[Cause], Awaitable[str]]:
        async def do(cause: Cause) -> str:
            self.done.append(name)
            return f"did {name}"

        return do

    def ask(self, name: str, timeout_s: float = 10.0, *, urgent: bool = False) -> "asyncio.Task[str]":
        return asyncio.create_task(self.events.in_turn(name, self.work(name), timeout_s, urgent=urgent))

    async def run(self, count: int) -> None:
        for _ in range(count):
            await (await self.events.next()).deal()


async def test_failures_of_brokers_come_before_wishes_of_clients() -> None:
    script = Script()
    wishes = [script.ask(f"wish {i}") for i in range(3)]
    relief = script.ask("relief", urgent=True)
    await asyncio.sleep(0)
    script.happens("a broker died")
    await script.run(5)
    assert script.done == ["relief", "a broker died", "wish 0", "wish 1", "wish 2"]
    assert await wishes[0] == "did wish 0"
    assert await relief == "did relief"


async def test_what_has_time_is_done_in_turn_with_what_clients_ask() -> None:
    """A creation waits for one of many deletions, and deletions wait for no endless row of requests."""
    script = Script()

    async def delete(cause: Cause) -> None:
        script.done.append("deletion")

    for _ in range(4):
        script.events.put_patient("deletion", delete)
    creations = [script.ask(f"creation {i}") for i in range(2)]
    await asyncio.sleep(0)
    await script.run(6)
    assert script.done == ["deletion", "creation 0", "deletion", "creation 1", "deletion", "deletion"]
    assert await creations[1] == "did creation 1"


async def test_of_events_with_one_key_only_the_last_is_done() -> None:
    """However slow ZooKeeper is, what is reported again and again does not pile up."""
    script = Script()
    for i in range(1000):
        script.events.put(f"look {i}", script.work(f"look {i}"), key="broker 2")  # type: ignore[arg-type]
    script.happens("a broker died")
    await script.run(2)
    assert script.done == ["look 999", "a broker died"]
    script.events.put("look again", script.work("look again"), key="broker 2")  # type: ignore[arg-type]
    await script.run(1)
    assert script.done[-1] == "look again"


async def test_what_a_broker_has_given_up_does_not_wait_in_the_queue() -> None:
    script = Script()
    for _ in range(3):
        with pytest.raises(RequestTimedOut, match="did not get to it"):
            await script.ask("relief", 0.01, urgent=True)
    script.happens("a broker died")
    await script.run(1)
    assert script.done == ["a broker died"]


async def test_wish_of_somebody_who_is_gone_is_not_done() -> None:
    script = Script()
    gone, impatient, there = script.ask("gone"), script.ask("impatient", 0.001), script.ask("there")
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(RequestTimedOut, match=r"in 0\.001 s: impatient"):
        await impatient
    await script.run(1)
    assert script.done == ["there"]
    assert await there == "did there"


async def test_wishes_are_bounded_and_those_of_brokers_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUESTS_MAX", 2)
    script = Script()
    waiting = [script.ask("a"), script.ask("b")]
    await asyncio.sleep(0)
    with pytest.raises(ThrottlingQuotaExceeded):
        await script.ask("c")
    relief = script.ask("relief", urgent=True)
    await asyncio.sleep(0)
    await script.run(3)
    assert script.done == ["relief", "a", "b"]
    await asyncio.gather(*waiting, relief)


async def test_event_that_comes_while_nobody_looks_is_found() -> None:
    script = Script()
    waiting = asyncio.create_task(script.run(1))
    await asyncio.sleep(0)
    script.happens("late")
    await asyncio.wait_for(waiting, 5)
    assert script.done == ["late"]


@pytest.mark.parametrize(
    ("error", "told", "ends"),
    [
        (InvalidRequest, InvalidRequest, False),
        (ZkUnavailable, BrokerNotAvailable, False),
        (OutOfStep, NotController, True),
    ],
)
async def test_error_is_told_and_one_that_ends_the_term_ends_it(
    error: type[Exception], told: type[Exception], ends: bool
) -> None:
    events = Events(7)

    async def fail(cause: Cause) -> None:
        raise error("because")

    asked = asyncio.create_task(events.in_turn("nothing", fail, 10))
    await asyncio.sleep(0)
    event = await events.next()
    if ends:
        with pytest.raises(OutOfStep):
            await event.deal()
    else:
        await event.deal()
    with pytest.raises(told):
        await asked


async def test_when_the_term_is_over_everybody_hears_of_it() -> None:
    script = Script()
    waiting = [script.ask("a"), script.ask("b", urgent=True)]
    await asyncio.sleep(0)
    script.events.close()
    for asked in [*waiting, script.ask("c")]:
        with pytest.raises(NotController):
            await asked
    assert script.done == []


async def test_event_has_an_id_of_its_own_that_names_the_term() -> None:
    events = Events(7)
    seen: list[Cause] = []

    async def note(cause: Cause) -> None:
        seen.append(cause)

    events.put("a broker died", note)
    asked = asyncio.create_task(events.in_turn("topic created", note, 10))
    await asyncio.sleep(0)
    for _ in range(2):
        await (await events.next()).deal()
    await asked
    assert seen == [Cause("7-1", "a broker died"), Cause("7-2", "topic created")]
    assert events.cause("a term begins") == Cause("7-3", "a term begins")


async def test_end_of_a_term_is_no_error_in_the_log_if_nobody_waits_any_more() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    removals = Removals()
    with removals.of("topic"):
        removals.close()
    gc.collect()
    assert errors == []
