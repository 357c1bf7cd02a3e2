"""Produce requests on their way: to whom, with which batches, and how long they are waited for."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from ottla.client.producing.batches import ProducerBatch
from ottla.net.channel import Channel

LOOK_S = 0.3
"""After so long without an answer, see whether another broker leads by now: a paused one never says so itself."""


class SentRequest:
    """A request that was sent and not answered yet."""

    __slots__ = ("batches", "channel", "leader", "look_at", "until")

    def __init__(
        self, leader: int, channel: Channel, batches: list[ProducerBatch], now: float, timeout_s: float
    ) -> None:
        self.leader = leader
        self.channel = channel
        self.batches = batches
        self.until = now + timeout_s
        self.look_at = 0.0
        self.look_again(now)

    def look_again(self, now: float) -> None:
        """Set when to see whether it is overdue: soon, and when a batch's delivery time or the request's own is over."""
        look_at = now + LOOK_S
        if now < self.until < look_at:
            look_at = self.until
        for batch in self.batches:
            if not batch.done and batch.deadline < look_at:
                look_at = batch.deadline
        self.look_at = look_at


class Travelling:
    """All of them. ``overdue`` is called with each, again and again, that takes long: one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, overdue: Callable[[SentRequest, float], None]) -> None:
        self._loop = loop
        self._overdue = overdue
        self._sent: dict[SentRequest, None] = {}
        self.requests: Counter[int] = Counter()
        """How many travel to each broker."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    def __bool__(self) -> bool:
        return bool(self._sent)

    def all(self) -> list[SentRequest]:
        return list(self._sent)

    def add(self, sent: SentRequest) -> None:
        self.requests[sent.leader] += 1
        self._sent[sent] = None
        self._set_timer(sent.look_at)

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
                if sent.look_at <= now:
                    self._overdue(sent, now)
                    sent.look_again(now)
            for sent in self._sent:
                self._set_timer(sent.look_at)
        except BaseException:
            self._set_timer(time.monotonic() + LOOK_S)
            raise
