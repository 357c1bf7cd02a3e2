"""What a partition says to a batch of an idempotent producer."""

import random

import pytest

from ottla.broker.storage.producers.states import WINDOW, ProducerStates
from ottla.wire.batch import BatchHeader, build_batch, read_header
from ottla.wire.errors import DuplicateSequenceNumber, InvalidProducerEpoch, OttlaError, OutOfOrderSequenceNumber
from ottla.wire.errors import UnknownProducerId as Unknown

PRODUCER = 7


def header(sequence: int, count: int = 1, epoch: int = 0) -> BatchHeader:
    batch = build_batch(
        b"", magic=2, attributes=0, count=count, first_timestamp=0, max_timestamp=0,
        producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip
    return read_header(batch, 0)


def stored(*sequences: int, epoch: int = 0) -> ProducerStates:
    states = ProducerStates()
    for offset, sequence in enumerate(sequences):
        states.note(header(sequence, epoch=epoch), offset)
    return states


@pytest.mark.parametrize(
    ("states", "sequence", "forgotten", "error"),
    [
        (stored(), 1, False, OutOfOrderSequenceNumber),
        (stored(), 1, True, Unknown),
        (stored(0), 2, False, OutOfOrderSequenceNumber),
        (stored(0), 2, True, OutOfOrderSequenceNumber),
        (stored(*range(WINDOW + 2)), 0, False, DuplicateSequenceNumber),
        (stored(0, epoch=1), 1, False, InvalidProducerEpoch),
    ],
    ids=["begins late", "begins late, may be known", "gap", "gap, known", "long ago", "old epoch"],
)
def test_batch_that_is_neither_the_next_nor_a_known_one_is_refused(
    states: ProducerStates, sequence: int, forgotten: bool, error: type[OttlaError]
) -> None:
    with pytest.raises(error):
        states.check(header(sequence), may_have_forgotten=forgotten)


@pytest.mark.parametrize("forgotten", [False, True])
def test_next_batch_is_taken_and_a_known_one_told_where_it_is(forgotten: bool) -> None:
    assert ProducerStates().check(header(0), may_have_forgotten=forgotten) is None
    states = stored(0, 1, 2)
    assert states.check(header(3), may_have_forgotten=forgotten) is None
    again = states.check(header(1), may_have_forgotten=forgotten)
    assert again is not None
    assert again.first_offset == 1


@pytest.mark.parametrize("seed", range(200))
def test_what_is_called_stored_is_stored_whatever_order_batches_arrive_in(seed: int) -> None:
    """A producer's batches arrive in any order, some of them often, at a partition that may forget the producer.

    Before, one that had forgotten took whatever came first, and called what came before it a repetition: lost.
    """
    chance = random.Random(seed)
    states, log = ProducerStates(), set[int]()
    for _ in range(60):
        if chance.random() < 0.05:
            states = ProducerStates()  # the last replica that knew it has become another, or its records were deleted
            log.clear()
        sequence = chance.randrange(6)
        try:
            repeated = states.check(header(sequence), may_have_forgotten=True)
        except DuplicateSequenceNumber:
            assert sequence in log
        except OttlaError:
            continue
        else:
            if repeated is None:
                assert sequence not in log
                states.note(header(sequence), len(log))
                log.add(sequence)
            else:
                assert sequence in log
