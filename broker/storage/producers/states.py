"""What a partition remembers of its idempotent producers, so that a batch that is sent twice is stored once. Pure.

For each producer id: its epoch and its last batches, as many as a producer may have in flight. All of it follows from
the headers of the batches in the log, so every replica knows it, and a new leader too.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from ottla.wire.batch import BatchHeader
from ottla.wire.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidRecord,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)

WINDOW = 50
"""Batches remembered of each producer: the most that it may have in flight, in five requests (Kafka's limit) of ten each."""

PRODUCERS_MAX = 10_000
"""Producers remembered of each partition; the one that was silent for longest is forgotten first."""

SEQUENCES = 2**31
"""Sequence numbers go round after this many."""


class Sent(NamedTuple):
    """A batch of a producer: its sequence numbers, and where they went."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class Entry(NamedTuple):
    """What is remembered of one producer, the newest batch last."""

    epoch: int
    batches: tuple[Sent, ...]


class ProducerStates:
    """Of one partition."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, header: BatchHeader, *, may_have_forgotten: bool) -> Sent | None:
        """The batch that this one repeats, None if it is the next; raises if it is neither.

        ``may_have_forgotten``: records were deleted from the log, so that a producer that is not known may be an old one. It
        must begin anew all the same: were its next batch taken, one before it that is still on its way would be called a
        repetition later and be lost.
        """
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecord(
                f"producer {header.producer_id} sent sequence {header.base_sequence}, epoch {header.producer_epoch}"
            )
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Invariant [I21]: what is stored of a producer begins with sequence 0 and has no gap, so what is behind is stored.
            if header.base_sequence != 0:
                which = UnknownProducerId if may_have_forgotten else OutOfOrderSequenceNumber
                raise which(
                    f"producer {header.producer_id} begins with sequence {header.base_sequence}; earlier batches are missing"
                )
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {entry.epoch} by now, not {header.producer_epoch}"
            )
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} in its middle"
                )
            return None
        return _check_sequence(header, entry)

    def note(self, header: BatchHeader, first_offset: int) -> None:
        """A batch of a producer stands in the log."""
        last_sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCES
        sent = Sent(header.base_sequence, last_sequence, first_offset, first_offset + header.last_offset_delta)
        entry = self._entries.get(header.producer_id)
        earlier = entry.batches[-(WINDOW - 1) :] if entry is not None and entry.epoch == header.producer_epoch else ()
        self._entries[header.producer_id] = Entry(header.producer_epoch, (*earlier, sent))
        self._entries.move_to_end(header.producer_id)
        if len(self._entries) > PRODUCERS_MAX:
            self._entries.popitem(last=False)

    def truncate(self, offset: int) -> set[int]:
        """Forget batches at or past ``offset``. Gives the producers that must have sent others before, which are forgotten too.

        Their last batch is to be looked for in the log. It is enough: of what a producer may send again, nothing is older than
        the window, and all that was remembered is cut.
        """
        unknown = set()
        for producer_id, entry in list(self._entries.items()):
            kept = tuple(sent for sent in entry.batches if sent.last_offset < offset)
            if len(kept) == len(entry.batches):
                continue
            if kept:
                self._entries[producer_id] = Entry(entry.epoch, kept)
                continue
            del self._entries[producer_id]
            if entry.batches[0].first_sequence != 0:
                unknown.add(producer_id)
        return unknown

    def dump(self) -> list[tuple[int, int, list[Sent]]]:
        return [(producer_id, entry.epoch, list(entry.batches)) for producer_id, entry in self._entries.items()]

    def restore(self, dumped: Iterable[tuple[int, int, list[tuple[int, int, int, int]]]]) -> None:
        self._entries = OrderedDict(
            (producer_id, Entry(epoch, tuple(Sent(*sent) for sent in batches)))
            for producer_id, epoch, batches in dumped
        )


def _check_sequence(header: BatchHeader, entry: Entry) -> Sent | None:
    last = entry.batches[-1].last_sequence
    if header.base_sequence == (last + 1) % SEQUENCES:
        return None
    last_sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCES
    for sent in entry.batches:
        if (sent.first_sequence, sent.last_sequence) == (header.base_sequence, last_sequence):
            return sent
    behind = (last - header.base_sequence) % SEQUENCES
    if behind < SEQUENCES // 2:
        raise DuplicateSequenceNumber(
            f"producer {header.producer_id} repeats sequence {header.base_sequence}, older than its last {WINDOW} batches"
        )
    raise OutOfOrderSequenceNumber(
        f"producer {header.producer_id} sent sequence {header.base_sequence} where {(last + 1) % SEQUENCES} comes next"
    )
