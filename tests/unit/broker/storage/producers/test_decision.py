"""The table of what becomes of a batch of an idempotent producer."""

import re

import pytest

from ottla.broker.storage.producers.decision import (
    SEQUENCES,
    WINDOW,
    Entry,
    Sent,
    batches_of,
    decide,
    entry_with,
    packed,
)
from ottla.wire.batch import BatchHeader, build_batch, read_header

PRODUCER = 7

# known: the producer's epoch, then its batches as first-last sequence @ first offset; "-" if the partition does not know it.
# batch: its epoch, then its first-last sequence. lost: whether records were deleted, so that a producer may be forgotten
# (yes), or this very one may have been evicted because memory was full (evicted).
# BIG is the last sequence number before they begin anew with 0.
TABLE = """
    case                                    | known                    | batch        | lost | becomes
    ----------------------------------------|--------------------------|--------------|------|-------------------------
    a new producer begins                   | -                        | e0 0-4       | no   | stored
    a new producer begins in a later epoch  | -                        | e3 0-4       | no   | stored
    an old producer begins anew             | -                        | e0 0-4       | yes  | stored
    its first batch has not come yet        | -                        | e0 5-9       | no   | OutOfOrderSequenceNumber
    its first batch may be deleted          | -                        | e0 5-9       | yes  | UnknownProducerId
    ----------------------------------------|--------------------------|--------------|------|-------------------------
    the next batch                          | e0 0-4@100               | e0 5-9       | no   | stored
    the next, whatever was deleted          | e0 0-4@100               | e0 5-9       | yes  | stored
    the last one again                      | e0 0-4@100 5-9@130       | e0 5-9       | no   | there: 130-134
    an earlier one again                    | e0 0-4@100 5-9@130       | e0 0-4       | no   | there: 100-104
    an earlier one, whatever was deleted    | e0 0-4@100 5-9@130       | e0 0-4       | yes  | there: 100-104
    one that was sent in other batches      | e0 0-4@100 5-9@130       | e0 0-9       | no   | DuplicateSequenceNumber
    part of one                             | e0 0-4@100 5-9@130       | e0 5-6       | no   | DuplicateSequenceNumber
    one from before all that is remembered  | e0 50-54@100             | e0 0-4       | no   | DuplicateSequenceNumber
    stored as parts of two others           | e0 0-4@100 5-9@130       | e0 3-7       | no   | DuplicateSequenceNumber
    one that begins in a known one          | e0 0-4@100               | e0 4-6       | no   | OutOfOrderSequenceNumber
    half of it is stored (5-14 after 0-9)   | e0 0-9@100               | e0 5-14      | no   | OutOfOrderSequenceNumber
    stored but for its last record          | e0 0-4@100 5-9@130       | e0 0-10      | no   | OutOfOrderSequenceNumber
    one is missing                          | e0 0-4@100               | e0 6-9       | no   | OutOfOrderSequenceNumber
    one is missing, whatever was deleted    | e0 0-4@100               | e0 6-9       | yes  | OutOfOrderSequenceNumber
    ----------------------------------------|--------------------------|--------------|------|-------------------------
    an epoch that is over                   | e2 0-4@100               | e1 5-9       | no   | InvalidProducerEpoch
    an epoch that is over, a known batch    | e2 0-4@100               | e1 0-4       | no   | InvalidProducerEpoch
    a new epoch begins                      | e2 0-4@100               | e3 0-4       | no   | stored
    a new epoch begins in its middle        | e2 0-4@100               | e3 5-9       | no   | OutOfOrderSequenceNumber
    a new epoch, its first batch deleted    | e2 0-4@100               | e3 5-9       | yes  | OutOfOrderSequenceNumber
    ----------------------------------------|--------------------------|--------------|------|-------------------------
    numbers begin anew                      | e0 BIG-BIG@100           | e0 0-4       | no   | stored
    a batch over the end of the numbers     | e0 7-BIG@100             | e0 0-4       | no   | stored
    behind one over the end                 | e0 BIG-1@100             | e0 2-2       | no   | stored
    one over the end again                  | e0 BIG-1@100             | e0 BIG-1     | no   | there: 100-102
    one before the end, long ago            | e0 BIG-1@100             | e0 2147483000-2147483004 | no | DuplicateSequenceNumber
    half of it is stored, over the end      | e0 7-BIG@100             | e0 BIG-0     | no   | OutOfOrderSequenceNumber
    one is missing behind the end           | e0 BIG-1@100             | e0 3-3       | no   | OutOfOrderSequenceNumber
    ----------------------------------------|--------------------------|--------------|------|-------------------------
    it has expired, and may repeat its first| e2                       | e2 0-4       | no   | UnknownProducerId
    it has expired, and goes on             | e2                       | e2 5-9       | no   | UnknownProducerId
    it has expired, and begins anew         | e2                       | e3 0-4       | no   | stored
    it has expired, an epoch that is over   | e2                       | e1 0-4       | no   | InvalidProducerEpoch
    it may be evicted, and may be new       | -                        | e0 0-4       | evicted | UnknownProducerId
    it may be evicted, and goes on          | -                        | e0 5-9       | evicted | UnknownProducerId
    known again since it was evicted        | e0 5-9@100               | e0 10-14     | evicted | stored
    ----------------------------------------|--------------------------|--------------|------|-------------------------
    no sequence                             | -                        | e0 -1-0      | no   | InvalidRecord
    no epoch                                | e0 0-4@100               | e-1 5-9      | no   | InvalidRecord
"""

