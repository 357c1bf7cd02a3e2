"""What a controller has to deal with, one thing after the other: what happens to the cluster first, then what is asked of it,
in turn with what has time (the deletion of topics).

Every event has an id, the controller's epoch and a count, and a kind, in words. What follows from it bears the id: actions,
orders and log lines. A request is done only if whoever asked is still there when its turn comes. Once it has begun it is done
to its end: it runs in the task that takes the events, and only the waiting can be given up.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from ottla.wire.errors import (
    BrokerNotAvailable,
    NotController,
    OttlaError,
    RequestTimedOut,
    StaleControllerEpoch,
    ThrottlingQuotaExceeded,
)
from ottla.zk.errors import ZkUnavailable

R = TypeVar("R")

REQUESTS_MAX = 1_000
"""More than this wait only if they come faster than ZooKeeper writes; they would time out in the queue."""


class OutOfStep(OttlaError):
    """What was decided did not reach ZooKeeper, or its outcome cannot be read: a new term begins by reading everything."""


class Cause(NamedTuple):
    """Why the controller does something."""

    id: str
    kind: str


class Event(NamedTuple):
    """Something to deal with: ``work`` is given why."""

    cause: Cause
    work: Callable[[Cause], Awaitable[None]]

    async def deal(self) -> None:
        await self.work(self.cause)


class Events:
    """One term's."""

    def __init__(self, controller_epoch: int) -> None:
        self._epoch = controller_epoch
        self._count = 0
        self._urgent: deque[Event] = deque()
        self._latest: dict[str, Callable[[Cause], Awaitable[None]]] = {}
        self._requests: deque[tuple[Event, asyncio.Future[Any]]] = deque()
        self._patient: deque[Event] = deque()
        self._patient_is_next = False
        self._asked: set[asyncio.Future[Any]] = set()
        self._some = asyncio.Event()
        self._over = False

    def cause(self, kind: str) -> Cause:
        """An id for something that is dealt with at once."""
        self._count += 1
        return Cause(f"{self._epoch}-{self._count}", kind)

    def put(self, kind: str, work: Callable[[Cause], Awaitable[None]], key: str = "") -> None:
        """Something happened to the cluster.

        With a ``key``, it takes the place of an event of the same key that has not begun: the later one includes what the
        earlier one was about, and however slow ZooKeeper is, no more than one of them waits.
        """
        if key:
            known = key in self._latest
            self._latest[key] = work
            if known:
                return

            async def latest(cause: Cause) -> None:
                await self._latest.pop(key)(cause)

            work = latest
        self._urgent.append(Event(self.cause(kind), work))
        self._some.set()

    async def next(self) -> Event:
        """The next one; waits if there is none."""
        while True:
            if self._urgent:
                return self._urgent.popleft()
            while self._requests and self._requests[0][1].done():
                self._requests.popleft()  # nobody waits for it any more
            self._patient_is_next = not self._patient_is_next
            if self._patient and (self._patient_is_next or not self._requests):
                return self._patient.popleft()
            if self._requests:
                return self._requests.popleft()[0]
            self._some.clear()
            await self._some.wait()

    def put_patient(self, kind: str, work: Callable[[Cause], Awaitable[None]]) -> None:
        """Something happened that has time: clients' requests that come later are done in turn with it."""
        self._patient.append(Event(self.cause(kind), work))
        self._some.set()

    async def in_turn(
        self,
        kind: str,
        work: Callable[[Cause], Awaitable[R]],
        timeout_s: float,
        *,
        urgent: bool = False,
        patient: bool = False,
    ) -> R:
        """Do something as an event, and wait here for its result. ``urgent``: it is about the cluster, not about a client;
        ``patient``: other clients' requests are done in turn with it."""
        if self._over:
            raise NotController
        waiting = len(self._patient) if patient else len(self._requests)
        if not urgent and waiting >= REQUESTS_MAX:
            raise ThrottlingQuotaExceeded(f"{waiting} requests wait for the controller; try again later")
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        begun = False

        async def deal(cause: Cause) -> None:
            nonlocal begun
            if result.done():
                return  # nobody waits for it any more
            begun = True
            try:
                settle(result, await work(cause))
            except (StaleControllerEpoch, OutOfStep) as error:
                settle(result, error=NotController(str(error)))
                raise
            except ZkUnavailable as error:  # nothing was done, and it may be asked again
                settle(result, error=BrokerNotAvailable(f"the controller cannot write: {error}"))
            except OttlaError as error:
                settle(result, error=error)

        self._asked.add(result)
        result.add_done_callback(self._asked.discard)
        event = Event(self.cause(kind), deal)
        if urgent or patient:
            (self._urgent if urgent else self._patient).append(event)
        else:
            self._requests.append((event, result))
        self._some.set()
        try:
            async with asyncio.timeout(timeout_s):
                return await result
        except TimeoutError:
            how_far = "is still at it after" if begun else "did not get to it in"
            raise RequestTimedOut(f"the controller {how_far} {timeout_s:g} s: {kind}") from None
        finally:
            lane = self._urgent if urgent else self._patient
            if not begun and event in lane:  # whoever gave up asks again: that must not pile up
                lane.remove(event)

    def close(self) -> None:
        """The term is over: nobody's wish will be done any more."""
        self._over = True
        for result in list(self._asked):
            settle(result, error=NotController())
        self._requests.clear()
        self._patient.clear()


def settle(waiter: asyncio.Future[Any], result: Any = None, *, error: OttlaError | None = None) -> None:
    """Give a waiter its result, unless it has one or waits no more."""
    if waiter.done():
        return
    if error is not None:
        waiter.set_exception(error)
        waiter.exception()  # retrieved: whoever waited may have given up in this very moment, and asyncio would log an error
    else:
        waiter.set_result(result)
