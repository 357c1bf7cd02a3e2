"""Which replicas to move so that a broker has none any more, or all have as many. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from ottla.client import TopicPartition

Layout = Mapping["TopicPartition", list[int]]
"""The replicas of each partition, the preferred leader first."""

Racks = Mapping[int, str | None]
"""The live brokers, and the rack of each."""


def drained(layout: Layout, racks: Racks, leaving: int, *, fewer: bool = False) -> "dict[TopicPartition, list[int]]":
    """New replicas for all partitions that the broker has. With ``fewer`` there is one less where no other broker is free."""
    counts = _replicas_by_broker(layout, racks)
    moves = {}
    for where, replicas in sorted(layout.items()):
        if leaving not in replicas:
            continue
        others = [broker for broker in replicas if broker != leaving]
        free = [broker for broker in racks if broker not in replicas]
        if free:
            taken = Counter(racks.get(broker) for broker in others)
            heir = min(free, key=lambda broker: (taken[racks[broker]], counts[broker], broker))
            counts[heir] += 1
            moves[where] = [heir if broker == leaving else broker for broker in replicas]
        elif fewer and others:
            moves[where] = others
        else:
            raise ConfigError(
                f"{where} has replicas on brokers {replicas}, and no other broker lives that could take that of {leaving}",
                hint="start another broker first" + (", or say --fewer-replicas" if others else ""),
            )
    return moves


def balanced(layout: Layout, racks: Racks) -> "dict[TopicPartition, list[int]]":
    """New replicas for as few partitions as it takes until all brokers have as many of them, give or take one.

    They come to be preferred leaders about as often, and no partition comes to stand in fewer racks than before.
    """
    after = {where: list(replicas) for where, replicas in sorted(layout.items())}
    counts = _replicas_by_broker(after, racks)
    while (move := _next_move(after, racks, counts)) is not None:
        where, old, new = move
        counts[old] -= 1
        counts[new] += 1
        after[where] = [new if broker == old else broker for broker in after[where]]
    _share_preferred(after, racks)
    return {where: replicas for where, replicas in after.items() if replicas != layout[where]}


def _next_move(layout: Layout, racks: Racks, counts: "Counter[int]") -> "tuple[TopicPartition, int, int] | None":
    """A partition that goes from a broker with many replicas to one with at least two fewer."""
    pairs = sorted(((counts[old] - counts[new], old, new) for old in racks for new in racks), reverse=True)
    for difference, old, new in pairs:
        if difference < 2:
            return None
        for where, replicas in layout.items():
            if old in replicas and new not in replicas:
                now = {racks.get(broker) for broker in replicas}
                then = {racks.get(new if broker == old else broker) for broker in replicas}
                if len(then) >= len(now):
                    return where, old, new
    return None


def _share_preferred(layout: "dict[TopicPartition, list[int]]", racks: Racks) -> None:
    """Put another replica first where one broker is it too often."""
    firsts = Counter(dict.fromkeys(racks, 0))
    firsts.update(replicas[0] for replicas in layout.values() if replicas[0] in racks)
    for where, replicas in layout.items():
        able = [broker for broker in replicas if broker in racks]
        best = min(able, key=lambda broker: (firsts[broker], replicas.index(broker)), default=replicas[0])
        if replicas[0] in racks and firsts[replicas[0]] - firsts[best] >= 2:
            firsts[replicas[0]] -= 1
            firsts[best] += 1
            layout[where] = [best, *(broker for broker in replicas if broker != best)]


def _replicas_by_broker(layout: Layout, racks: Racks) -> "Counter[int]":
    counts = Counter(dict.fromkeys(racks, 0))
    counts.update(broker for replicas in layout.values() for broker in replicas if broker in racks)
    return counts
