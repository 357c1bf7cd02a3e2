"""The coordinator of a group, as its members reach it: found when needed, found again when it is another broker."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.connections import COMMIT_LANE
from ottla.wire.errors import (
    ClientTimeout,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    OttlaError,
)
from ottla.wire.groups import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages import Failure, Message, Request

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
R = TypeVar("R")

MOVED = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress)


class GroupCoordinator:
    """One group's."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._broker: int | None = None

    async def ask(
        self, request: Request, kind: type[M], timeout_s: float, lane: int = COMMIT_LANE, waits_s: float = 0.0
    ) -> M:
        """Ask once. If it fails the coordinator is looked for again the next time; an error of the whole answer is raised.

        ``waits_s``: how long the coordinator may wait for news before it answers.
        """
        try:
            broker = await self._find()
            channel = await self._cluster.channel(broker, lane)
            answer = await self._cluster.ask_while(
                lambda: broker in self._cluster.brokers, channel, request, kind, timeout_s, waits_s
            )
            if isinstance(answer, Failure) and answer.error_code in [error.code for error in MOVED]:
                answer.raise_if_failed()
        except OttlaError as error:
            if error.retriable or isinstance(error, ClientTimeout) or self._cluster.only_hung_up(error):
                self._broker = None
            raise
        return answer

    def forget(self) -> None:
        """It said that another broker coordinates the group by now."""
        self._broker = None

    async def retry(self, attempt: Callable[[], Awaitable[R]], timeout_s: float, what: str) -> R:
        """Try until it works, fails for good, or time is over."""
        return await self._cluster.retry(attempt, timeout_s, what)

    async def _find(self) -> int:
        if self._broker is None or self._broker not in self._cluster.brokers:
            found = await self._cluster.ask_any(FindCoordinatorRequest([self._group_id]), FindCoordinatorResponse)
            (coordinator,) = found.coordinators
            coordinator.raise_if_failed()
            if coordinator.broker_id not in self._cluster.brokers:
                await self._cluster.refresh()
            self._broker = coordinator.broker_id
            logger.debug("group is coordinated group=%s broker=%d", self._group_id, self._broker)
        return self._broker
