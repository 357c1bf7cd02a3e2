"""Rules about life: a cluster that takes nothing loses nothing, and a run that does nothing finds nothing; neither may pass."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from ottla.chaos.checker.violation import Violation
from ottla.chaos.history import History, Outcome


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
