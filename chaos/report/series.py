"""Numbers over time out of a history: how many acknowledgements a second, and how long they took. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.chaos.history import Outcome, Send

BINS_MAX = 240
"""More points than that nobody can tell apart on a page."""


class Point(NamedTuple):
    """One stretch of time: acknowledgements a second, and latencies in milliseconds of what was sent in it."""

    at_s: float
    rate: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


def series(sends: Iterable[Send], began: float, ended: float) -> list[Point]:
    """A point for every half second or more. A latency belongs to the time in which its record was sent."""
    width = max(0.5, (ended - began) / BINS_MAX)
    count = int((ended - began) / width) + 1
    acks: dict[int, int] = defaultdict(int)
    latencies: dict[int, list[float]] = defaultdict(list)
    for send in sends:
        if send.outcome is Outcome.OK:
            acks[int((send.ended - began) / width)] += 1
            latencies[int((send.began - began) / width)].append((send.ended - send.began) * 1000)
    points = []
    for number in range(count):
        found = sorted(latencies.get(number, []))
        points.append(
            Point(
                number * width,
                acks.get(number, 0) / width,
                percentile(found, 0.5),
                percentile(found, 0.99),
                found[-1] if found else None,
            )
        )
    return points


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """Of numbers in ascending order; None if there are none."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
