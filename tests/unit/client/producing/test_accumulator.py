"""The accumulator and its batches: what waits, in which order it goes, and what becomes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import ProducerBatch
from ottla.client.producing.record_lists import RECORD_OVERHEAD
from ottla.wire.batch import HEADER_SIZE, Codec
from ottla.wire.errors import ClientClosed, ClientTimeout, MessageTooLarge
from ottla.wire.names import TopicPartition
from ottla.wire.records import RecordBatch

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def take(waiting, where, now, linger_s):
    """The next batch alone."""
    return next(iter(waiting.take(where, now, linger_s)), None)


def accumulator(batch_size=1000, buffer_memory=10_000, record_max=5_000, delivery_timeout_s=10.0):
    return Accumulator(batch_size, buffer_memory, record_max, delivery_timeout_s)


def add(waiting, value, where=HERE, now=0.0, key=None, headers=None):
    return waiting.add(where, key, value, headers, 7, now)


def test_records_of_a_partition_share_a_batch_in_the_order_of_sending():
    waiting = accumulator()
    (first, first_place), (second, second_place) = add(waiting, b"a", key=b"k"), add(waiting, b"b")
    assert first is second
    assert (first_place, second_place) == (0, 1)
    decoded = RecordBatch(first.encode(Codec.NONE))
    assert (decoded.keys(), decoded.values(), decoded.timestamps()) == ([b"k", None], [b"a", b"b"], [7, 7])


def test_open_batch_waits_for_its_linger_and_a_full_one_does_not():
    waiting = accumulator()
    add(waiting, b"a", now=5.0)
    assert take(waiting, HERE, 5.5, 1.0) is None
    assert waiting.next_due(1.0) == 6.0
    assert take(waiting, HERE, 6.0, 1.0) is not None
    full = []
    waiting.on_sealed = lambda: full.append(1)
    add(waiting, b"x" * 1000, now=10.0)
    assert full == [1]
    assert take(waiting, HERE, 10.0, 1.0) is not None


def test_large_record_does_not_swell_the_batch_that_others_wait_in():
    waiting = accumulator(batch_size=1000)
    small, _ = add(waiting, b"x" * 500)
    large, place = add(waiting, b"y" * 900)
    assert large is not small
    assert place == 0
    assert take(waiting, HERE, 0.0, 0.0) is small


def test_record_larger_than_a_request_is_refused_and_nothing_is_queued():
    waiting = accumulator(record_max=100)
    with pytest.raises(MessageTooLarge, match="max_request_size is 100"):
        add(waiting, b"x" * 100)
    with pytest.raises(MessageTooLarge):
        waiting.add_many(HERE, None, [b"a", b"x" * 100], 7, 0.0)
    assert waiting.waiting() == []
    assert waiting.pending_bytes == 0


@pytest.mark.parametrize("headers", [[("h", "text")], [(b"h", b"1")], [("h",)], {"h": b"1"}, 5])
def test_headers_that_cannot_be_sent_are_refused_to_their_own_sender(headers):
    waiting = accumulator()
    batch, _ = add(waiting, b"good", headers=[("h", b"1"), ("null", None)])
    with pytest.raises(TypeError, match="header"):
        add(waiting, b"bad", headers=headers)
    assert RecordBatch(batch.encode(Codec.NONE)).headers() == [(("h", b"1"), ("null", None))]


class Text(str):
    """As numpy's str_: a str, and of another type."""

    def __str__(self):
        return "another text"


class Bytes(bytes):
    pass


def test_headers_of_any_type_that_holds_text_or_bytes_are_sent_as_what_they_are_made_of():
    waiting = accumulator()
    contents = [b"1", Bytes(b"2"), bytearray(b"3"), memoryview(b"4"), None]
    batch, _ = add(waiting, b"v", headers=[[Text("h"), content] for content in contents])
    told = RecordBatch(batch.encode(Codec.NONE)).headers()
    assert told == [tuple(("h", content) for content in (b"1", b"2", b"3", b"4", None))]
    assert {type(part) for headers in batch.headers.values() for pair in headers for part in pair} == {
        str, bytes, type(None),
    }  # fmt: skip


