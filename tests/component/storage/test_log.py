"""Appending, reading and cutting one log on a real disk."""

import pytest

from ottla.broker.storage.segments.mapped_file import COPY_MAX
from ottla.wire.batch import HEADER_SIZE, read_header
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from ottla.wire.names import SEGMENT_BYTES_MIN
from tests.support.logs import fill, offsets_in, read_all, segment_count

# --- appending ---


def test_appended_batches_are_read_back_stamped_and_byte_for_byte(open_log, make_batch):
    log = open_log()
    first, second = make_batch(3, fill=1), make_batch(2, fill=2)
    assert log.append_as_leader(first, 5, 99) == (0, 2, 1000, -1)
    assert log.append_as_leader(second, 5, 99) == (3, 4, 1000, -1)
    data = read_all(log)
    assert data == bytes(first) + bytes(second)
    assert [read_header(data).base_offset, read_header(data).leader_epoch] == [0, 5]
    assert offsets_in(data) == [0, 3]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (0, 5, 200)


def test_several_batches_in_one_append_get_contiguous_offsets(open_log, make_batch):
    log = open_log()
    both = memoryview(bytearray(bytes(make_batch(3)) + bytes(make_batch(4))))
    assert log.append_as_leader(both, 0, 0)[:2] == (0, 6)
    assert offsets_in(read_all(log)) == [0, 3]


def test_a_bad_second_batch_keeps_the_first_out_and_leaves_the_buffer_alone(open_log, make_batch):
    log = open_log()
    bad = bytearray(bytes(make_batch(3)) + bytes(make_batch(4)))
    bad[-1] ^= 1
    before = bytes(bad)
    with pytest.raises(CorruptMessage):
        log.append_as_leader(memoryview(bad), 0, 0)
    assert bytes(bad) == before
    assert (log.log_end_offset, log.size) == (0, 0)


def test_a_batch_over_max_message_bytes_is_refused_before_anything_is_written(open_log, make_batch):
    log = open_log(max_message_bytes=150)
    both = memoryview(bytearray(bytes(make_batch(size=150)) + bytes(make_batch(size=151))))
    with pytest.raises(MessageTooLarge, match=r"151 bytes.*150"):
        log.append_as_leader(both, 0, 0)
    assert log.size == 0
    log.append_as_leader(make_batch(size=150), 0, 0)


def test_records_that_no_segment_can_hold_are_refused(open_log, make_batch):
    log = open_log(segment_bytes=250)
    with pytest.raises(RecordListTooLarge):
        log.append_as_leader(memoryview(bytearray(bytes(make_batch()) * 3)), 0, 0)


def test_an_empty_append_is_refused(open_log):
    with pytest.raises(InvalidRecord):
        open_log().append_as_leader(memoryview(bytearray()), 0, 0)


def test_log_append_time_replaces_the_producers_timestamps(open_log, make_batch):
    log = open_log(message_timestamp_type="LogAppendTime")
    assert log.append_as_leader(make_batch(2, timestamp=5), 0, 777) == (0, 1, 777, 777)
    header = read_header(read_all(log))
    assert (header.max_timestamp, header.timestamp_type.name) == (777, "LOG_APPEND_TIME")
    log.close()
    assert open_log(clean=False).recovery.reason == ""  # so the CRC was computed anew


def test_a_follower_holds_the_leaders_bytes_and_epochs(open_log, make_stamped):
    log = open_log()
    sent = b"".join(bytes(make_stamped(*place)) for place in [(0, 3, 5), (5, 3), (6, 4, 2)])
    assert log.append_as_follower(memoryview(sent)) == 8
    assert read_all(log) == sent
    assert log.end_offset_for_epoch(3) == (3, 6)
    assert log.latest_epoch == 4


def test_a_batch_that_the_fetch_cut_off_is_ignored(open_log, make_stamped):
    whole, cut = bytes(make_stamped(0, 1)), bytes(make_stamped(1, 1))
    log = open_log()
    for length in (1, HEADER_SIZE - 1, HEADER_SIZE, len(cut) - 1):
        log.truncate_to(0)
        assert log.append_as_follower(memoryview(whole + cut[:length])) == 1
        assert read_all(log) == whole


