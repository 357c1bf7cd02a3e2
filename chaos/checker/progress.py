"""Rules about life: a cluster that takes nothing loses nothing, and a run that does nothing finds nothing; neither may pass."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from ottla.chaos.checker.violation import Violation
from ottla.chaos.history import History, Outcome

PATIENT_S = 30.0
"""A producer with such a delivery timeout should outlast every single fault; one with a shorter one may give up at any."""

MOST = 0.8
"""A delivery may fail when it was tried, and disturbed, for this part of its delivery timeout."""


def stood_still(history: History) -> Iterator[Violation]:
    """In every time in which progress was expected, every partition acknowledged so many records."""
    acks: dict[int, list[float]] = defaultdict(list)
    for send in history.sends:
        if send.outcome is Outcome.OK and send.partition is not None:
            acks[send.partition].append(send.ended)
    for times in acks.values():
        times.sort()
    for expected in history.expectations:
        for partition in expected.partitions:
            times = acks[partition]
            seen = bisect_right(times, expected.ended) - bisect_left(times, expected.began)
            if seen < expected.acks:
                what = (
                    f"partition {partition} acknowledged {seen} records in {expected.ended - expected.began:.1f} s, "
                    f"at least {expected.acks} were expected: {expected.why}"
                )
                yield Violation("no progress", what, partition, None, expected.began, expected.ended)


def never_ended(history: History) -> Iterator[Violation]:
    """Every delivery ends, by an acknowledgement or by an error, once its producer is closed."""
    for send in history.sends:
        if send.delivery_timeout_s and send.ended == float("inf"):
            what = f"the delivery of {send.value!r} had not ended when its producer was closed"
            yield Violation("never ended", what, send.partition, None, send.began, None)


def failed_without_need(history: History) -> Iterator[Violation]:
    """A patient producer gives a record up only at its delivery timeout, and only if faults lasted for most of it."""
    faults = _merged(sorted((one.at, one.until or one.at) for one in history.events if one.kind == "fault"))
    for send in history.sends:
        if not send.error or send.delivery_timeout_s < PATIENT_S or send.ended == float("inf"):
            continue
        tried_s = send.ended - send.began
        disturbed_s = sum(max(0.0, min(until, send.ended) - max(at, send.began)) for at, until in faults)
        if tried_s < send.delivery_timeout_s * MOST or disturbed_s < send.delivery_timeout_s * MOST:
            what = (
                f"{send.value!r} failed with {send.error} after {tried_s:.1f} s, {disturbed_s:.1f} s of them with faults;"
                f" its delivery timeout is {send.delivery_timeout_s:g} s"
            )
            yield Violation("failed without need", what, send.partition, None, send.began, send.ended)


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans of time, sorted by their begin, as spans that do not overlap."""
    merged: list[tuple[float, float]] = []
    for at, until in spans:
        if merged and at <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(until, merged[-1][1]))
        else:
            merged.append((at, until))
    return merged


def not_healed(history: History) -> Iterator[Violation]:
    """After all faults are gone, the cluster is whole again."""
    for trouble in history.troubles:
        yield Violation("not healed", trouble)


def proves_nothing(history: History) -> Iterator[Violation]:
    """Every part of a run has done its work, and something was acknowledged."""
    for failure in history.failures:
        yield Violation("run failed", failure)
    if history.consumers and not any(send.outcome is Outcome.OK for send in history.sends):
        yield Violation("nothing acknowledged", f"of {len(history.sends)} records that were sent")
