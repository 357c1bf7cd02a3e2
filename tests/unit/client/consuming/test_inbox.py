"""The inbox: what was fetched comes out in order, once, from where the caller stands."""

import threading
from itertools import islice

import pytest

from ottla.client.config import ConsumerConfig
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.subscription import Assigned
from ottla.client.records import Record
from ottla.wire.batch import MAGIC_KAFKA, build_gap, stamp
from ottla.wire.errors import CorruptMessage, OffsetOutOfRange, RecordDeserializationError, UnreadableRecords
from ottla.wire.names import TopicPartition
from ottla.wire.records import RecordBatch, encode_batch
from ottla.wire.rewriting import keep_records


def batch(base, count, value=b"%d"):
    encoded = encode_batch([value % (base + i) for i in range(count)], timestamps=7)
    stamp(encoded, 0, base, 0)
    return RecordBatch(encoded)


def partition(number=0, offset=0):
    state = Assigned(TopicPartition("t", number))
    state.seek(offset)
    return state


class Bell:
    def __init__(self):
        self.data = self.room = 0

    def on_data(self):
        self.data += 1

    def on_room(self):
        self.room += 1


def inbox(bell=None, **options):
    bell = bell or Bell()
    made = Inbox(ConsumerConfig(**options), on_data=bell.on_data)
    made.on_room = bell.on_room
    return made


def offsets(records):
    return [record.offset for record in records]


def test_records_come_in_order_over_batches_and_polls():
    box, state = inbox(), partition()
    box.put(state, [batch(0, 3), batch(3, 3)])
    assert offsets(box.take_records(2)) == [0, 1]
    assert box.position(state) == 2
    assert offsets(box.take_records(10)) == [2, 3, 4, 5]
    assert box.position(state) == 6
    assert box.take_records(10) == []


def thinned(base, kept):
    return RecordBatch(keep_records(batch(base, len(kept)), kept))


def test_behind_a_batch_that_lost_its_last_records_reading_goes_on_behind_them():
    box, state = inbox(), partition()
    box.put(state, [thinned(0, [False, True, False, False]), thinned(4, [True, False, True])])
    assert offsets(box.take_records(1)) == [1]
    assert box.position(state) == 4
    assert [(record.offset, record.value) for record in box.take_records(10)] == [(4, b"4"), (6, b"6")]
    assert box.position(state) == 7


def test_a_gap_gives_nothing_and_is_passed():
    box, state = inbox(), partition(offset=1)
    box.put(state, [RecordBatch(build_gap(0, 5, 0))])
    assert box.take_records(10) == []
    assert box.position(state) == 5
    box, state = inbox(), partition()
    box.put(state, [RecordBatch(build_gap(0, 5, 0)), batch(5, 1), RecordBatch(build_gap(6, 9, 0))])
    [fetched] = box.take_batches(1000)
    assert (fetched.base_offset, fetched.next_offset, len(fetched)) == (5, 6, 1)
    assert box.position(state) == 9


def test_seeking_to_an_offset_that_was_taken_away_gives_the_next_record():
    box, state = inbox(), partition(offset=2)
    box.put(state, [thinned(0, [True, True, False, True])])
    [fetched] = box.take_batches(1000)
    assert (fetched.base_offset, list(fetched.offsets()), fetched.values()) == (3, [3], [b"3"])
    assert fetched.to_arrow().column("offset").to_pylist() == [3]


def test_batch_that_begins_before_the_sought_offset_is_cut():
    box, state = inbox(), partition(offset=2)
    box.put(state, [batch(0, 4)])
    assert offsets(box.take_records(10)) == [2, 3]
    state.seek(1)
    box.put(state, [batch(0, 4)])
    [fetched] = box.take_batches(1000)
    assert (len(fetched), list(fetched.offsets()), fetched.values()) == (3, [1, 2, 3], [b"1", b"2", b"3"])
    assert box.position(state) == 4


def test_records_fetched_before_a_seek_are_never_given_after_it():
    box, state, other = inbox(), partition(), partition(1)
    box.put(state, [batch(0, 3), batch(3, 3)])
    box.put(other, [batch(0, 1)])
    assert offsets(box.take_records(1)) == [0]
    state.seek(5)
    box.drop_stale()
    [record] = box.take_records(10)
    assert (record.partition, record.offset) == (1, 0)
    assert box.position(state) == 5
    box.put(state, [batch(3, 3)])
    assert offsets(box.take_records(10)) == [5]


