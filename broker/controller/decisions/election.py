"""Who leads a partition next. Pure."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ottla.wire.names import NO_LEADER


class Leadership(NamedTuple):
    """A leader, the replicas that are in sync with it, and those that left the ISR with all that is committed (``elr``).

    ``lost``: members of the ISR that came back without their records. They are named where nobody leads because of it.
    """

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


def elect(
    replicas: Sequence[int],
    isr: Collection[int],
    live: Collection[int],
    *,
    elr: Collection[int] = (),
    min_insync: int = 1,
    current: int = NO_LEADER,
    unclean: bool = False,
) -> Leadership:
    """The current leader if it lives and is in sync; else the first such replica in the order of the assignment; else an
    eligible one; else, if allowed, any live one. A preferred leader is chosen by an election of its own, not here.

    Invariant [I13]: the ISR never becomes empty. Where no member lives it stays as it is and remembers who must come back.
    """
    candidates = (current, *replicas) if current in replicas else replicas
    leader = first(candidates, isr, live)
    if leader == NO_LEADER and (successor := first(replicas, elr, live)) != NO_LEADER:
        return Leadership(successor, (successor,), tuple(broker for broker in elr if broker != successor))
    if leader == NO_LEADER and unclean and (anybody := first(replicas, replicas, live)) != NO_LEADER:
        return Leadership(anybody, (anybody,))
    still = tuple(broker for broker in isr if broker in live) or tuple(isr)
    # While fewer than min.insync.replicas are in sync nothing is committed any more, so those that leave now have all
    # that ever was (KIP-966).
    left = {*elr, *isr} - set(still) if len(still) < min_insync else set()
    return Leadership(leader, still, tuple(broker for broker in replicas if broker in left))


def first(replicas: Sequence[int], among: Collection[int], live: Collection[int]) -> int:
    return next((broker for broker in replicas if broker in among and broker in live), NO_LEADER)
