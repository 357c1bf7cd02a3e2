"""Produce requests in flight: to whom, with which batches, and how long they are waited for."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from ottla.client.producing.batches import ProducerBatch
from ottla.net.channel import Channel

CHECK_S = 0.3
"""After so long without an answer, see whether another broker leads by now: a paused one never says so itself."""


class SentRequest:
    """A request that was sent and not answered yet."""

    __slots__ = ("batches", "channel", "check_at", "leader", "until")

    def __init__(
        self, leader: int, channel: Channel, batches: list[ProducerBatch], now: float, timeout_s: float
    ) -> None:
        self.leader = leader
        self.channel = channel
        self.batches = batches
        self.until = now + timeout_s
        self.check_at = 0.0
        self.schedule_check(now)

    def schedule_check(self, now: float) -> None:
        """Set when to see whether it is overdue: soon, and when a batch's delivery time or the request's own is over."""
        check_at = now + CHECK_S
        if now < self.until < check_at:
            check_at = self.until
        for batch in self.batches:
            if not batch.done and batch.deadline < check_at:
                check_at = batch.deadline
        self.check_at = check_at


class InFlightRequests:
    """All of them. ``overdue`` is called with each, again and again, that takes long: one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, overdue: Callable[[SentRequest, float], None]) -> None:
        self._loop = loop
        self._overdue = overdue
        self._sent: dict[SentRequest, None] = {}
        self.requests: Counter[int] = Counter()
        """How many are in flight to each broker."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    def __bool__(self) -> bool:
        return bool(self._sent)

    def all(self) -> list[SentRequest]:
        return list(self._sent)

    def add(self, sent: SentRequest) -> None:
        self.requests[sent.leader] += 1
        self._sent[sent] = None
        self._set_timer(sent.check_at)

    def remove(self, sent: SentRequest) -> bool:
        """It was answered, or its connection is lost; False if it was not known."""
        if sent not in self._sent:
            return False
        del self._sent[sent]
        self.requests[sent.leader] -= 1
        return True

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self, at: float) -> None:
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_later(max(at - time.monotonic(), 0.001), self._look)

    def _look(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        try:
            now = time.monotonic()
            for sent in list(self._sent):
                if sent.check_at <= now:
                    self._overdue(sent, now)
                    sent.schedule_check(now)
            for sent in self._sent:
                self._set_timer(sent.check_at)
        except BaseException:
            self._set_timer(time.monotonic() + CHECK_S)
            raise