def test_loop_over_a_chunk_ends_at_a_seek_and_goes_on_after_a_break():
    box, state = inbox(), partition()
    box.put(state, [batch(0, 5)])
    assert offsets(islice(box.chunk(), 2)) == [0, 1]
    assert box.position(state) == 2
    assert offsets(box.take_records(1)) == [2]
    chunk = box.chunk()
    assert next(chunk).offset == 3
    state.seek(0)
    box.drop_stale()
    assert list(chunk) == []
    assert box.chunk() is None


def test_batches_go_on_where_records_stopped():
    box, state = inbox(), partition()
    box.put(state, [batch(0, 4), batch(4, 2)])
    assert offsets(box.take_records(3)) == [0, 1, 2]
    assert [list(each.offsets()) for each in box.take_batches(10**6)] == [[3], [4, 5]]
    assert box.position(state) == 6
    assert box.take_records(1) == []


def test_take_batches_ends_at_its_limit_but_gives_at_least_one():
    box, state = inbox(), partition()
    box.put(state, [batch(0, 1), batch(1, 1)])
    assert [each.base_offset for each in box.take_batches(1)] == [0]
    assert [each.base_offset for each in box.take_batches(1)] == [1]


def test_room_is_told_once_the_full_inbox_has_some():
    bell = Bell()
    first = batch(0, 10)
    box, state = inbox(bell, fetch_buffer_bytes=first.size), partition()
    box.put(state, [first, batch(10, 10)])
    assert box.room == 0
    box.take_records(10)
    assert (box.room, bell.room) == (0, 0)
    box.take_records(1)
    assert (box.room, bell.room) == (first.size, 1)


def test_bytes_are_counted_right_with_two_threads_at_it():
    box, state = inbox(fetch_buffer_bytes=10**9), partition()
    batches = [batch(n, 1) for n in range(20_000)]

    def put():
        for each in batches:
            box.put(state, [each])

    putting = threading.Thread(target=put)
    putting.start()
    taken: list[Record] = []
    while len(taken) < len(batches):
        taken += box.take_records(100)
    putting.join()
    assert offsets(taken) == list(range(20_000))
    assert box.room == 10**9


def test_failure_of_a_partition_is_raised_after_its_records_and_forgotten_after_a_seek():
    box, state = inbox(), partition()
    box.put(state, [batch(0, 1)])
    box.fail(state, OffsetOutOfRange("gone"))
    assert offsets(box.take_records(10)) == [0]
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange):
            box.take_records(10)
    box.recovered(state)
    assert box.take_records(10) == []
    box.fail(state, OffsetOutOfRange("gone"))
    state.seek(0)
    assert box.take_batches(10) == []


def test_failure_of_a_partition_is_heard_of_though_others_have_records():
    box, state, other = inbox(), partition(), partition(1)
    box.put(other, [batch(0, 3)])
    box.fail(state, OffsetOutOfRange("gone"))
    with pytest.raises(OffsetOutOfRange):
        box.take_records(1)
    assert offsets(box.take_records(1)) == [0], "and then the others go on"
    box.fail(state, OffsetOutOfRange("still gone"))
    with pytest.raises(OffsetOutOfRange, match="still"):
        box.take_records(1)
    assert offsets(box.take_records(5)) == [1, 2]
    with pytest.raises(OffsetOutOfRange, match="still"):
        box.take_records(1)


def test_damaged_batch_stays_a_failure_until_records_of_its_partition_come():
    box, state = inbox(), partition()
    box.fail(state, UnreadableRecords("damaged"))
    box.not_refused(state)
    for _ in range(2):
        with pytest.raises(UnreadableRecords):
            box.take_records(10)
    box.recovered(state)
    assert box.take_records(10) == []
    box.fail(state, OffsetOutOfRange("gone"))
    box.not_refused(state)
    assert box.take_records(10) == []


def test_trouble_is_raised_only_if_trying_again_is_useless():
    box = inbox()
    box.trouble = CorruptMessage("bad")
    with pytest.raises(CorruptMessage):
        box.take_records(1)
    box.trouble = None
    assert box.take_records(1) == []


