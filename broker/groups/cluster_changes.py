"""What changes of brokers and topics mean for the groups at hand: some are let go, in some partitions are shared anew.

There may be tens of thousands of groups, so they are visited in slices of the event loop's time.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.topic_patterns import match_slow
from ottla.broker.groups.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.groups.coordinated import Coordinated
    from ottla.broker.groups.groups_loop import Groups
    from ottla.broker.groups.membership import Effect

T = TypeVar("T")

TOPICS_LOOK_S = 0.1
"""How long after a change of the metadata it is looked which groups it is about: many changes come together."""


class ClusterChanges:
    """Owns a timer and walks, until ``stop``."""

    def __init__(self, groups: "Groups") -> None:
        self._groups = groups
        self._brokers: frozenset[int] = frozenset()
        self._topics_look: asyncio.TimerHandle | None = None
        self._walk = Walk()
        self._working: set[Coordinated] = set()
        self._sharing = ThreadPoolExecutor(1, "share partitions")
        self._matching = ThreadPoolExecutor(1, "match patterns")
        """A group has one pattern at a time matched there, so the patterns of all groups take turns."""

    def stop(self) -> None:
        self._sharing.shutdown(wait=False, cancel_futures=True)
        self._matching.shutdown(wait=False, cancel_futures=True)
        if self._topics_look is not None:
            self._topics_look.cancel()
        self._walk.stop()

    def metadata_changed(self, brokers: "Iterable[int]") -> None:
        """The controller has told something new: of brokers, or of topics.

        Nothing is answered about a group that has another coordinator by now (``Groups.check_mine``), so it need not be let go
        at once.
        """
        alive = frozenset(brokers)
        if alive != self._brokers:
            self._brokers = alive
            self._walk.over(self._groups.all(), self._groups.let_go_if_elsewhere)
        if self._topics_look is None:
            self._topics_look = asyncio.get_running_loop().call_later(TOPICS_LOOK_S, self._topics_changed)

    def _topics_changed(self) -> None:
        self._topics_look = None
        self._walk.over(self._groups.all(), self._look_at_topics)

    def _look_at_topics(self, coordinated: "Coordinated") -> None:
        if isinstance(coordinated.group, ConsumerGroup) and not coordinated.over:
            effects = coordinated.group.topics_changed()
            if effects:
                self._groups.apply(coordinated, effects)
            self.work_in_thread(coordinated)

    def work_in_thread(self, coordinated: "Coordinated") -> None:
        """Do in a thread the next thing that the group could not do at once: share its partitions, then match a pattern."""
        group = coordinated.group
        if not isinstance(group, ConsumerGroup) or coordinated in self._working or coordinated.over:
            return
        loop, sharing = asyncio.get_running_loop(), group.to_share
        if sharing is not None:
            work = loop.run_in_executor(self._sharing, sharing.share)
            self._then(coordinated, group, work, partial(group.partitions_shared, sharing))
        elif group.patterns.slow:
            pattern = min(group.patterns.slow)
            matching = loop.run_in_executor(self._matching, match_slow, pattern, group.patterns.names)
            self._then(coordinated, group, matching, lambda matched: group.patterns_matched([matched]))

    def _then(
        self,
        coordinated: "Coordinated",
        group: ConsumerGroup,
        work: "asyncio.Future[T]",
        tell: "Callable[[T], list[Effect]]",
    ) -> None:
        def done(work: "asyncio.Future[T]") -> None:
            self._working.discard(coordinated)
            # Of the other kind by now, or coordinated elsewhere, the group has no use for it.
            if not work.cancelled() and not coordinated.over and coordinated.group is group:
                self._groups.apply(coordinated, tell(work.result()))

        self._working.add(coordinated)
        work.add_done_callback(done)
