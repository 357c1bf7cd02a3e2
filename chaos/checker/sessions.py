"""Rules about where readers begin, go on and end: each is to get everything, once, in order."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ottla.chaos.checker.violation import Violation, at
from ottla.chaos.history import History, Poll, Session

Owner = tuple[str, int, int]
"""A reader, its session, a partition."""


def begins_of(history: History) -> Mapping[Owner, int]:
    """Where each session was told to begin."""
    return {
        (session.consumer, session.number, partition): offset
        for session in history.sessions
        for partition, offset in session.begins.items()
    }


def sessions_that_do_not_go_on(history: History) -> Iterator[Violation]:
    """The first session begins at the beginning, each later one where the one before ended; no poll is of no session."""
    begins = begins_of(history)
    ends = _ends(history)
    for session in history.sessions:
        for partition, begin in session.begins.items():
            before = (session.consumer, session.number - 1, partition)
            due = ends.get(before, 0 if session.number == 0 else begins.get(before, -1))
            if begin != due:
                yield _wrong_begin(session, partition, begin, due)
    for poll in history.polls:
        if (poll.consumer, poll.session, poll.partition) not in begins:
            what = f"{poll.consumer} got records of partition {poll.partition} in session {poll.session}, which never began"
            yield Violation("wrong session", what, poll.partition, _first(poll), poll.at)


def _wrong_begin(session: Session, partition: int, begin: int, due: int) -> Violation:
    what = f"session {session.number} of {session.consumer} began at {at(partition, begin)}, not at {due}"
    return Violation("wrong session", what, partition, begin, session.began)


def not_read_to_the_end(history: History) -> Iterator[Violation]:
    """Each reader has got to the end of every partition; one that got nothing at all is told once."""
    reached: dict[tuple[str, int], int] = defaultdict(int)
    for (consumer, _, partition), end in _ends(history).items():
        reached[consumer, partition] = max(reached[consumer, partition], end)
    for consumer in history.consumers:
        if not any(reader == consumer for reader, _ in reached):
            yield Violation("nothing read", f"{consumer} was to read along and never got a record")
            continue
        for partition, found in history.reads.items():
            end = max((read.offset + 1 for read in found), default=0)
            if reached[consumer, partition] < end:
                what = f"{consumer} got to {at(partition, reached[consumer, partition])} of {end}"
                yield Violation("not read to the end", what, partition, reached[consumer, partition])


def _ends(history: History) -> dict[Owner, int]:
    ends: dict[Owner, int] = {}
    for poll in history.polls:
        owner = (poll.consumer, poll.session, poll.partition)
        for read in poll.reads:
            ends[owner] = max(ends.get(owner, 0), read.offset + 1)
    return ends


def _first(poll: Poll) -> int | None:
    return poll.reads[0].offset if poll.reads else None
