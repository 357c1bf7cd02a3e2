"""What a partition remembers of its idempotent producers; what it decides by that stands in test_decision.py."""

import random

import pytest

from ottla.broker.storage.producers.states import ProducerStates
from ottla.wire.batch import BatchHeader, build_batch, read_header
from ottla.wire.errors import DuplicateSequenceNumber, OttlaError

PRODUCER = 7


def header(sequence: int, producer: int = PRODUCER, epoch: int = 0) -> BatchHeader:
    batch = build_batch(
        b"", magic=2, attributes=0, count=1, first_timestamp=0, max_timestamp=0,
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip
    return read_header(batch, 0)


def stored(*sequences: int) -> ProducerStates:
    states = ProducerStates()
    for offset, sequence in enumerate(sequences):
        states.note(header(sequence), offset)
    return states


def test_what_is_cut_is_forgotten_and_whose_earlier_batches_must_be_looked_for_is_told() -> None:
    states = stored(0, 1, 2)
    states.note(header(5, producer=8), 3)
    assert states.unknown_after(4) == set()
    assert states.unknown_after(2) == {8}
    states.truncate(2)
    assert states.dump() == stored(0, 1).dump()
    assert states.unknown_after(0) == set()
    states.truncate(0)
    assert states.dump() == []


def test_whose_present_epoch_is_cut_may_have_had_another_before() -> None:
    states = stored(0, 1)
    states.note(header(0, epoch=1), 2)
    assert states.unknown_after(2) == {PRODUCER}


def test_what_is_dumped_is_restored() -> None:
    states, restored = stored(*range(60)), ProducerStates()
    for producer, entry in states.entries():
        restored.restore(producer, entry)
    assert restored.dump() == states.dump()
    assert restored.check(header(60), may_have_forgotten=False) is None


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
