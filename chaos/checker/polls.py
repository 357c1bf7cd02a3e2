"""Rules about what consumers got while the faults went on."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ottla.chaos.checker.violation import Violation, acked_with_offset, at, of_send
from ottla.chaos.history import History, Reads


def read_out_of_order(history: History) -> Iterator[Violation]:
    """In one session a consumer gets every offset once, in order: nothing is deleted during a run."""
    yield from _final_out_of_order(history.reads)
    expected: dict[tuple[str, int, int], int] = {}
    for poll in history.polls:
        owner = (poll.consumer, poll.session, poll.partition)
        for read in poll.reads:
            following = expected.get(owner, read.offset)
            if read.offset != following:
                kind = "skip" if read.offset > following else "non-monotonic poll"
                what = f"{poll.consumer} got {at(poll.partition, read.offset)} where {following} was next"
                yield Violation(kind, what, poll.partition, read.offset, poll.at)
            expected[owner] = max(following, read.offset + 1)


def _final_out_of_order(reads: Reads) -> Iterator[Violation]:
    for partition, found in reads.items():
        expected = 0
        for read in found:
            if read.offset != expected:
                kind = "skip" if read.offset > expected else "non-monotonic read"
                what = f"{at(partition, read.offset)} came where {expected} was next"
                yield Violation(kind, what, partition, read.offset)
            expected = max(expected, read.offset + 1)


def disagrees_with_the_log(history: History) -> Iterator[Violation]:
    """What a consumer got is there at the end, at the same offset: consumers see committed records only."""
    logs = _logs(history.reads)
    for poll in history.polls:
        log = logs.get(poll.partition, {})
        for read in poll.reads:
            stands = log.get(read.offset)
            if stands is None:
                what = f"{poll.consumer} got {read.value!r} at {at(poll.partition, read.offset)}, which is not there"
                yield Violation("read and lost", what, poll.partition, read.offset, poll.at)
            elif stands != read.value:
                place = at(poll.partition, read.offset)
                what = f"{poll.consumer} got {read.value!r} at {place}, where {stands!r} stands"
                yield Violation("inconsistent offset", what, poll.partition, read.offset, poll.at)


def unseen(history: History) -> Iterator[Violation]:
    """An acknowledged record that is in the log was given to each consumer that began before it and read past it."""
    ranges: dict[tuple[str, int, int], tuple[int, int]] = {}
    got: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for poll in history.polls:
        owner = (poll.consumer, poll.session, poll.partition)
        offsets = [read.offset for read in poll.reads]
        if offsets:
            low, high = ranges.get(owner, (offsets[0], offsets[0]))
            ranges[owner] = (min(low, *offsets), max(high, *offsets))
            got[owner].update(offsets)
    logs = _logs(history.reads)
    for send, partition, offset in acked_with_offset(history.sends):
        if logs.get(partition, {}).get(offset) != send.value:
            continue  # lost or moved: another rule's business
        for owner, (low, high) in ranges.items():
            if owner[2] == partition and low <= offset <= high and offset not in got[owner]:
                what = f"{owner[0]} read {at(partition, low)} to {high} and never got {send.value!r} at {offset}"
                yield of_send("unseen", what, send)


def _logs(reads: Reads) -> Mapping[int, Mapping[int, bytes]]:
    return {partition: {read.offset: read.value for read in found} for partition, found in reads.items()}
