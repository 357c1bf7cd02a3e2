"""What a rule gives back, and how it names records and places."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.chaos.history import History, Outcome, Reads, Send

Place = tuple[int, int]
"""Partition and offset."""


class Violation(NamedTuple):
    """Something that must not be; ``began`` and ``ended`` say when the guilty record was under way."""

    kind: str
    what: str
    partition: int | None = None
    offset: int | None = None
    began: float | None = None
    ended: float | None = None


Rule = Callable[[History], Iterable[Violation]]


def of_send(kind: str, what: str, send: Send, partition: int | None = None, offset: int | None = None) -> Violation:
    """A violation whose guilty record is known from its producer."""
    ended = send.ended if send.ended != float("inf") else None
    return Violation(
        kind,
        what,
        send.partition if partition is None else partition,
        send.offset if offset is None else offset,
        send.began,
        ended,
    )


def places_of(reads: Reads) -> dict[bytes | None, set[Place]]:
    """Where each value stands in the final log."""
    places: dict[bytes | None, set[Place]] = defaultdict(set)
    for partition, found in reads.items():
        for read in found:
            places[read.value].add((partition, read.offset))
    return places


def acked_with_offset(sends: Iterable[Send]) -> Iterator[tuple[Send, int, int]]:
    """Acknowledged sends that were told where they stand: with partition and offset."""
    for send in sends:
        if send.outcome is Outcome.OK and send.partition is not None and send.offset is not None:
            yield send, send.partition, send.offset


def at(partition: int, offset: int | None) -> str:
    return f"partition {partition} offset {'?' if offset is None else offset}"


def all_of(places: Iterable[Place]) -> str:
    return ", ".join(at(*place) for place in sorted(places))