def test_deserializers_make_keys_and_values():
    box, state = inbox(key_deserializer=lambda key: key or "none", value_deserializer=int), partition()
    box.put(state, [batch(0, 2)])
    assert [(record.key, record.value) for record in box.take_records(10)] == [("none", 0), ("none", 1)]


def test_record_that_cannot_be_deserialized_fails_in_its_turn_until_somebody_seeks_past_it():
    def refuse_two(value):
        if value == b"2":
            raise ValueError("two")
        return int(value)

    box, state = inbox(value_deserializer=refuse_two), partition()
    box.put(state, [batch(0, 4)])
    assert offsets(box.take_records(10)) == [0, 1]
    assert box.position(state) == 2
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="two") as caught:
            box.take_records(10)
        refused = caught.value
        assert (refused.topic, refused.partition, refused.offset, refused.next_offset) == ("t", 0, 2, 3)
        assert isinstance(refused.record, Record)
        assert refused.record.value == b"2"
        assert isinstance(refused.__cause__, ValueError)
    assert [list(each.offsets()) for each in box.take_batches(10**6)] == [[2, 3]]
    state.seek(3)
    box.put(state, [batch(0, 4)])
    assert offsets(box.take_records(10)) == [3]


def test_batch_with_a_broken_payload_is_not_skipped_silently():
    encoded = bytearray(encode_batch([b"a"], timestamps=7))
    encoded[61:] = bytes(len(encoded) - 61)
    box, state = inbox(), partition()
    box.put(state, [RecordBatch(encoded, verify=False), batch(1, 1)])
    for _ in range(2):
        with pytest.raises(CorruptMessage) as caught:
            box.take_records(10)
        assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert box.position(state) == 0


def test_inbox_holds_a_partition_until_its_last_record_is_taken():
    box, state, other = inbox(), partition(), partition(1)
    box.put(state, [batch(0, 2)])
    assert box.holds(state)
    assert not box.holds(other)
    box.take_records(1)
    assert box.holds(state)
    box.take_records(1)
    assert not box.holds(state)


def kafka_batch(base, count, *, broken=False):
    encoded = encode_batch([b"%d" % (base + i) for i in range(count)], timestamps=7, magic=MAGIC_KAFKA)
    stamp(encoded, 0, base, 0)
    if broken:
        encoded[61:] = bytes(len(encoded) - 61)
    return RecordBatch(encoded, verify=False)


@pytest.mark.parametrize("start", [10, 11], ids=["from its beginning", "from its middle"])
@pytest.mark.parametrize("take", ["take_records", "chunk"])
def test_kafka_batch_that_is_damaged_stands_until_somebody_seeks_past_it(start, take):
    box, state = inbox(), partition(offset=start)
    box.put(state, [kafka_batch(10, 3, broken=True), kafka_batch(13, 1)])
    for _ in range(2):
        with pytest.raises(UnreadableRecords, match=rf"t-0, offset {start}, cannot be read.*seek to 13") as caught:
            box.take_records(10) if take == "take_records" else box.chunk()
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, start, 13)
    state.seek(error.next_offset)
    box.put(state, [kafka_batch(13, 1)])
    assert offsets(box.take_records(10)) == [13]


def test_batches_before_a_damaged_one_are_given_first():
    box, state = inbox(), partition(offset=9)
    box.put(state, [kafka_batch(8, 2)])
    state.fetch_offset = 11
    box.put(state, [kafka_batch(10, 3, broken=True)])
    assert [list(each.offsets()) for each in box.take_batches(10**6)] == [[9]]
    for _ in range(2):
        with pytest.raises(UnreadableRecords):
            box.take_batches(10**6)


def test_batch_that_fails_with_any_error_is_not_skipped(monkeypatch):
    def fail(self):
        raise RuntimeError("a bug of a codec")

    box, state = inbox(), partition()
    box.put(state, [batch(0, 1), batch(1, 1)])
    with monkeypatch.context() as patched:
        patched.setattr(RecordBatch, "values", fail)
        with pytest.raises(UnreadableRecords, match="a bug of a codec"):
            box.take_records(10)
    assert offsets(box.take_records(10)) == [0, 1]


