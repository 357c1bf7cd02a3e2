"""Who is to have which partitions, where the coordinator decides it: Kafka's uniform and range. Pure.

The same input gives the same, and what was given, given back as ``current``, gives itself again: a coordinator that takes a
group over decides nothing anew.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heappush, heapreplace
from typing import NamedTuple

from ottla.zk.znodes.consumer_members import TopicIdPartition

Assigned = dict[str, frozenset[TopicIdPartition]]
"""By member."""


class Wanted(NamedTuple):
    """What is to be shared."""

    partitions: Mapping[str, int]
    """How many each topic has, by its id."""
    members: Mapping[str, frozenset[str]]
    """The topics that each member wants."""
    names: Mapping[str, str]
    """By which members stand in line; a static one's stays the same."""

    @property
    def all(self) -> list[TopicIdPartition]:
        """Every partition that somebody wants."""
        wanted = frozenset[str]().union(*self.members.values())
        return [(topic, n) for topic in sorted(wanted & self.partitions.keys()) for n in range(self.partitions[topic])]


def assign_range(wanted: Wanted, current: Mapping[str, frozenset[TopicIdPartition]]) -> Assigned:
    """Of each topic a run of partitions for each member: those of several topics that have the same number go together."""
    assigned: dict[str, set[TopicIdPartition]] = {member: set() for member in wanted.members}
    for topic in sorted(wanted.partitions):
        interested = sorted((wanted.names[one], one) for one, topics in wanted.members.items() if topic in topics)
        if not interested:
            continue
        share, extra = divmod(wanted.partitions[topic], len(interested))
        start = 0
        for place, (_, member) in enumerate(interested):
            end = start + share + (1 if place < extra else 0)
            assigned[member] |= {(topic, number) for number in range(start, end)}
            start = end
    return _frozen(assigned)


def assign_uniform(wanted: Wanted, current: Mapping[str, frozenset[TopicIdPartition]]) -> Assigned:
    """As fair as it can be, and of all that are so, one that moves as little as possible of ``current``."""
    free = set(wanted.all)
    assigned: dict[str, set[TopicIdPartition]] = {}
    for member in sorted(wanted.members):
        keeps = {one for one in current.get(member, ()) if one in free and one[0] in wanted.members[member]}
        free -= keeps
        assigned[member] = keeps
    if len(set(wanted.members.values())) <= 1:
        _share_alike(assigned, sorted(free))
    else:
        _Uneven(assigned, wanted.members).share(sorted(free))
    return _frozen(assigned)


def _share_alike(assigned: dict[str, set[TopicIdPartition]], free: list[TopicIdPartition]) -> None:
    """All want the same: everybody keeps up to its share, and those that have the most one more while some are over."""
    if not assigned:
        return
    share, extra = divmod(sum(map(len, assigned.values())) + len(free), len(assigned))
    may_have: dict[str, int] = {}
    for member in sorted(assigned, key=lambda member: (-len(assigned[member]), member)):
        may_have[member] = share + (1 if extra > 0 else 0)
        extra -= 1
        for one in sorted(assigned[member], reverse=True)[: max(0, len(assigned[member]) - may_have[member])]:
            assigned[member].discard(one)
            free.append(one)
    free.sort(reverse=True)
    for member, most in may_have.items():
        while len(assigned[member]) < most:
            assigned[member].add(free.pop())


class _Uneven:
    """Members want different topics: each partition goes to who wants it and has least."""

    def __init__(self, assigned: dict[str, set[TopicIdPartition]], members: Mapping[str, frozenset[str]]) -> None:
        self._assigned = assigned
        self._members = members
        self._lines: dict[str, list[tuple[int, str]]] = {}
        """Of each topic those who want it, the one that has least in front; entries may be old."""
        for member, topics in members.items():
            for topic in topics:
                self._lines.setdefault(topic, []).append((len(assigned[member]), member))
        for line in self._lines.values():
            heapify(line)
        self._gave_up: dict[str, int] = {}
        """Who has less than before, and since which move, the latest last. A line hears of it when it is looked at: most
        members stand in the lines of all topics, and to tell them all of every move would take longer than all the rest."""
        self._moves = 0
        self._heard: dict[str, int] = dict.fromkeys(self._lines, 0)

    def _least(self, topic: str) -> str:
        line = self._lines[topic]
        for member in reversed(self._gave_up):
            if self._gave_up[member] <= self._heard[topic]:
                break
            if topic in self._members[member]:
                heappush(line, (len(self._assigned[member]), member))
        self._heard[topic] = self._moves
        while len(self._assigned[line[0][1]]) != line[0][0]:
            heapreplace(line, (len(self._assigned[line[0][1]]), line[0][1]))
        return line[0][1]

    def _give_up(self, member: str, one: TopicIdPartition) -> None:
        self._assigned[member].discard(one)
        self._moves += 1
        self._gave_up.pop(member, None)
        self._gave_up[member] = self._moves

    def share(self, free: list[TopicIdPartition]) -> None:
        # What few can have is given first: the others can be made up for with the rest.
        for one in sorted(free, key=lambda one: (len(self._lines[one[0]]), one)):
            self._assigned[self._least(one[0])].add(one)
        moved = True
        while moved:  # ends: each move makes the squares of what members have smaller
            moved = False
            for member in sorted(self._assigned, key=lambda member: (-len(self._assigned[member]), member)):
                for one in sorted(self._assigned[member]):
                    least = self._least(one[0])
                    if len(self._assigned[member]) - len(self._assigned[least]) > 1:
                        self._give_up(member, one)
                        self._assigned[least].add(one)
                        moved = True


def _frozen(assigned: Mapping[str, set[TopicIdPartition]]) -> Assigned:
    return {member: frozenset(got) for member, got in assigned.items()}


UNIFORM = "uniform"
ASSIGNORS: dict[str, Callable[[Wanted, Mapping[str, frozenset[TopicIdPartition]]], Assigned]] = {
    UNIFORM: assign_uniform,
    "range": assign_range,
}
"""By the names that ``group.remote.assignor`` takes; the first is the default."""


SHARED_INLINE = 5_000
"""What may be shared at once, about ten milliseconds: partitions, and, where members want different topics, a topic of each."""


class Sharing(NamedTuple):
    """What is to be shared in a thread, because it takes long."""

    wanted: Wanted
    assignor: str
    current: Mapping[str, frozenset[TopicIdPartition]]
    """What members keep meanwhile."""

    def share(self) -> Assigned:
        return ASSIGNORS[self.assignor](self.wanted, self.current)


def takes_long(wanted: Wanted) -> bool:
    wishes = wanted.members.values()
    pairs = sum(map(len, wishes)) if len(set(wishes)) > 1 else 0
    return pairs + sum(wanted.partitions.values()) > SHARED_INLINE


def still_wanted(wanted: Wanted, current: Mapping[str, frozenset[TopicIdPartition]]) -> Assigned:
    """Of what members have, what they want and what there is."""
    return {
        member: frozenset(one for one in has if one[0] in wanted.members[member] and one[1] < wanted.partitions[one[0]])
        for member, has in current.items()
    }
