"""Who waits for a topic to be gone."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.broker.controller.events import settle
from ottla.broker.controller.links import OrderAnswers
from ottla.wire.errors import NotController


class Removals:
    """One term's."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[OrderAnswers]]] = {}

    @contextmanager
    def of(self, topic: str) -> Iterator[asyncio.Future[OrderAnswers]]:
        """A future that is done when the topic is gone, with what brokers are told then, as long as somebody waits for it."""
        gone: asyncio.Future[OrderAnswers] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(topic, set())
        waiters.add(gone)
        try:
            yield gone
        finally:
            waiters.discard(gone)
            if not waiters:
                self._waiters.pop(topic, None)

    def removed(self, topic: str, told: OrderAnswers) -> None:
        """It is gone, and brokers are being told."""
        for waiter in self._waiters.get(topic, ()):
            settle(waiter, told)

    def close(self) -> None:
        """The term is over."""
        for waiter in [waiter for waiters in self._waiters.values() for waiter in waiters]:
            settle(waiter, error=NotController())
