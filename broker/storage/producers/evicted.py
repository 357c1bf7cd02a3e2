"""The producers that a partition has evicted because memory was full: whether an unknown one may be one of them. Pure."""

from typing import NamedTuple

ID_RANGE = 1000
"""Producer ids are looked at in ranges as large as the blocks that brokers take them in, from which they give them in order.

So an id is new to this partition if it is larger than all evicted ones of its range, whichever broker gave it."""

RANGES_MAX = 1000
"""Ranges remembered of one partition. The one with the smallest ids is joined with all below it."""


class EvictedRange(NamedTuple):
    """The evicted producers of one range of ids."""

    last_id: int
    last_epoch: int
    last_used_s: float
    """When the one of them that was last used was."""


NO_RANGE = EvictedRange(-1, -1, float("-inf"))


class EvictedProducers:
    """Of one partition. May take a producer for an evicted one that is not, never the other way round."""

    def __init__(self) -> None:
        self._ranges: dict[int, EvictedRange] = {}
        self._below = NO_RANGE
        """All ids up to ``last_id`` of it may have been evicted."""

    def __bool__(self) -> bool:
        return bool(self._ranges) or self._below.last_id >= 0

    def add(self, producer_id: int, epoch: int, last_used_s: float) -> None:
        number = producer_id // ID_RANGE
        self._ranges[number] = _joined(self._ranges.get(number, NO_RANGE), producer_id, epoch, last_used_s)
        if len(self._ranges) > RANGES_MAX:
            self._below = _joined(self._below, *self._ranges.pop(min(self._ranges)))

    def may_include(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer that is not known may have been evicted in this epoch."""
        if not self:
            return False
        known = self._ranges.get(producer_id // ID_RANGE, NO_RANGE)
        return _includes(known, producer_id, epoch) or _includes(self._below, producer_id, epoch)

    def expire(self, before_s: float) -> None:
        """Forget those that would have expired by now."""
        self._ranges = {number: one for number, one in self._ranges.items() if one.last_used_s >= before_s}
        if self._below.last_used_s < before_s:
            self._below = NO_RANGE

    def dump(self, now_s: float) -> list[tuple[int, int, float, bool]]:
        """Ids, epochs and ages; the last field says whether it stands for all ids below."""
        found = [(one, False) for one in self._ranges.values()] + [(self._below, True)] * (self._below.last_id >= 0)
        return [(one.last_id, one.last_epoch, now_s - one.last_used_s, is_below) for one, is_below in found]

    def restore(self, dumped: list[tuple[int, int, float, bool]], now_s: float) -> None:
        for last_id, last_epoch, age_s, is_below in dumped:
            if is_below:
                self._below = EvictedRange(last_id, last_epoch, now_s - age_s)
            else:
                self.add(last_id, last_epoch, now_s - age_s)


def _joined(known: EvictedRange, producer_id: int, epoch: int, last_used_s: float) -> EvictedRange:
    return EvictedRange(
        max(known.last_id, producer_id), max(known.last_epoch, epoch), max(known.last_used_s, last_used_s)
    )


def _includes(known: EvictedRange, producer_id: int, epoch: int) -> bool:
    return producer_id <= known.last_id and epoch <= known.last_epoch
