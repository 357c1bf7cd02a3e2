"""What becomes of a batch of an idempotent producer: it is stored, it is known already, or it is refused. Pure.

A producer numbers its records. The numbers of a batch, beside what a partition remembers of the producer, decide; the table of
all cases is tests/unit/broker/storage/producers/test_decision.py.
"""

from typing import Final, NamedTuple

from ottla.wire.batch import BatchHeader
from ottla.wire.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidRecord,
    OttlaError,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)

WINDOW: Final = 50
"""Batches remembered of each producer: the most that it may have in flight, in five requests (Kafka's limit) of ten each."""

SEQUENCES: Final = 2**31
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


Decision = Sent | OttlaError | None
"""None: it is the next batch, to be stored. Sent: it is there already. An error: it is neither."""


def decide(known: Entry | None, batch: BatchHeader, *, may_have_forgotten: bool) -> Decision:
    """What becomes of ``batch``, given what is ``known`` of its producer.

    ``may_have_forgotten``: records were deleted from the log, so that a producer that is not known may be an old one. It
    must begin anew all the same: were its next batch taken, one before it that is still on its way would be called a
    repetition later and be lost.
    """
    sequence, epoch = batch.base_sequence, batch.producer_epoch
    if sequence < 0 or epoch < 0:
        return InvalidRecord(f"producer {batch.producer_id} sent sequence {sequence}, epoch {epoch}")
    if known is None:
        # Invariant [I21]: what is stored of a producer begins with sequence 0 and has no gap, so what is behind is stored.
        if sequence == 0:
            return None
        which = UnknownProducerId if may_have_forgotten else OutOfOrderSequenceNumber
        return which(f"producer {batch.producer_id} begins with sequence {sequence}; earlier batches are missing")
    if epoch < known.epoch:
        return InvalidProducerEpoch(f"producer {batch.producer_id} has epoch {known.epoch} by now, not {epoch}")
    if epoch > known.epoch:
        if sequence == 0:
            return None
        return OutOfOrderSequenceNumber(f"producer {batch.producer_id} begins epoch {epoch} in its middle")
    return _decide_in_epoch(known.batches, batch)


def _decide_in_epoch(known: tuple[Sent, ...], batch: BatchHeader) -> Decision:
    sequence = batch.base_sequence
    last = known[-1].last_sequence
    due = (last + 1) % SEQUENCES
    if sequence == due:
        return None
    last_sequence = (sequence + batch.last_offset_delta) % SEQUENCES
    for sent in known:
        if (sent.first_sequence, sent.last_sequence) == (sequence, last_sequence):
            return sent
    if (last - sequence) % SEQUENCES < SEQUENCES // 2:
        return DuplicateSequenceNumber(
            f"producer {batch.producer_id} repeats sequence {sequence}, older than its last {WINDOW} batches"
        )
    return OutOfOrderSequenceNumber(f"producer {batch.producer_id} sent sequence {sequence} where {due} comes next")


def entry_with(known: Entry | None, batch: BatchHeader, first_offset: int) -> Entry:
    """What is remembered once ``batch`` stands in the log. An epoch that begins makes those before it forgotten."""
    last_sequence = (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
    sent = Sent(batch.base_sequence, last_sequence, first_offset, first_offset + batch.last_offset_delta)
    earlier = known.batches[-(WINDOW - 1) :] if known is not None and known.epoch == batch.producer_epoch else ()
    return Entry(batch.producer_epoch, (*earlier, sent))
