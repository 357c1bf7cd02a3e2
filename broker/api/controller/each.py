"""Many things asked of the controller in one request: they are begun in order, a few at a time, and each has a result."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

from ottla.broker.controller.api import Asked, ControllerApi
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, InvalidRequest, NotController, OttlaError, RequestTimedOut

T = TypeVar("T")

ITEMS_MAX = 10_000
AT_ONCE = 16
"""The controller does one after the other; meanwhile brokers hear of those before. No more, for others wait for it too."""
TIMEOUT_MAX_S = 120.0
CLIENT_ID_TOLD = 64
"""Characters: what a client calls itself comes into the log."""

Controller = Callable[[], ControllerApi | None]
"""Gives the controller if it is on this broker."""


class Outcome(NamedTuple):
    error_code: int
    error_message: str
    value: str = ""


def present(controller: Controller) -> ControllerApi:
    """The controller; any other broker says that it is not."""
    found = controller()
    if found is None:
        raise NotController
    return found


def asked_by(incoming: IncomingRequest, timeout_ms: int) -> Asked:
    """Who asks, and for how long that client waits.

    With a timeout of 0 or less, everything is done and nobody waits for the brokers to hear of it, as in Kafka: librdkafka
    takes RequestTimedOut for success then, so nothing may be left out for want of time.
    """
    by = f"client {incoming.client_id[:CLIENT_ID_TOLD]!r}"
    return Asked(by, timeout_s_of(timeout_ms), waits_for_brokers=timeout_ms > 0)


def timeout_s_of(timeout_ms: int) -> float:
    """How long the controller may take for a request with this timeout."""
    return min(timeout_ms / 1000, TIMEOUT_MAX_S) if timeout_ms > 0 else TIMEOUT_MAX_S


def check_count(items: Sequence[object], limit: int = ITEMS_MAX) -> None:
    if len(items) > limit:
        raise InvalidRequest(f"{len(items)} things in one request; at most {limit}")


async def each(
    items: Sequence[T],
    key: Callable[[T], Hashable],
    do: Callable[[T, Asked], Awaitable[str | None]],
    asked: Asked,
    *,
    at_once: int = AT_ONCE,
) -> list[Outcome]:
    """What came of each, in order. What is named twice is refused both times; what was not begun in time is not done."""
    named = Counter(map(key, items))
    deadline = time.monotonic() + asked.timeout_s

    async def one(item: T) -> Outcome:
        try:
            if named[key(item)] > 1:
                raise InvalidRequest(f"{key(item)} is named more than once")
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise RequestTimedOut(f"nothing was done about {key(item)}: what came before it took all the time")
            return Outcome(NO_ERROR, "", await do(item, asked._replace(timeout_s=left_s)) or "")
        except OttlaError as error:
            return Outcome(error.code, str(error))

    room = asyncio.Semaphore(at_once)

    async def one_in_turn(item: T) -> Outcome:
        async with room:
            return await one(item)

    return await asyncio.gather(*map(one_in_turn, items))
