"""The controller's links to all live brokers."""

import asyncio
from collections.abc import Callable, Mapping

from ottla.broker.controller.decisions.actions import Tell
from ottla.broker.controller.decisions.cluster import Broker
from ottla.broker.controller.decisions.fence_guard import Witnesses
from ottla.broker.controller.link_loop import Link

OrderAnswers = list[asyncio.Future[bool]]
"""Orders that are on their way to brokers: whether each was obeyed."""


class Links:
    """One link to the present life of each broker. ``make`` gives a new one."""

    def __init__(self, make: Callable[[Broker], Link]) -> None:
        self._make = make
        self._links: dict[int, tuple[Broker, Link]] = {}

    async def follow(self, brokers: Mapping[int, Broker]) -> None:
        """A link to every live broker; one to an earlier life of a broker is closed first."""
        for i, (broker, link) in list(self._links.items()):
            if brokers.get(i) != broker:
                del self._links[i]
                await link.close()
        for i, broker in brokers.items():
            if i not in self._links:
                self._links[i] = (broker, self._make(broker))

    def tell(self, action: Tell) -> OrderAnswers:
        if action.broker not in self._links:
            return []  # it failed a moment ago: the next event says so
        _, link = self._links[action.broker]
        return [link.tell(action.request, is_patient=action.is_patient)]

    def begin_anew(self, broker: int) -> None:
        """A broker whose orders were dropped is about to be told everything."""
        if broker in self._links:
            self._links[broker][1].begin_anew()

    async def witnesses(self, about: int, me: int) -> Witnesses:
        """Whether the other brokers, as far as they can be asked, reach a broker."""
        answers = await self.reach(about)
        others = [reaches for i, reaches in answers.items() if i != me]
        return Witnesses(alive=others.count(True), dead=others.count(False))

    async def reach(self, about: int) -> dict[int, bool | None]:
        """For every other broker, whether it reaches this one now; None if it cannot be asked."""
        others = {i: link for i, (_, link) in self._links.items() if i != about}
        answers = await asyncio.gather(*(link.asks_whether_connected(about) for link in others.values()))
        return dict(zip(others, answers, strict=True))

    async def close(self) -> None:
        for _, link in self._links.values():
            await link.close()
