"""Which brokers get the replicas of a new topic. Pure.

Brokers stand in a ring that alternates between racks, and partition i takes the brokers from place i on. So the first
replicas, the preferred leaders, go round robin; every broker gets as many replicas as any other, give or take one; and
the replicas of a partition are in as many racks as there can be. (Kafka's own algorithm shifts the later replicas and
gives 5, 6, 7, 5, 7 replicas where this gives 6 to each of five brokers in two racks; docs/decisions/0004.)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from ottla.wire.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor
from ottla.wire.names import PARTITIONS_MAX

Racks = Mapping[int, str | None]
"""The live brokers, and the rack of each."""


def place(partitions: int, replication_factor: int, racks: Racks, start: int = 0) -> list[list[int]]:
    """The replicas of each partition, the preferred leader first. ``start`` shifts the ring, so that topics differ."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidPartitions(f"{partitions} partitions; a topic has 1 to {PARTITIONS_MAX}")
    if not 1 <= replication_factor <= len(racks):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor}; it must be from 1 to the number of live brokers, {len(racks)}"
        )
    ring = alternating(racks)
    return [_window(ring, start + partition, replication_factor, racks) for partition in range(partitions)]


def alternating(racks: Racks) -> list[int]:
    """The brokers in an order that changes the rack with every step, for as long as there is another rack."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    columns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for column in columns for broker in column if broker is not None]


def check_assignment(assignment: Sequence[Sequence[int]], live: Racks) -> list[list[int]]:
    """An assignment that was given by hand: the same number of live, distinct brokers for every partition."""
    if not 1 <= len(assignment) <= PARTITIONS_MAX:
        raise InvalidPartitions(f"{len(assignment)} partitions; a topic has 1 to {PARTITIONS_MAX}")
    for partition, replicas in enumerate(assignment):
        if len(set(replicas)) != len(replicas):
            [(twice, _)] = Counter(replicas).most_common(1)
            raise InvalidReplicaAssignment(f"broker {twice} is named twice")
        if not replicas or len(replicas) != len(assignment[0]):
            raise InvalidReplicaAssignment(f"partition {partition} has replicas {list(replicas)}")
        unknown = [broker for broker in replicas if broker not in live]
        if unknown:
            raise InvalidReplicaAssignment(f"partition {partition} names brokers that are not live: {unknown}")
    return [list(replicas) for replicas in assignment]


def _window(ring: list[int], start: int, size: int, racks: Racks) -> list[int]:
    """``size`` brokers from a place on; where that leaves a rack out that could be in, its next broker comes in last."""
    candidates = [ring[(start + step) % len(ring)] for step in range(len(ring))]
    chosen = candidates[:size]
    reachable = min(size, len({racks[broker] for broker in ring}))
    while len({racks[broker] for broker in chosen}) < reachable:
        covered = {racks[broker] for broker in chosen}
        fresh = next(broker for broker in candidates if racks[broker] not in covered)
        # The last one whose rack is there twice gives way.
        doubled = next(
            broker for broker in reversed(chosen) if sum(racks[other] == racks[broker] for other in chosen) > 1
        )
        chosen = [broker for broker in chosen if broker != doubled] + [fresh]
    return chosen
