"""What producers did and what consumers read, and everything about it that must not be. Pure: times are arguments.

Every value is unique. A send is *ok* (acknowledged), *failed* (certainly not stored) or *unknown*: it may be stored or not,
now or later, and the checker takes either. The list of violations is Jepsen's for Kafka, plus Redpanda's real-time rule.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

EXAMPLES_MAX = 5


class Outcome(Enum):
    """What a producer heard about a record."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Send:
    """One record, from the moment it was given to the producer; unknown until something is heard."""

    producer: str
    number: int
    began: float
    ended: float = float("inf")
    outcome: Outcome = Outcome.UNKNOWN
    partition: int | None = None
    offset: int | None = None
    """None for an acknowledgement that does not tell where: the record was stored by an earlier try."""

    @property
    def value(self) -> bytes:
        return f"{self.producer}-{self.number}".encode()

    def acknowledged(self, partition: int, offset: int | None, now: float) -> None:
        self.outcome, self.partition, self.offset, self.ended = Outcome.OK, partition, offset, now

    def refused(self, now: float) -> None:
        self.outcome, self.ended = Outcome.FAILED, now


class Read(NamedTuple):
    """One record as a consumer got it; a consumer's reads stand in the order in which it got them."""

    offset: int
    value: bytes


Reads = Mapping[int, Sequence[Read]]
"""What one consumer got, by partition."""


class Violation(NamedTuple):
    """Something that must not be."""

    kind: str
    what: str


def check(sends: Iterable[Send], reads: Reads) -> list[Violation]:
    """All violations. ``reads`` is the final read, from 0 to the end of every partition, after everything has healed."""
    sent = list(sends)
    return [
        *_lost_and_moved(sent, reads),
        *_read_twice_or_never_sent(sent, reads),
        *_read_out_of_order(reads),
        *_stored_out_of_order(sent, reads),
        *_acknowledged_twice(sent),
        *_acknowledged_in_the_past(sent),
    ]


def report(violations: Sequence[Violation]) -> str:
    """What a failed test prints: how many of each kind, and some of them."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for violation in violations:
        kinds[violation.kind].append(violation.what)
    lines = []
    for kind, found in sorted(kinds.items()):
        lines.append(f"{kind}: {len(found)}")
        lines += [f"  {what}" for what in found[:EXAMPLES_MAX]]
    return "\n".join(lines)


def _lost_and_moved(sent: list[Send], reads: Reads) -> Iterator[Violation]:
    """An acknowledged record is there, at its offset; one that certainly failed is not."""
    places = _places(reads)
    last = {partition: max((read.offset for read in found), default=-1) for partition, found in reads.items()}
    for send in sent:
        stands = places.get(send.value, set())
        if send.outcome is Outcome.FAILED and stands:
            yield Violation("failed write seen", f"{send.value!r} was refused and stands at {_all(stands)}")
        if send.outcome is not Outcome.OK or send.partition is None:
            continue
        said = _at(send.partition, send.offset)
        if not stands:
            end = last.get(send.partition, -1)
            where = "behind the end" if send.offset is not None and send.offset > end else "in the middle"
            yield Violation("lost", f"{send.value!r} was acknowledged at {said}, {where}, and is not there")
        elif send.offset is not None and (send.partition, send.offset) not in stands:
            yield Violation("inconsistent offset", f"{send.value!r} was acknowledged at {said}, is at {_all(stands)}")


def _read_twice_or_never_sent(sent: list[Send], reads: Reads) -> Iterator[Violation]:
    known = {send.value for send in sent}
    for partition, found in reads.items():
        values: dict[int, bytes] = {}
        for read in found:
            if values.setdefault(read.offset, read.value) != read.value:
                what = f"{_at(partition, read.offset)} has {values[read.offset]!r} and {read.value!r}"
                yield Violation("inconsistent offset", what)
    for value, stands in _places(reads).items():
        if len(stands) > 1:
            yield Violation("duplicate", f"{value!r} stands at {_all(stands)}")
        if value not in known:
            yield Violation("never sent", f"{value!r} at {_all(stands)}")


def _read_out_of_order(reads: Reads) -> Iterator[Violation]:
    """A consumer gets every offset once, in order: nothing is deleted in these tests."""
    for partition, found in reads.items():
        expected = 0
        for read in found:
            if read.offset > expected:
                yield Violation("skip", f"{_at(partition, read.offset)} came where {expected} was next")
            elif read.offset < expected:
                yield Violation("non-monotonic read", f"{_at(partition, read.offset)} came where {expected} was next")
            expected = max(expected, read.offset + 1)


def _stored_out_of_order(sent: list[Send], reads: Reads) -> Iterator[Violation]:
    """What one producer sends to one partition is stored in the order in which it was sent."""
    origin = {send.value: send for send in sent}
    for partition, found in reads.items():
        newest: dict[str, Send] = {}
        for read in sorted(set(found)):
            send = origin.get(read.value)
            if send is None:
                continue
            before = newest.get(send.producer)
            if before is not None and send.number < before.number:
                what = f"{send.value!r} stands behind {before.value!r} at {_at(partition, read.offset)}"
                yield Violation("non-monotonic send", what)
            else:
                newest[send.producer] = send


def _acknowledged_twice(sent: list[Send]) -> Iterator[Violation]:
    owners: dict[tuple[int, int], Send] = {}
    for send in sent:
        if send.outcome is Outcome.OK and send.partition is not None and send.offset is not None:
            other = owners.setdefault((send.partition, send.offset), send)
            if other is not send:
                what = f"{_at(send.partition, send.offset)} was given to {other.value!r} and to {send.value!r}"
                yield Violation("inconsistent offset", what)


def _acknowledged_in_the_past(sent: list[Send]) -> Iterator[Violation]:
    """A write that began after another was acknowledged stands behind it."""
    by_partition: dict[int, list[Send]] = defaultdict(list)
    for send in sent:
        if send.outcome is Outcome.OK and send.partition is not None and send.offset is not None:
            by_partition[send.partition].append(send)
    for partition, acked in by_partition.items():
        ended = iter(sorted(acked, key=lambda send: send.ended))
        following: Send | None = next(ended)
        highest = -1
        for send in sorted(acked, key=lambda send: send.began):
            while following is not None and following.ended < send.began:
                highest = max(highest, following.offset if following.offset is not None else -1)
                following = next(ended, None)
            if send.offset is not None and send.offset <= highest:
                what = f"{send.value!r} began after offset {highest} was acknowledged and got {_at(partition, send.offset)}"
                yield Violation("stored in the past", what)


def _places(reads: Reads) -> dict[bytes, set[tuple[int, int]]]:
    """Where each value stands."""
    places: dict[bytes, set[tuple[int, int]]] = defaultdict(set)
    for partition, found in reads.items():
        for read in found:
            places[read.value].add((partition, read.offset))
    return places


def _all(places: set[tuple[int, int]]) -> str:
    return ", ".join(_at(*place) for place in sorted(places))


def _at(partition: int, offset: int | None) -> str:
    return f"partition {partition} offset {'?' if offset is None else offset}"