@pytest.mark.parametrize(("base_offset", "epoch", "why"), [(4, 2, "offset 4"), (5, 1, "epoch 1"), (5, -1, "epoch -1")])
def test_a_follower_refuses_what_cannot_follow(open_log, make_stamped, base_offset, epoch, why):
    log = open_log()
    log.append_as_follower(make_stamped(0, 2, 5))
    with pytest.raises(CorruptMessage, match=why):
        log.append_as_follower(make_stamped(base_offset, epoch))
    assert log.log_end_offset == 5


def test_a_follower_refuses_a_bad_crc(open_log, make_stamped):
    batch = make_stamped(0, 0)
    batch[70] ^= 1
    log = open_log()
    with pytest.raises(CorruptMessage):
        log.append_as_follower(batch)
    assert log.size == 0


def test_a_fetch_larger_than_a_segment_is_split_between_batches(open_log, make_stamped):
    log = open_log(segment_bytes=250)
    sent = b"".join(bytes(make_stamped(offset, 0)) for offset in range(7))
    assert log.append_as_follower(memoryview(sent)) == 7
    assert segment_count(log) == 4
    assert read_all(log) == sent


# --- segments ---


def test_the_log_rolls_at_segment_bytes_and_reads_go_across(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=300)
    fill(log, make_batch, 10)
    assert sorted(path.name for path in (tmp_path / "t-0").glob("*.log")) == [
        f"{base:020d}.log" for base in (0, 3, 6, 9)
    ]
    assert offsets_in(read_all(log, 2)) == list(range(2, 10))
    views = log.read(2, 500, up_to=10, at_least_one=False)
    assert [offsets_in(bytes(view)) for view in views] == [[2], [3, 4, 5], [6]]


def test_small_segments_are_rolled_for_timestamps_once_in_an_interval(open_log, make_batch, tmp_path):
    """Else a producer begins one with each batch, and each has files and descriptors."""
    log = open_log(segment_ms=1, roll_interval_ms=3_600_000)
    for number in range(50):
        log.append_as_leader(make_batch(timestamp=1000 * number), 0, 0)
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 2
    large = SEGMENT_BYTES_MIN // 2
    for number in range(50, 56):
        log.append_as_leader(make_batch(size=large, timestamp=1000 * number), 0, 0)
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 4, "one more for each 64 KB"


def test_the_log_rolls_at_segment_ms_counted_from_the_first_timestamp(open_log, make_batch):
    log = open_log(segment_ms=100)
    for timestamp in (1000, 1050, 1100, 900):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    assert segment_count(log) == 1
    log.append_as_leader(make_batch(timestamp=1101), 0, 0)
    assert segment_count(log) == 2


# --- reading ---


def test_a_read_inside_a_batch_gives_the_whole_batch(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 3, count=10)
    assert offsets_in(read_all(log, 15)) == [10, 20]


def test_a_read_never_passes_up_to(open_log, make_batch):
    log = open_log(segment_bytes=300)
    fill(log, make_batch, 5, count=10)
    for up_to, expected in [(0, []), (9, []), (10, [0]), (25, [0, 10]), (31, [0, 10, 20]), (50, [0, 10, 20, 30, 40])]:
        views = log.read(0, 1 << 20, up_to=up_to, at_least_one=True)
        assert offsets_in(b"".join(views)) == expected


@pytest.mark.parametrize(
    ("max_bytes", "at_least_one", "batches"),
    [(0, False, 0), (99, False, 0), (99, True, 1), (0, True, 1), (100, False, 1), (199, False, 1), (350, True, 3)],
)
def test_a_read_stops_at_max_bytes(open_log, make_batch, max_bytes, at_least_one, batches):
    for segment_bytes in (250, 1 << 20):
        log = open_log(segment_bytes=segment_bytes)
        log.truncate_fully_and_start_at(0)
        fill(log, make_batch, 5)
        views = log.read(0, max_bytes, up_to=5, at_least_one=at_least_one)
        assert offsets_in(b"".join(views)) == list(range(batches))