ROWS = [
    [cell.strip() for cell in line.split("|")]
    for line in TABLE.strip().splitlines()[1:]
    if not line.strip().startswith("---")
]


def sequences(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(-?\w+)-(\w+)", text)
    assert match is not None, text
    first, last = (SEQUENCES - 1 if number == "BIG" else int(number) for number in match.groups())
    return first, last


def count_of(first: int, last: int) -> int:
    return (last - first) % SEQUENCES + 1


def known_of(text: str) -> Entry | None:
    if text == "-":
        return None
    epoch, *batches = text.split()
    sent = []
    for batch in batches:
        numbers, _, offset = batch.partition("@")
        first, last = sequences(numbers)
        sent.append(Sent(first, last, int(offset), int(offset) + count_of(first, last) - 1))
    return Entry(int(epoch[1:]), packed(sent))


def header(epoch: int, first: int, last: int) -> BatchHeader:
    batch = build_batch(
        b"", magic=2, attributes=0, count=1, first_timestamp=0, max_timestamp=0, producer_id=PRODUCER,
        producer_epoch=epoch, base_sequence=first, last_offset_delta=count_of(first, last) - 1,
    )  # fmt: skip
    return read_header(batch, 0)


def batch_of(text: str) -> BatchHeader:
    epoch, numbers = text.split()
    return header(int(epoch[1:]), *sequences(numbers))


@pytest.mark.parametrize(("known", "batch", "lost", "becomes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_becomes_of_a_batch(known: str, batch: str, lost: str, becomes: str) -> None:
    decision = decide(
        known_of(known), batch_of(batch), may_have_forgotten=lost != "no", may_be_evicted=lost == "evicted"
    )
    if isinstance(decision, Sent):
        told = f"there: {decision.first_offset}-{decision.last_offset}"
    else:
        told = "stored" if decision is None else type(decision).__name__
    assert told == becomes


def test_what_was_stored_is_remembered_as_far_back_as_a_producer_may_repeat_it() -> None:
    known = None
    for number in range(WINDOW + 5):
        batch = header(0, 2 * number, 2 * number + 1)
        assert decide(known, batch, may_have_forgotten=False) is None
        known = entry_with(known, batch, 1000 + 2 * number)
        assert decide(known, batch, may_have_forgotten=False) == batches_of(known)[-1]
    assert known is not None
    assert [sent.first_sequence for sent in batches_of(known)] == list(range(10, 2 * WINDOW + 10, 2))
    assert batches_of(known)[-1] == Sent(2 * WINDOW + 8, 2 * WINDOW + 9, 1000 + 2 * WINDOW + 8, 1000 + 2 * WINDOW + 9)


def test_a_new_epoch_makes_the_one_before_forgotten() -> None:
    known = entry_with(known_of("e0 0-4@100"), header(1, 0, 2), 200)
    assert known == known_of("e1 0-2@200")


def test_a_batch_that_lost_records_is_remembered_with_all_its_numbers() -> None:
    """It has one record (see ``header``), and the numbers of five."""
    assert entry_with(None, header(0, 0, 4), 100) == known_of("e0 0-4@100")
