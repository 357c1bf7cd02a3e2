"""Rules about what consumers got while the faults went on."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ottla.chaos.checker.contents import differences
from ottla.chaos.checker.sessions import Owner, begins_of
from ottla.chaos.checker.violation import Violation, acked_with_offset, at, of_send
from ottla.chaos.history import History, Read, Reads


def read_out_of_order(history: History) -> Iterator[Violation]:
    """In one session a consumer gets every offset once, in order, from where it was told to begin: nothing is ever deleted."""
    yield from _final_out_of_order(history.reads)
    expected: dict[Owner, int] = dict(begins_of(history))
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
    """What a consumer got is there at the end, at the same offset and the same in all: consumers see committed records only."""
    logs = _logs(history.reads)
    for poll in history.polls:
        log = logs.get(poll.partition, {})
        for read in poll.reads:
            stands = log.get(read.offset)
            if stands is None:
                what = f"{poll.consumer} got {read.value!r} at {at(poll.partition, read.offset)}, which is not there"
                yield Violation("read and lost", what, poll.partition, read.offset, poll.at)
            elif stands != read:
                kind = "inconsistent offset" if stands.value != read.value else "changed"
                what = f"{poll.consumer} got at {at(poll.partition, read.offset)} {differences(read, stands)}"
                yield Violation(kind, what, poll.partition, read.offset, poll.at)


def unseen(history: History) -> Iterator[Violation]:
    """An acknowledged record that is in the log was given to each consumer that began before it and read past it."""
    ranges: dict[Owner, tuple[int, int]] = {}
    got: dict[Owner, set[int]] = defaultdict(set)
    begins = begins_of(history)
    for poll in history.polls:
        owner = (poll.consumer, poll.session, poll.partition)
        offsets = [read.offset for read in poll.reads]
        if offsets:
            first = begins.get(owner, offsets[0])
            low, high = ranges.get(owner, (first, first))
            ranges[owner] = (min(low, *offsets), max(high, *offsets))
            got[owner].update(offsets)
    logs = _logs(history.reads)
    acked = {(partition, offset): send for send, partition, offset in acked_with_offset(history.sends)}
    for owner, (low, high) in ranges.items():
        consumer, _, partition = owner
        for offset in sorted(set(range(low, high + 1)) - got[owner]):
            send, stands = acked.get((partition, offset)), logs.get(partition, {}).get(offset)
            if (
                send is not None and stands is not None and stands.value == send.value
            ):  # else lost or moved: another rule's
                what = f"{consumer} read {at(partition, low)} to {high} and never got {send.value!r} at {offset}"
                yield of_send("unseen", what, send)


def _logs(reads: Reads) -> Mapping[int, Mapping[int, Read]]:
    return {partition: {read.offset: read for read in found} for partition, found in reads.items()}
