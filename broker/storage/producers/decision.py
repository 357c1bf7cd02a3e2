"""What becomes of a batch of an idempotent producer: it is stored, it is known already, or it is refused. Pure.

A producer numbers its records. The numbers of a batch, beside what a partition remembers of the producer, decide; the table of
all cases is tests/unit/broker/storage/producers/test_decision.py.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
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


_SENT: Final = Struct(">iiq")
SENT_BYTES: Final = _SENT.size
"""A batch as it is kept: its sequence numbers and its first offset. With 50 of them for each producer and partition, tuples
would take seventeen times as much memory."""


class Entry(NamedTuple):
    """What is remembered of one producer; nothing but its epoch if it has expired."""

    epoch: int
    packed: bytes
    """Its batches, the newest last."""
    last_used_s: float = 0.0
    """When the newest batch came, by the monotonic clock of this process."""


def batches_of(entry: Entry) -> list[Sent]:
    """The batches that are remembered, the newest last."""
    return [
        Sent(first, last, offset, offset + (last - first) % SEQUENCES)
        for first, last, offset in _SENT.iter_unpack(entry.packed)
    ]


def last_offset(entry: Entry) -> int:
    """The offset of the last record that is remembered."""
    first, last, offset = _SENT.unpack_from(entry.packed, len(entry.packed) - SENT_BYTES)
    return int(offset + (last - first) % SEQUENCES)


def last_sequence(entry: Entry) -> int:
    """The sequence number of the last record that is remembered."""
    _, last, _ = _SENT.unpack_from(entry.packed, len(entry.packed) - SENT_BYTES)
    return int(last)


def packed(batches: Iterable[Sequence[int]]) -> bytes:
    """Batches (as ``Sent``) as an entry keeps them."""
    return b"".join(_SENT.pack(first, last, offset) for first, last, offset, _ in batches)


Decision = Sent | OttlaError | None
"""None: it is the next batch, to be stored. Sent: it is there already. An error: it is neither."""


def decide(
    known: Entry | None, batch: BatchHeader, *, may_have_forgotten: bool, may_be_evicted: bool = False
) -> Decision:
    """What becomes of ``batch``, given what is ``known`` of its producer.

    ``may_have_forgotten``: records were deleted from the log, or producers expired, so that a producer that is not known may be
    an old one. It must begin anew all the same: were its next batch taken, one before it that is still on its way would be
    called a repetition later and be lost.

    ``may_be_evicted``: this very producer, in this epoch, may have been evicted a short time ago because memory was full. Then
    its first batch may be a repetition, too, and is not stored: the producer begins anew, with another epoch or id.
    """
    sequence, epoch = batch.base_sequence, batch.producer_epoch
    if sequence < 0 or epoch < 0:
        return InvalidRecord(f"producer {batch.producer_id} sent sequence {sequence}, epoch {epoch}")
    if known is None:
        # Invariant [I21]: what is stored of a producer begins with sequence 0 and has no gap, so what is behind is stored.
        if may_be_evicted:
            return UnknownProducerId(
                f"producer {batch.producer_id}, epoch {epoch}, may have been evicted (producer.state.max.bytes): whether its "
                f"batch of sequence {sequence} is stored already is not known"
            )
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
    if not known.packed:
        return UnknownProducerId(
            f"producer {batch.producer_id} was silent for longer than producer.id.expiration.ms: whether its batch of sequence "
            f"{sequence} is stored already is not known"
        )
    return _decide_in_epoch(known, batch)


def _decide_in_epoch(known: Entry, batch: BatchHeader) -> Decision:
    sequence = batch.base_sequence
    last: int = _SENT.unpack_from(known.packed, len(known.packed) - SENT_BYTES)[1]
    due = (last + 1) % SEQUENCES
    if sequence == due:
        return None
    last_sequence = (sequence + batch.last_offset_delta) % SEQUENCES
    for sent in batches_of(known):
        if (sent.first_sequence, sent.last_sequence) == (sequence, last_sequence):
            return sent
    # Invariant [I21]: only what is stored to its last record is called a repetition; the rest of it would be lost.
    if _is_at_most(sequence, last) and _is_at_most(last_sequence, last):
        return DuplicateSequenceNumber(
            f"producer {batch.producer_id} repeats sequences {sequence} to {last_sequence}, which are stored, "
            f"but not as one of its last {WINDOW} batches"
        )
    return OutOfOrderSequenceNumber(f"producer {batch.producer_id} sent sequence {sequence} where {due} comes next")


def _is_at_most(sequence: int, last: int) -> bool:
    """Whether a sequence number is ``last`` or comes before it: numbers begin anew with 0, so half of them come before."""
    return (last - sequence) % SEQUENCES < SEQUENCES // 2


def entry_with(known: Entry | None, batch: BatchHeader, first_offset: int, now_s: float = 0.0) -> Entry:
    """What is remembered once ``batch`` stands in the log. An epoch that begins makes those before it forgotten."""
    last_sequence = (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
    sent = _SENT.pack(batch.base_sequence, last_sequence, first_offset)
    if known is None or known.epoch != batch.producer_epoch:
        return Entry(batch.producer_epoch, sent, now_s)
    return Entry(batch.producer_epoch, known.packed[-(WINDOW - 1) * SENT_BYTES :] + sent, now_s)
