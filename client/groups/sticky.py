"""Sharing partitions so that few change hands: everybody keeps what it has, as far as that is a fair share. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.wire.consumer_protocol import Subscription
from ottla.wire.names import TopicPartition

Assigned = dict[str, list[TopicPartition]]


class Claims(NamedTuple):
    """Who says that it owns one partition, as members say when they join."""

    members: frozenset[str]
    """Every member that claims it, whether or not it still subscribes to the topic."""
    owner: str | None
    """The only one of them that claims it in the latest generation; None if several do, because one of them is wrong."""


def claims_of(members: Mapping[str, Subscription]) -> dict[TopicPartition, Claims]:
    """All claims of ownership, by partition."""
    generations: dict[TopicPartition, dict[str, int]] = {}
    for member in sorted(members):
        for where in members[member].owned:
            generations.setdefault(where, {})[member] = members[member].generation
    claims = {}
    for where, by_member in generations.items():
        latest = max(by_member.values())
        newest = [member for member, generation in by_member.items() if generation == latest]
        claims[where] = Claims(frozenset(by_member), newest[0] if len(newest) == 1 else None)
    return claims


def current_owners(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Who may keep what: the owner of every partition that exists and that its owner still subscribes to."""
    return {
        where: claims.owner
        for where, claims in claims_of(members).items()
        if claims.owner is not None
        and where.topic in members[claims.owner].topics
        and where.partition < partitions.get(where.topic, 0)
    }


def assign_sticky(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assigned:
    """Fair, and as little moved as that allows."""
    assigned: Assigned = {member: [] for member in sorted(members)}
    wanted = [
        TopicPartition(topic, number)
        for topic in sorted(partitions)
        if any(topic in wants.topics for wants in members.values())
        for number in range(partitions[topic])
    ]
    owners = current_owners(partitions, members)
    for where in wanted:
        if where in owners:
            assigned[owners[where]].append(where)
    free = [where for where in wanted if where not in owners]
    if len({frozenset(wants.topics) for wants in members.values()}) <= 1:
        _share_alike(assigned, free, len(wanted))
    else:
        _share_by_topic(assigned, free, members)
    return {member: sorted(got) for member, got in assigned.items()}


def _share_alike(assigned: Assigned, free: list[TopicPartition], total: int) -> None:
    """All want the same topics: everybody may keep its share, and those with the most one more while there are some."""
    if not assigned:
        return
    share, extra = divmod(total, len(assigned))
    for member in sorted(assigned, key=lambda member: (-len(assigned[member]), member)):
        most = share
        if extra > 0 and len(assigned[member]) > share:
            most, extra = share + 1, extra - 1
        free += assigned[member][most:]
        del assigned[member][most:]
    free.sort(reverse=True)
    for member in assigned:
        while len(assigned[member]) < share:
            assigned[member].append(free.pop())
    for member in assigned:
        if free and len(assigned[member]) == share:
            assigned[member].append(free.pop())


def _share_by_topic(assigned: Assigned, free: list[TopicPartition], members: Mapping[str, Subscription]) -> None:
    """Each to whoever wants it and has least; then, while it makes anything fairer, from who has most to who has least."""
    interested: dict[str, list[str]] = {}
    for topic in {topic for wants in members.values() for topic in wants.topics}:
        interested[topic] = sorted(member for member, wants in members.items() if topic in wants.topics)
    # What few can have is given first: the others can be made up for with the rest.
    for where in sorted(free, key=lambda where: (len(interested[where.topic]), where)):
        least = min(interested[where.topic], key=lambda member: (len(assigned[member]), member))
        assigned[least].append(where)
    moved = True
    while moved:
        moved = False
        for member in sorted(assigned, key=lambda member: (-len(assigned[member]), member)):
            for where in list(assigned[member]):
                least = min(interested[where.topic], key=lambda other: (len(assigned[other]), other))
                if len(assigned[member]) - len(assigned[least]) > 1:
                    assigned[member].remove(where)
                    assigned[least].append(where)
                    moved = True
