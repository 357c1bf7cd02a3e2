"""Topics that nobody created: they are made when a client that wants them made asks for them (auto.create.topics.enable)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ottla.broker.cluster_view import ClusterView
from ottla.wire.admin import NewTopic
from ottla.wire.errors import OttlaError, TopicAlreadyExists
from ottla.wire.names import INTERNAL_TOPICS

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_S = 5.0
ANSWER_AFTER_S = 0.25
"""Metadata waits this long for new topics. If one is missing by then, the answer says so and the client asks again, as Kafka's
clients do. A creation takes some ten milliseconds, but the controller may have much else to do."""

AT_ONCE = 64
"""Topics that are being made for clients of this broker; who asks for another one meanwhile asks again."""


class TopicDefaults(NamedTuple):
    """What a topic has whose creator does not say."""

    partitions: int
    replication_factor: int

    def complete(self, topic: NewTopic) -> None:
        """Kafka's clients send -1 where they leave it to the cluster."""
        if topic.partitions == -1:
            topic.partitions = self.partitions
        if topic.replication_factor == -1:
            topic.replication_factor = self.replication_factor


class AutoTopics:
    """Makes missing topics: each once, however many ask for it. ``create`` has the controller do it, wherever that is."""

    def __init__(
        self,
        view: ClusterView,
        create: Callable[[NewTopic, float], Awaitable[None]],
        defaults: Callable[[], TopicDefaults],
        enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        self._view = view
        self._create = create
        self._defaults = defaults
        self._enabled = enabled
        self._begun: dict[str, asyncio.Event] = {}
        self._refused: set[str] = set()
        """Internal topics that clients have asked for: it is logged once for each."""
        self._making: set[asyncio.Future[list[None]]] = set()

    def missing(self, names: list[str]) -> list[str]:
        """Those that are to be made: all that do not exist but Kafka's internal ones."""
        if not self._enabled():
            return []
        missing = [name for name in names if self._view.topic(name) is None]
        for name in sorted((INTERNAL_TOPICS.keys() & set(missing)) - self._refused):
            self._refused.add(name)
            logger.warning("internal topic is not made for a client topic=%s reason=%r", name, INTERNAL_TOPICS[name])
        return [name for name in missing if name not in INTERNAL_TOPICS]

    async def make(self, names: list[str]) -> None:
        """Make these, or wait for those who do, for a moment; whatever becomes of it, the metadata tells."""
        making = asyncio.gather(*map(self._make, names[:AT_ONCE]))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        done, _ = await asyncio.wait([making], timeout=ANSWER_AFTER_S)
        if done:
            making.result()

    async def _make(self, name: str) -> None:
        begun = self._begun.get(name)
        if begun is not None:
            await begun.wait()
            return
        if len(self._begun) >= AT_ONCE:
            return
        done = self._begun[name] = asyncio.Event()
        try:
            await self._create(NewTopic(name, *self._defaults(), {}), CREATE_TIMEOUT_S)
            logger.info("topic created for a client that asked for it topic=%s", name)
        except TopicAlreadyExists:
            pass  # another broker was asked, too
        except OttlaError as error:
            logger.warning("topic could not be created for a client topic=%s error=%r", name, error)
        finally:
            del self._begun[name]
            done.set()
