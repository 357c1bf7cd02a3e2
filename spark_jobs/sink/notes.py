"""What the first attempt at a batch leaves for the others: what its rows were, and how it placed and cut them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ottla.spark_jobs.sink.placing import TopicPlan
from ottla.wire.errors import OttlaError

VERSION = 1


class RowsDiffer(OttlaError):
    """Two attempts at the same task had different rows: they cannot be stored exactly once."""


@dataclass(frozen=True)
class Note:
    """See the module."""

    fingerprint: bytes
    keeps_order: bool
    plans: Mapping[str, TopicPlan]

    def encode(self) -> bytes:
        plans = {topic: (plan.partitions, plan.batch_bytes) for topic, plan in sorted(self.plans.items())}
        return msgspec.msgpack.encode((VERSION, self.fingerprint, self.keeps_order, plans))

    @classmethod
    def decode(cls, data: bytes) -> "Note":
        version, fingerprint, keeps_order, plans = _decoder.decode(data)
        if version != VERSION:
            raise OttlaError(f"an attempt of another version of ottla (note {version}) began this batch; run that one")
        return cls(fingerprint, keeps_order, {topic: TopicPlan(*plan) for topic, plan in plans.items()})


_decoder = msgspec.msgpack.Decoder(tuple[int, bytes, bool, dict[str, tuple[int, int]]])


def agreed(mine: Note, first: Note, what: str) -> Note:
    """The note that this attempt must go by; RowsDiffer if the first one had other rows."""
    if mine.keeps_order != first.keeps_order:
        raise RowsDiffer(
            f"{what} was begun with keepOrder={str(first.keeps_order).lower()}",
            hint="give that option the same value again",
        )
    if mine.plans.keys() != first.plans.keys():
        raise RowsDiffer(
            f"{what} was begun for {', '.join(sorted(first.plans)) or 'no rows at all'}, not for "
            f"{', '.join(sorted(mine.plans)) or 'none'}: it has other rows than when it was tried first",
            hint="give another writeId, or the same topic",
        )
    if mine.fingerprint != first.fingerprint:
        order = " or in another order" if mine.keeps_order else ""
        raise RowsDiffer(
            f"{what} has other rows{order} than when it was tried first, so it cannot be written exactly once",
            hint="is a column made by rand(), uuid() or the time of day? make it in a step before that is stored. Was the job "
            "started anew with another number of cores, slices or shuffle partitions? Give it those of before until this "
            "batch is through. Else "
            + ("leave keepOrder out, or " if mine.keeps_order else "")
            + "write with exactlyOnce=false",
        )
    return first
