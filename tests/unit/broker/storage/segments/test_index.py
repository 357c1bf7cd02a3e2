"""The sparse indexes of a segment, in memory and as bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.storage.segments.index import OffsetPosition, SegmentIndex

# size, offsets taken, timestamp of each batch
batch_lists = st.lists(st.tuples(st.integers(61, 500), st.integers(1, 9), st.integers(-1, 30)), max_size=40)


def build(base_offset, interval, batches):
    """An index and the batches as (last offset, position, size, timestamp)."""
    index, placed, offset, position = SegmentIndex(base_offset, interval), [], base_offset, 0
    for size, count, timestamp in batches:
        last_offset = offset + count - 1
        index.add(last_offset, position, size, timestamp)
        placed.append((last_offset, position, size, timestamp))
        offset, position = offset + count, position + size
    return index, placed, position


@given(batches=batch_lists, interval=st.sampled_from([0, 200, 1000]))
def test_a_found_entry_is_of_a_batch_that_ends_at_or_before_what_was_asked(batches, interval):
    index, placed, end = build(1000, interval, batches)
    starts = {(offset, position) for offset, position, _, _ in placed} | {(1000, 0)}
    for offset in range(1000, 1000 + 10):
        place = index.lookup(offset)
        assert place.offset <= offset
        assert place in starts
    for position in range(0, end, 97):
        place = index.lookup_position(position)
        assert place.position <= position
        assert place in starts


@given(batches=batch_lists, interval=st.sampled_from([0, 200, 1000]))
def test_no_more_than_an_interval_and_two_batches_lie_between_entries(batches, interval):
    index, placed, _ = build(0, interval, batches)
    for offset, position, _, _ in placed:
        assert position - index.lookup(offset).position <= interval + 2 * 500


@given(batches=batch_lists, interval=st.sampled_from([0, 200, 1000]), wanted=st.integers(-1, 31))
def test_no_batch_before_the_offset_for_a_time_is_that_late(batches, interval, wanted):
    index, placed, _ = build(50, interval, batches)
    start = index.offset_for_time(wanted)
    assert all(timestamp < wanted for offset, _, _, timestamp in placed if offset < start)


@given(batches=batch_lists, interval=st.sampled_from([0, 200]), data=st.data())
def test_a_truncated_index_equals_one_that_never_knew_more(batches, interval, data):
    index, placed, _ = build(7, interval, batches)
    kept = data.draw(st.integers(0, len(batches)))
    index.truncate(placed[kept - 1][0] + 1 if kept else 7)
    last = index.last_entry
    for offset, position, size, timestamp in placed[:kept]:
        if position >= last.position:
            index.resume(offset, position, size, timestamp)
    fresh, _, _ = build(7, interval, batches[:kept])
    for each in (index, fresh):
        each.finish()
    assert index.encode()[0] == fresh.encode()[0]
    assert (index.max_timestamp, index.last_entry) == (fresh.max_timestamp, fresh.last_entry)


@given(batches=batch_lists, interval=st.sampled_from([0, 200, 1000]))
def test_encoding_is_kafkas_and_decodes_to_the_same(batches, interval):
    index, placed, end = build(1000, interval, batches)
    if placed:
        index.finish()
    offsets, times = index.encode()
    for relative, position in struct.iter_unpack(">II", offsets):
        assert (1000 + relative, position) in {(offset, at) for offset, at, _, _ in placed}
    for timestamp, relative in struct.iter_unpack(">qI", times):
        assert (1000 + relative, timestamp) in {(offset, time) for offset, _, _, time in placed}
    again = SegmentIndex.decode(1000, interval, offsets, times, end)
    assert again.encode() == (offsets, times)
    assert (again.max_timestamp, again.last_entry) == (index.max_timestamp, index.last_entry)


def test_entries_of_a_small_index_byte_for_byte():
    index, _, _ = build(10, 100, [(150, 2, 5), (150, 3, 9), (150, 1, 7)])
    index.finish()
    assert index.last_entry == OffsetPosition(15, 300)
    assert index.encode() == (
        bytes.fromhex("00000004 00000096 00000005 0000012c"),
        bytes.fromhex("0000000000000009 00000004"),
    )


@pytest.mark.parametrize(
    ("offsets", "times", "why"),
    [
        ("00", "", "torn"),
        ("", "0000000000000001", "torn"),
        ("0000000100000050 0000000100000060", "000000000000000100000000", "order"),
        ("0000000100000060 0000000200000050", "000000000000000100000000", "order"),
        ("", "000000000000000100000000 000000000000000100000002", "order"),
        ("", "000000000000000100000002 000000000000000200000001", "order"),
        ("0000000100000064", "000000000000000100000000", "segment of 100 bytes"),
        ("", "", "last entry"),
    ],
)
def test_implausible_index_files_are_refused(offsets, times, why):
    with pytest.raises(ValueError, match=why):
        SegmentIndex.decode(0, 4096, bytes.fromhex(offsets), bytes.fromhex(times), 100)
