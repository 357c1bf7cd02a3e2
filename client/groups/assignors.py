"""Who gets which partitions: Kafka's range, round-robin, sticky and cooperative-sticky. Pure: subscriptions in, partitions out.

The same input gives the same everywhere: members and topics are taken in the order of their names. (Only a group's leader
assigns.) A static member is taken by its instance id, which it keeps.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.client.groups.sticky import assign_sticky, claims_of
from ottla.wire.consumer_protocol import Subscription
from ottla.wire.names import TopicPartition

Assignments = dict[str, list[TopicPartition]]
"""By member."""


class Assignor(NamedTuple):
    """One way to share."""

    name: str
    """As members vote for it; Kafka's."""
    assign: Callable[[Mapping[str, int], Mapping[str, Subscription]], Assignments]
    """Topics with their number of partitions, and members with what they want; what each gets."""
    cooperative: bool = False
    """Whether members keep what they have while they join, and let go only of what they are told to."""


def assign_range(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """Of each topic a run of partitions for each member: those of several topics that have the same number go together."""
    assigned: Assignments = {member: [] for member in members}
    for topic in sorted(partitions):
        interested = sorted(member for member, wants in members.items() if topic in wants.topics)
        if not interested:
            continue
        share, extra = divmod(partitions[topic], len(interested))
        start = 0
        for place, member in enumerate(interested):
            count = share + (1 if place < extra else 0)
            assigned[member] += [TopicPartition(topic, number) for number in range(start, start + count)]
            start += count
    return assigned


def assign_round_robin(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """All partitions of all topics by turns, to whoever wants that topic."""
    assigned: Assignments = {member: [] for member in members}
    order = sorted(members)
    turn = 0
    for topic in sorted(partitions):
        if not any(topic in wants.topics for wants in members.values()):
            continue
        for number in range(partitions[topic]):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            assigned[order[turn % len(order)]].append(TopicPartition(topic, number))
            turn += 1
    return assigned


def assign_cooperatively(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """As sticky, but a partition that another member claims is given to nobody in this generation.

    Its claimants are not assigned it, so they revoke it and join again; the next generation gives it away. Invariant [I22]:
    every claim counts, also that of a member which does not subscribe to the topic any more: it still reads and commits.
    """
    claims = claims_of(members)

    def may_have(member: str, where: TopicPartition) -> bool:
        found = claims.get(where)
        return found is None or found.owner == member or found.members == {member}

    assigned = assign_sticky(partitions, members)
    return {member: [where for where in got if may_have(member, where)] for member, got in assigned.items()}


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky),
        Assignor("cooperative-sticky", assign_cooperatively, cooperative=True),
    )
}
"""By the names that ``partition_assignment_strategy`` takes."""
