"""What changes of brokers and topics mean for the groups at hand: some are let go, in some partitions are shared anew.

There may be tens of thousands of groups, so they are visited in slices of the event loop's time.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.topic_patterns import Matched, match_all
from ottla.broker.groups.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.groups.coordinated import Coordinated
    from ottla.broker.groups.groups_loop import Groups

TOPICS_LOOK_S = 0.1
"""How long after a change of the metadata it is looked which groups it is about: many changes come together."""


class ClusterChanges:
    """Owns a timer and walks, until ``stop``."""

    def __init__(self, groups: "Groups") -> None:
        self._groups = groups
        self._brokers: frozenset[int] = frozenset()
        self._topics_look: asyncio.TimerHandle | None = None
        self._walk = Walk()
        self._matching: set[Coordinated] = set()
        self._matcher = ThreadPoolExecutor(1, "topic patterns")

    def stop(self) -> None:
        self._matcher.shutdown(wait=False, cancel_futures=True)
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

    def match_patterns(self, coordinated: "Coordinated") -> None:
        """Match in a thread what the group could not match at once."""
        group = coordinated.group
        if not isinstance(group, ConsumerGroup) or not group.patterns.slow or coordinated in self._matching:
            return
        self._matching.add(coordinated)
        work = asyncio.get_running_loop().run_in_executor(
            self._matcher, match_all, group.patterns.slow, group.patterns.names
        )
        work.add_done_callback(partial(self._matched, coordinated, group))

    def _matched(self, coordinated: "Coordinated", group: ConsumerGroup, work: "asyncio.Future[list[Matched]]") -> None:
        self._matching.discard(coordinated)
        if work.cancelled() or coordinated.over:
            return
        if coordinated.group is group:  # of the other kind by now, it has no patterns
            self._groups.apply(coordinated, group.patterns_matched(work.result()))
