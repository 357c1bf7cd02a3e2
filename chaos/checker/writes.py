"""Rules about single writes: lost, moved, twice, or there though they failed."""

from collections.abc import Iterator

from ottla.chaos.checker.violation import Violation, acked_with_offset, all_of, at, of_send, places_of
from ottla.chaos.history import History, Outcome, Send


def lost_and_moved(history: History) -> Iterator[Violation]:
    """An acknowledged record is there, at its offset; one that certainly failed is not."""
    places = places_of(history.reads)
    last = {partition: max((read.offset for read in found), default=-1) for partition, found in history.reads.items()}
    for send in history.sends:
        stands = places.get(send.value, set())
        if send.outcome is Outcome.FAILED and stands:
            partition, offset = min(stands)
            what = f"{send.value!r} was refused ({send.error}) and stands at {all_of(stands)}"
            yield of_send("failed write seen", what, send, partition, offset)
        if send.outcome is not Outcome.OK or send.partition is None:
            continue
        said = at(send.partition, send.offset)
        if not stands:
            end = last.get(send.partition, -1)
            where = "behind the end" if send.offset is not None and send.offset > end else "in the middle"
            yield of_send("lost", f"{send.value!r} was acknowledged at {said}, {where}, and is not there", send)
        elif send.offset is not None and (send.partition, send.offset) not in stands:
            what = f"{send.value!r} was acknowledged at {said}, is at {all_of(stands)}"
            yield of_send("inconsistent offset", what, send)


def read_twice_or_never_sent(history: History) -> Iterator[Violation]:
    """Each value stands once, each offset has one value, and nothing is there that nobody sent."""
    origin = {send.value: send for send in history.sends}
    for partition, found in history.reads.items():
        values: dict[int, bytes | None] = {}
        for read in found:
            if values.setdefault(read.offset, read.value) != read.value:
                what = f"{at(partition, read.offset)} has {values[read.offset]!r} and {read.value!r}"
                yield Violation("inconsistent offset", what, partition, read.offset)
    for value, stands in places_of(history.reads).items():
        send = origin.get(value) if value is not None else None
        if send is None:
            yield Violation("never sent", f"{value!r} at {all_of(stands)}", *min(stands))
        if len(stands) > 1:
            what = f"{value!r} stands at {all_of(stands)}"
            yield of_send("duplicate", what, send, *max(stands)) if send else Violation("duplicate", what, *max(stands))


def acknowledged_twice(history: History) -> Iterator[Violation]:
    """An offset is given to one record only."""
    owners: dict[tuple[int, int], Send] = {}
    for send, partition, offset in acked_with_offset(history.sends):
        other = owners.setdefault((partition, offset), send)
        if other is not send:
            what = f"{at(partition, offset)} was given to {other.value!r} and to {send.value!r}"
            yield of_send("inconsistent offset", what, send)
