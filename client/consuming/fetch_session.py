"""What one broker knows of what a consumer wants, by what it was told over one connection. Pure.

The broker keeps what is named and answers a part once, with records or an error; then it must be named again. So a fetch names
what has changed: what was answered, what was sought, resumed, taken over from another leader; and drops what is not wanted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.client.consuming.subscription import UNKNOWN, Assigned
from ottla.wire.names import TopicPartition
from ottla.wire.requests import FetchDrop, FetchPart


class Named(NamedTuple):
    """A partition as the broker was last told of it."""

    state: Assigned
    position_version: int
    part: FetchPart
    number: int
    """Of the request that told it."""

    @property
    def stale(self) -> bool:
        """Whether reading goes on elsewhere by now: an answer for it means nothing."""
        return self.state.position_version != self.position_version or self.state.fetch_offset != self.part.offset


class Changes(NamedTuple):
    """What one request tells."""

    number: int
    since_last: bool
    named: list[Named]
    dropped: list[TopicPartition]

    @property
    def parts(self) -> list[FetchPart]:
        return [named.part for named in self.named]

    @property
    def drops(self) -> tuple[FetchDrop, ...]:
        return tuple(FetchDrop(where.topic, where.partition) for where in self.dropped)

    def readable(self, refused: Iterable[TopicPartition]) -> list[Assigned]:
        """The partitions that it named and that can be read: its answer tells which can not."""
        bad = set(refused)
        return [named.state for named in self.named if named.state.where not in bad]


class FetchSession:
    """``part_of`` gives what to ask for of a partition."""

    def __init__(self, part_of: Callable[[Assigned], FetchPart]) -> None:
        self._part_of = part_of
        self._mine: dict[TopicPartition, Assigned] = {}
        self._armed: dict[TopicPartition, Named] = {}
        """What the broker is to tell us of,"""
        self._told: dict[TopicPartition, Named] = {}
        """and what it has told us of since it was named."""
        self._dirty: dict[TopicPartition, None] = {}
        """What may have to be named, or dropped."""
        self._number = 0
        self._turn = 0
        self.kept = False
        """Whether the broker keeps what it is told."""

    def __bool__(self) -> bool:
        """Whether there is anything at this broker that is read."""
        return bool(self._mine)

    @property
    def waits_for_something(self) -> bool:
        return bool(self._armed)

    def read(self, mine: Mapping[TopicPartition, Assigned]) -> None:
        """These partitions are read from this broker; any of them may have changed, each in its way."""
        self._mine = dict(mine)
        self._dirty = dict.fromkeys([*mine, *self._armed, *self._told])

    def forget(self) -> None:
        """The broker knows nothing any more. Each time another partition comes first: the first of a request is served best."""
        self.kept = False
        self._armed, self._told = {}, {}
        self._turn += 1
        wanted = list(self._mine)
        first = self._turn % len(wanted) if wanted else 0
        self._dirty = dict.fromkeys(wanted[first:] + wanted[:first])

    def changes(self, now: float) -> Changes:
        """What to tell the broker now."""
        self._number += 1
        dirty, self._dirty = self._dirty, {}
        named: list[Named] = []
        dropped: list[TopicPartition] = []
        for where in dirty:
            state = self._mine.get(where)
            if state is not None and state.not_before > now:
                self._dirty[where] = None
            if state is None or state.fetch_offset == UNKNOWN or state.paused or state.not_before > now:
                known = self._armed.pop(where, None) or self._told.pop(where, None)
                if known is not None:
                    dropped.append(where)
                continue
            part = self._part_of(state)
            known = self._armed.get(where)
            if known is None or known.state is not state or known.stale or known.part != part:
                self._told.pop(where, None)
                one = self._armed[where] = Named(state, state.position_version, part, self._number)
                named.append(one)
        return Changes(self._number, self.kept, named, dropped)

    def answered(self, where: TopicPartition, number: int) -> Named | None:
        """Request ``number`` was answered with something of a partition; gives back what that is the answer to.

        None if the partition was dropped or named anew since: then what counts is yet to come.
        """
        known = self._armed.get(where)
        if known is None or known.number > number:
            return None
        del self._armed[where]
        self._told[where] = known
        self._dirty[where] = None
        return known

    def next_due(self, now: float) -> float | None:
        """When the next of those partitions may be asked for that must not be at the moment."""
        waits = [self._mine[where].not_before for where in self._dirty if where in self._mine]
        return min([when for when in waits if when > now], default=None)