def test_header_names_count_with_the_bytes_that_they_take():
    waiting = accumulator()
    add(waiting, None, headers=[("\N{SNOWMAN}" * 10, None)])
    assert waiting.pending_bytes == 2 * RECORD_OVERHEAD + 30


@given(st.lists(st.binary(max_size=300) | st.none(), min_size=1, max_size=60), st.integers(100, 2000))
def test_many_records_make_batches_that_hold_all_of_them_in_order_and_count_their_bytes(values, batch_size):
    waiting = accumulator(batch_size=batch_size)
    batches = waiting.add_many(HERE, None, values, 7, 0.0)
    assert [value for batch in batches for value in batch.values] == values
    assert all(len(batch) == 1 or batch.size - HEADER_SIZE <= batch_size + 316 for batch in batches)
    assert waiting.pending_bytes == sum(len(value or b"") + RECORD_OVERHEAD for value in values)
    for batch in batches:
        assert take(waiting, HERE, 0.0, 0.0) is batch
        waiting.release(batch)
    assert waiting.pending_bytes == 0


@given(st.lists(st.integers(0, 900), min_size=1, max_size=60), st.integers(100, 5000), st.booleans())
def test_no_batch_is_larger_than_a_request_may_be(sizes, batch_size, at_once):
    waiting = accumulator(batch_size=batch_size, buffer_memory=10**6, record_max=1000)
    values = [bytes(size) for size in sizes]
    if at_once:
        batches = waiting.add_many(HERE, None, values, 7, 0.0)
    else:
        batches = list(dict.fromkeys(add(waiting, value)[0] for value in values))
    assert [value for batch in batches for value in batch.values] == values
    assert all(batch.size - HEADER_SIZE <= 1000 for batch in batches)


def test_many_records_go_behind_what_was_sent_before_them():
    waiting = accumulator()
    before, _ = add(waiting, b"before")
    waiting.add_many(HERE, None, [b"many"], 7, 0.0)
    after, _ = add(waiting, b"after")
    taken = [take(waiting, HERE, 0.0, 0.0) for _ in range(3)]
    assert [batch.values for batch in taken if batch] == [[b"before"], [b"many"], [b"after"]]
    assert taken[0] is before
    assert taken[2] is after


def test_batch_that_is_put_back_goes_before_all_younger_ones_and_after_its_wait():
    waiting = accumulator()
    batches = []
    for value in (b"1", b"2", b"3"):
        add(waiting, value)
        batches.append(take(waiting, HERE, 0.0, 0.0))
    first, second, third = batches
    second.not_before = 5.0
    for batch in (third, second, first):
        waiting.put_back(batch)
    assert take(waiting, HERE, 0.0, 0.0) is first
    assert take(waiting, HERE, 0.0, 0.0) is None
    assert take(waiting, HERE, 5.0, 0.0) is second
    assert take(waiting, HERE, 5.0, 0.0) is third


def test_batch_split_again_and_again_keeps_its_order_its_bytes_and_its_records_places():
    waiting = accumulator()
    for value in (b"1", b"2", b"3", b"4", b"5"):
        whole, _ = add(waiting, value)
    take(waiting, HERE, 0.0, 0.0)
    younger, _ = add(waiting, b"younger")
    pending = waiting.pending_bytes
    waiting.split(whole)
    sent = []
    while (batch := take(waiting, HERE, 0.0, 0.0)) is not younger:
        assert batch is not None
        if len(batch) > 1:
            waiting.split(batch)
            continue
        sent.append(batch.values[0])
        batch.finish(100 + len(sent), -1, MessageTooLarge("too large") if batch.values == [b"4"] else None)
        waiting.release(batch)
    assert sent == [b"1", b"2", b"3", b"4", b"5"]
    assert pending - waiting.pending_bytes == 5 * (1 + RECORD_OVERHEAD)
    assert whole.done
    assert [whole.metadata(place).offset for place in (0, 1, 2, 4)] == [101, 102, 103, 105]
    with pytest.raises(MessageTooLarge):
        whole.metadata(3)
    assert waiting.unfinished() == [younger]


