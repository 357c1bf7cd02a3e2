"""Who leads a partition next. Pure."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ottla.wire.names import NO_LEADER


class Leadership(NamedTuple):
    """A leader and the replicas that are in sync with it."""

    leader: int
    isr: tuple[int, ...]


def elect(replicas: Sequence[int], isr: Collection[int], live: Collection[int]) -> Leadership:
    """The first live in-sync replica in the order of the assignment, or none.

    Invariant: the ISR never becomes empty; where no member lives, it stays as it is and remembers who must come back.
    """
    leader = next((broker for broker in replicas if broker in isr and broker in live), NO_LEADER)
    still = tuple(broker for broker in isr if broker in live)
    return Leadership(leader, still or tuple(isr))