def test_every_offset_is_found_through_the_index_and_at_the_tail(open_log, make_batch):
    log = open_log(index_interval_bytes=300, segment_bytes=2000)
    fill(log, make_batch, 50, count=3)
    for offset in range(150):
        (view, *_) = log.read(offset, 100, up_to=150, at_least_one=True)
        assert read_header(view).base_offset == offset // 3 * 3


def test_reads_outside_the_log_are_refused_and_at_its_end_are_empty(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 3)
    log.delete_records_before(1)
    assert log.read(3, 100, up_to=3, at_least_one=True) == []
    for offset in (-1, 0, 4, 2**62):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, up_to=3, at_least_one=True)


def test_large_reads_are_slices_of_a_map_and_small_ones_at_the_tail_are_copies(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 4, size=COPY_MAX // 2)
    (small,) = log.read(3, 1 << 30, up_to=4, at_least_one=False)
    assert isinstance(small.obj, bytes)
    (large,) = log.read(0, 1 << 30, up_to=4, at_least_one=False)
    assert not isinstance(large.obj, bytes)
    fill(log, make_batch, 4, size=COPY_MAX // 2)
    (grown,) = log.read(0, 1 << 30, up_to=8, at_least_one=False)
    assert len(grown) == 4 * COPY_MAX
    assert grown[: len(large)] == large


# --- time ---


def test_the_first_batch_that_reaches_a_time_is_found(open_log, make_batch):
    times = [10, 30, 20, 20, 50, 40, 60, 60, 70, 5]
    for interval in (0, 150, 10_000):
        log = open_log(index_interval_bytes=interval, segment_bytes=400)
        log.truncate_fully_and_start_at(0)
        for timestamp in times:
            log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
        for reopened in (False, True):
            if reopened:
                log.close()
                log = open_log(index_interval_bytes=interval, segment_bytes=400)
            for wanted in range(72):
                expected = next((number for number, time in enumerate(times) if time >= wanted), None)
                found = log.find_by_timestamp(wanted)
                assert (None if found is None else read_header(found).base_offset) == expected, wanted
        log.close()


def test_times_before_the_log_start_are_not_found(open_log, make_batch):
    log = open_log()
    for timestamp in (10, 20, 30):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    log.delete_records_before(1)
    assert read_header(log.find_by_timestamp(5)).base_offset == 1


def test_readers_of_the_tail_share_one_copy(open_log, make_batch):
    log = open_log()
    for _ in range(3):
        log.append_as_leader(make_batch(), 0, 0)
    first, second = (log.read(1, 1 << 20, up_to=3, at_least_one=True)[0] for _ in range(2))
    last = log.read(2, 1 << 20, up_to=3, at_least_one=True)[0]
    assert first.obj is second.obj is last.obj
    assert bytes(first)[100:] == bytes(last)


def test_a_shared_copy_is_not_of_what_was_cut(open_log, make_batch):
    log = open_log()
    for _ in range(2):
        log.append_as_leader(make_batch(fill=7), 0, 0)
    held = log.read(1, 1 << 20, up_to=2, at_least_one=True)[0]
    log.truncate_to(1)
    log.append_as_leader(make_batch(fill=8), 1, 0)
    (read,) = log.read(1, 1 << 20, up_to=2, at_least_one=True)
    assert (held[-1], read[-1]) == (7, 8)


def test_batches_before_a_damaged_header_can_be_read(open_log, make_batch):
    log = open_log(segment_bytes=1000)
    fill(log, make_batch, 30)
    with (log.folder / f"{10:020d}.log").open("r+b") as file:
        file.seek(7 * 100 + 10)  # the length of the batch at offset 17
        file.write(b"\x7f")
    assert offsets_in(read_all(log, 5, max_bytes=2000)[: 12 * 100]) == list(range(5, 17))
    assert offsets_in(read_all(log, 12, max_bytes=550)) == [12, 13, 14, 15, 16]
    with pytest.raises(CorruptMessage):
        log.read(17, 150, up_to=30, at_least_one=True)
    assert offsets_in(read_all(log, 20)) == list(range(20, 30))