def test_expired_batches_are_taken_out_and_younger_ones_stay():
    waiting = accumulator(delivery_timeout_s=10.0)
    old, _ = add(waiting, b"old", now=0.0)
    young, _ = add(waiting, b"young", where=THERE, now=5.0)
    assert waiting.expired(10.0) == [old]
    assert waiting.waiting() == [THERE]
    assert waiting.unfinished() == [old, young]


def test_closed_accumulator_gives_out_what_it_holds_and_refuses_more():
    waiting = accumulator()
    batch, _ = add(waiting, b"a")
    many = waiting.add_many(THERE, None, [b"b"], 7, 0.0)
    assert waiting.close(ClientClosed("closed")) == [*many, batch]
    with pytest.raises(ClientClosed):
        add(waiting, b"c")
    with pytest.raises(ClientClosed):
        waiting.add_many(HERE, None, [b"c"], 7, 0.0)


def test_abandoned_accumulator_fails_all_that_was_on_its_way():
    waiting = accumulator()
    batch, _ = add(waiting, b"a")
    travelling, _ = add(waiting, b"b", where=THERE)
    take(waiting, THERE, 0.0, 0.0)
    waiting.abandon(ClientClosed("forked"))
    for each in (batch, travelling):
        with pytest.raises(ClientClosed, match="forked"):
            each.metadata(0)
    with pytest.raises(ClientClosed):
        add(waiting, b"c")


def test_full_means_that_as_many_bytes_wait_as_are_allowed():
    waiting = accumulator(buffer_memory=100)
    batch, _ = add(waiting, b"x" * 83)
    assert not waiting.full
    add(waiting, b"")
    assert waiting.full
    waiting.release(batch)
    assert not waiting.full


def test_waiters_are_told_once_and_late_ones_at_once():
    batch = ProducerBatch(HERE, 0.0, 1.0)
    batch.values.append(b"a")
    batch.timestamps = 5
    told = []
    batch.when_done(lambda: told.append("early"))
    batch.finish(10, -1)
    batch.when_done(lambda: told.append("late"))
    assert told == ["early", "late"]
    assert (batch.metadata(0).offset, batch.metadata(0).timestamp) == (10, 5)
    with pytest.raises(AssertionError):
        batch.finish(error=ClientTimeout("again"))


def test_timestamp_of_the_broker_wins_and_unacknowledged_records_have_no_offset():
    batch = ProducerBatch(HERE, 0.0, 1.0)
    batch.values, batch.timestamps = [b"a", b"b"], [1, 2]
    batch.finish(-1, 99)
    assert [(batch.metadata(i).offset, batch.metadata(i).timestamp) for i in (0, 1)] == [(-1, 99), (-1, 99)]


def test_batches_that_wait_are_taken_together_in_their_order_and_the_open_one_is_left() -> None:
    waiting = accumulator(batch_size=1000)
    sealed = [waiting.add_many(HERE, None, [b"x" * 900], 0, 0.0)[0] for _ in range(5)]
    open_batch, _ = waiting.add(HERE, None, b"open", None, 0, 0.0)
    assert waiting.take(HERE, 0.0, 0.0, 3) == sealed[:3]
    sealed[3].not_before = 0.0
    sealed[4].not_before = 9.0
    assert waiting.take(HERE, 0.0, 0.0, 3) == [sealed[3]], "one that must wait holds up those behind it"
    assert waiting.take(HERE, 0.0, 0.0, 3) == []
    assert waiting.take(HERE, 9.0, 0.0, 3) == [sealed[4]]
    assert waiting.take(HERE, 9.0, 0.0, 3) == [open_batch]