def test_batch_that_is_being_opened_is_still_held():
    """The fetch loop, in its thread, must not begin elsewhere while the caller decodes: what is left would be thrown away."""
    held = []

    def look(value):
        held.append(box.holds(state))
        return value

    box, state = inbox(value_deserializer=look), partition()
    box.put(state, [batch(0, 1)])
    assert offsets(box.take_records(10)) == [0]
    assert held == [True]
    assert not box.holds(state)
    box.put(state, [batch(1, 1)])
    box.take_batches(10**6)
    assert not box.holds(state)


def odd(value):
    if int(value) % 2 == 0:
        raise ValueError(f"{value} is even")
    return int(value)


def test_records_that_cannot_be_deserialized_are_skipped_if_that_is_wanted(caplog):
    box, state = inbox(value_deserializer=odd, on_deserialization_error="skip"), partition()
    box.put(state, [batch(0, 5), batch(5, 1), batch(6, 1)])
    assert [record.value for record in box.take_records(10)] == [1, 3, 5]
    assert box.position(state) == 7, "those at the end are behind us, too"
    assert "count=3" in caplog.text
    assert "offset 0 of t-0" in caplog.text


def test_whoever_is_told_of_records_that_cannot_be_deserialized_gets_them_as_they_came():
    told: list[RecordDeserializationError] = []
    box, state = inbox(value_deserializer=odd, on_deserialization_error=told.append), partition()
    box.put(state, [batch(0, 4)])
    assert offsets(box.take_records(1)) == [1]
    assert offsets(box.take_records(10)) == [3]
    assert [(error.offset, error.record.value, type(error.__cause__)) for error in told] == [
        (0, b"0", ValueError),
        (2, b"2", ValueError),
    ]


def test_what_is_raised_by_whoever_is_told_is_raised_and_the_record_comes_again():
    told, away = [], [2]

    def keep(error):
        if error.offset in away:
            raise RuntimeError("the dead letters cannot be written")
        told.append(error.offset)

    box, state = inbox(value_deserializer=odd, on_deserialization_error=keep), partition()
    box.put(state, [batch(0, 4)])
    assert offsets(box.take_records(10)) == [1]
    with pytest.raises(RuntimeError):
        box.take_records(10)
    assert box.position(state) == 2
    away.clear()
    assert offsets(box.take_records(10)) == [3]
    assert told == [0, 2]


def test_batches_after_records_that_were_skipped_begin_where_reading_stands():
    box, state = inbox(value_deserializer=odd, on_deserialization_error="skip"), partition()
    box.put(state, [batch(0, 6)])
    assert offsets(box.take_records(1)) == [1]
    [rest] = box.take_batches(1000)
    assert list(rest.offsets()) == [3, 4, 5], "2 was passed over already"


def test_loop_ends_where_a_partition_is_taken_back_and_goes_on_with_the_others():
    box, mine, other = inbox(), partition(0), partition(1)
    box.put(mine, [batch(0, 5)])
    box.put(other, [batch(0, 2)])
    loop = box.chunk()
    assert [next(loop).offset, next(loop).offset] == [0, 1]
    mine.position_version += 1  # it was removed from the subscription, in another thread
    box.take_back()
    assert list(loop) == []
    assert offsets(box.chunk()) == [0, 1]
    assert box.chunk() is None


def test_what_is_taken_back_is_never_the_batch_that_was_opened_meanwhile():
    box, mine, other = inbox(), partition(0), partition(1)
    box.put(mine, [batch(0, 5)])
    box.put(other, [batch(0, 2)])
    box.chunk()
    in_hand = box._reading
    mine.position_version += 1
    loop = box.chunk()
    in_hand.records.clear()  # by the event loop, that looked a moment earlier
    assert offsets(loop) == [0, 1]


def test_chunk_has_no_more_records_than_wanted_and_the_next_goes_on_behind_them():
    box, state = inbox(), partition()
    box.put(state, [batch(0, 5)])
    assert offsets(box.chunk(2)) == [0, 1]
    first_of_three = next(box.chunk(3))
    assert (first_of_three.offset, box.position(state)) == (2, 3)
    assert offsets(box.chunk(3)) == [3, 4]
    assert box.position(state) == 5
