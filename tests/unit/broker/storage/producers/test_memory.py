"""How long producers are remembered, within how much memory, and what becomes of one that was evicted and returns."""

import logging
import time

import pytest

from ottla.broker.storage.producers import evicted as evicted_module
from ottla.broker.storage.producers.decision import SENT_BYTES
from ottla.broker.storage.producers.evicted import ID_RANGE, EvictedProducers
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.producers.states import ENTRY_BYTES, ProducerStates
from ottla.wire.batch import BatchHeader, build_batch, read_header
from ottla.wire.errors import InvalidProducerEpoch, UnknownProducerId

ONE = ENTRY_BYTES + SENT_BYTES
"""What a producer takes that has sent one batch."""

LATER_S = time.monotonic() + 1_000_000
"""After all partitions of a test were made."""


def header(producer: int, sequence: int = 0, epoch: int = 0) -> BatchHeader:
    batch = build_batch(
        b"", magic=2, attributes=0, count=1, first_timestamp=0, max_timestamp=0,
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip
    return read_header(batch, 0)


def is_known(states: ProducerStates, producer: int) -> bool:
    return any(known == producer for known, _, _ in states.dump())


def test_ten_thousand_short_lived_producers_make_nobody_forgotten() -> None:
    """Before: eviction was by count, and the first producer's batch was stored a second time."""
    states = ProducerStates()
    states.note(header(0), 0, now_s=0.0)
    for producer in range(1, 20_001):
        states.note(header(producer), producer, now_s=float(producer))
    repeated = states.check(header(0), may_have_forgotten=False)
    assert repeated is not None
    assert repeated.first_offset == 0


def test_full_memory_evicts_the_producer_that_was_silent_for_longest_of_all_partitions() -> None:
    memory = ProducerMemory(limit_bytes=4 * ONE)
    one, two = ProducerStates(memory), ProducerStates(memory)
    for now, (states, producer) in enumerate([(one, 1), (two, 2), (one, 3), (two, 4)]):
        states.note(header(producer), 0, LATER_S + now)
    one.note(header(1, 1), 1, LATER_S + 10)  # a second batch: one too many, and the oldest is in the other partition
    assert not is_known(two, 2)
    one.note(header(5), 2, LATER_S + 11)
    assert [is_known(one, 3), is_known(one, 1), is_known(two, 4)] == [False, True, True]
    assert memory.evicted == 2
    assert memory.used_bytes == one.size + two.size <= memory.limit_bytes


@pytest.mark.parametrize("sequence", [0, 1])
def test_evicted_producer_that_returns_is_refused_instead_of_stored_twice(sequence: int) -> None:
    states = ProducerStates(ProducerMemory(limit_bytes=ONE))
    states.note(header(3), 0, 1.0)
    states.note(header(4), 1, 2.0)
    with pytest.raises(UnknownProducerId, match=r"producer\.state\.max\.bytes"):
        states.check(header(3, sequence), may_have_forgotten=False)
    assert states.check(header(3, 0, epoch=1), may_have_forgotten=False) is None, "it begins anew"
    states.note(header(3, 0, epoch=1), 2, 3.0)
    assert states.check(header(3, 1, epoch=1), may_have_forgotten=False) is None
    with pytest.raises(InvalidProducerEpoch):
        states.check(header(3), may_have_forgotten=False)


def test_new_producers_are_not_taken_for_evicted_ones() -> None:
    """Brokers take ids in blocks and give those of a block in order."""
    states = ProducerStates(ProducerMemory(limit_bytes=ONE))
    for producer in (ID_RANGE + 3, 5 * ID_RANGE + 700, 9):
        states.note(header(producer), 0, float(producer))
        states.note(header(10**6 + producer), 0, float(producer))
    for new in (ID_RANGE + 4, 5 * ID_RANGE + 701, 10, 3 * ID_RANGE, 9 * ID_RANGE):
        assert states.check(header(new), may_have_forgotten=False) is None
    for perhaps_evicted in (ID_RANGE, 5 * ID_RANGE + 699, 0):
        with pytest.raises(UnknownProducerId):
            states.check(header(perhaps_evicted), may_have_forgotten=False)


def test_ranges_of_evicted_ids_are_bounded_and_none_of_them_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evicted_module, "RANGES_MAX", 3)
    evicted = EvictedProducers()
    for number in (4, 1, 3, 2, 5):
        evicted.add(number * ID_RANGE + 7, number, float(number))
    again = EvictedProducers()
    again.restore(evicted.dump(now_s=100.0), now_s=200.0)
    for one in (evicted, again):
        assert all(one.may_include(number * ID_RANGE + 7, number) for number in range(1, 6))
        assert one.may_include(0, 2), "below: all"
        assert not one.may_include(0, 3)
        assert not one.may_include(5 * ID_RANGE + 8, 0)
    evicted.expire(before_s=4.5)
    assert [evicted.may_include(number * ID_RANGE + 7, 0) for number in (1, 4, 5)] == [False, False, True]


def test_silent_producer_expires_and_is_refused_until_it_begins_anew() -> None:
    memory = ProducerMemory(expiration_ms=1000, forget_ms=5000)
    states = ProducerStates(memory)
    states.note(header(1), 0, 10.0)
    states.note(header(2), 1, 11.4)
    assert not states.expire(now_s=11.5, most=100)
    assert (is_known(states, 1), is_known(states, 2)) == (False, True)
    with pytest.raises(UnknownProducerId, match="expiration"):
        states.check(header(1), may_have_forgotten=False)  # a named write that is tried again a day later
    assert states.check(header(1, epoch=1), may_have_forgotten=False) is None
    assert states.check(header(3), may_have_forgotten=False) is None, "nobody else is taken for it"
    assert not states.expire(now_s=16.0, most=100)
    assert states.check(header(1), may_have_forgotten=False) is None, "forgotten"
    with pytest.raises(UnknownProducerId):
        states.check(header(1, 1), may_have_forgotten=False)
    assert memory.used_bytes == ENTRY_BYTES  # producer 2 has expired
    assert memory.evicted == 0


def test_expired_producers_give_way_before_younger_ones_are_evicted() -> None:
    memory = ProducerMemory(limit_bytes=2 * ONE, expiration_ms=1000)
    states = ProducerStates(memory)
    states.note(header(1), 0, 10.0)
    states.expire(now_s=20.0, most=100)
    states.note(header(2), 1, 20.0)
    states.note(header(3), 2, 21.0)
    assert (memory.evicted, len(states)) == (0, 2)
    states.note(header(1, epoch=1), 3, 22.0)
    assert memory.evicted == 1


def test_producers_expire_some_at_a_time() -> None:
    states = ProducerStates(ProducerMemory(expiration_ms=1000))
    for producer in range(10):
        states.note(header(producer), 0, 0.0)
    assert states.expire(now_s=5.0, most=4)
    assert len(states) == 6


def test_closed_partitions_take_no_memory() -> None:
    memory = ProducerMemory()
    partitions = [ProducerStates(memory) for _ in range(10)]
    for states in partitions:
        states.note(header(1), 0, 1.0)
    for states in partitions[1:]:
        states.close()
        states.close()
    assert memory.used_bytes == partitions[0].size == ONE
    partitions[0].truncate(0)
    assert memory.used_bytes == 0


def test_one_warning_is_logged_for_many_evictions(caplog: pytest.LogCaptureFixture) -> None:
    states = ProducerStates(ProducerMemory(limit_bytes=ONE))
    for producer in range(50):
        states.note(header(producer), producer, float(producer))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "producer.state.max.bytes" in caplog.text


def test_producer_that_expired_and_was_evicted_then_is_refused_with_its_first_batch_too() -> None:
    """A named write that is tried again after days begins with sequence 0: before, it was stored a second time."""
    memory = ProducerMemory(limit_bytes=2 * ONE, expiration_ms=1000, forget_ms=7_000_000)
    states = ProducerStates(memory)
    states.note(header(1), 0, LATER_S)
    states.expire(LATER_S + 2, most=10)
    for producer in (5 * ID_RANGE, 5 * ID_RANGE + 1):
        states.note(header(producer), producer, LATER_S + 3)
    assert is_known(states, 5 * ID_RANGE)
    with pytest.raises(UnknownProducerId):
        states.check(header(1), may_have_forgotten=False)
    states.expire(LATER_S + 8000, most=10)
    assert states.check(header(1), may_have_forgotten=False) is None, "not for ever"
