"""Appending, reading and cutting one log on a real disk."""

import os
import struct
from pathlib import Path

import pytest

from ottla.broker.storage.log import Log
from ottla.broker.storage.mapped_file import COPY_MAX
from ottla.wire.batch import HEADER_SIZE, read_header
from ottla.wire.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRecord,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
)


def read_all(log: Log, offset: int = 0, max_bytes: int = 1 << 30) -> bytes:
    return b"".join(log.read(offset, max_bytes, up_to=log.log_end_offset, at_least_one=True))


def offsets_in(data: bytes) -> list[int]:
    """The base offsets of the batches in ``data``, which must hold whole batches only."""
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        found.append(header.base_offset)
        position += header.size
    assert position == len(data)
    return found


def fill(log: Log, make_batch, batches: int, **more) -> None:
    for _ in range(batches):
        log.append_as_leader(make_batch(**more), 0, 0)


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


def test_a_follower_accepts_a_gap_and_reads_over_it(open_log, make_stamped):
    log = open_log()
    log.append_as_follower(make_stamped(10, 0, 2))  # into an empty log
    log.append_as_follower(memoryview(bytes(make_stamped(20, 0)) + bytes(make_stamped(30, 0))))
    assert offsets_in(read_all(log, log.log_start_offset)) == [10, 20, 30]
    assert offsets_in(read_all(log, 15)) == [20, 30]
    log.truncate_to(25)
    assert offsets_in(read_all(log, 10)) == [10, 20]
    log.close()
    assert offsets_in(read_all(open_log(), 10)) == [10, 20]


def test_a_fetch_larger_than_a_segment_is_split_between_batches(open_log, make_stamped):
    log = open_log(segment_bytes=250)
    sent = b"".join(bytes(make_stamped(offset, 0)) for offset in range(7))
    assert log.append_as_follower(memoryview(sent)) == 7
    assert log.segment_count == 4
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


def test_the_log_rolls_at_segment_ms_counted_from_the_first_timestamp(open_log, make_batch):
    log = open_log(segment_ms=100)
    for timestamp in (1000, 1050, 1100, 900):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    assert log.segment_count == 1
    log.append_as_leader(make_batch(timestamp=1101), 0, 0)
    assert log.segment_count == 2


def test_rolling_an_empty_segment_changes_nothing(open_log, make_batch):
    log = open_log()
    log.roll()
    fill(log, make_batch, 1)
    log.roll()
    log.roll()
    assert log.segment_count == 2


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


# --- retention ---


def test_retention_by_time_deletes_old_segments_and_moves_the_log_start(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=200, retention_ms=1000)
    for timestamp in (100, 200, 1500, 1600, 3000):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    assert log.apply_retention(2000) == ["00000000000000000000.log"]
    assert (log.log_start_offset, log.segment_count) == (2, 2)
    assert len(list((tmp_path / "t-0").glob("*.deleted"))) == 3
    log.remove_deleted_files()
    assert not list((tmp_path / "t-0").glob("*.deleted"))
    assert offsets_in(read_all(log, 2)) == [2, 3, 4]


def test_an_active_segment_past_retention_is_rolled_then_deleted(open_log, make_batch):
    log = open_log(retention_ms=1000)
    fill(log, make_batch, 3, timestamp=100)
    assert log.apply_retention(5000) == ["00000000000000000000.log"]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)
    assert log.append_as_leader(make_batch(), 0, 0).first_offset == 3


def test_retention_by_size_keeps_at_least_that_much(open_log, make_batch):
    log = open_log(segment_bytes=200, retention_ms=-1, retention_bytes=450)
    fill(log, make_batch, 9)
    log.apply_retention(0)
    assert (log.log_start_offset, log.size) == (4, 500)


def test_retention_never_takes_what_is_not_committed(open_log, make_batch):
    log = open_log(segment_bytes=200, retention_ms=0)
    fill(log, make_batch, 6, timestamp=1)
    log.apply_retention(10_000, up_to=3)
    assert log.log_start_offset == 2


def test_records_without_timestamps_age_by_the_files_time(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=100, retention_ms=60_000)
    fill(log, make_batch, 2, timestamp=-1)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    now_ms = int(path.stat().st_mtime * 1000)
    assert log.apply_retention(now_ms + 1000) == []
    os.utime(path, (1, 1))
    assert log.apply_retention(now_ms + 1000) == [path.name]


def test_deleted_records_are_gone_and_their_segments_follow(open_log, make_batch):
    log = open_log(segment_bytes=200)
    fill(log, make_batch, 6)
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(7)
    log.apply_retention(0)
    assert (log.segment_count, log.log_start_offset) == (2, 3)
    assert offsets_in(read_all(log, 3)) == [3, 4, 5]


# --- truncation ---


def test_truncation_cuts_across_segments_and_appending_goes_on(open_log, make_batch):
    log = open_log(segment_bytes=300, index_interval_bytes=0)
    fill(log, make_batch, 10)
    log.truncate_to(4)
    assert (log.log_end_offset, log.segment_count) == (4, 2)
    assert log.append_as_leader(make_batch(fill=9), 1, 0).first_offset == 4
    assert offsets_in(read_all(log)) == [0, 1, 2, 3, 4]
    log.close()
    assert offsets_in(read_all(open_log())) == [0, 1, 2, 3, 4]


def test_truncation_inside_a_batch_drops_the_batch(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 3, count=10)
    log.truncate_to(25)
    assert log.log_end_offset == 20


def test_truncation_before_the_first_segment_starts_over_there(open_log, make_batch):
    log = open_log()
    log.truncate_fully_and_start_at(100)
    fill(log, make_batch, 3)
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert log.append_as_leader(make_batch(), 0, 0).first_offset == 50


def test_a_reader_keeps_its_slice_while_the_log_is_cut_under_it(open_log, make_batch, tmp_path):
    log = open_log()
    fill(log, make_batch, 8, size=COPY_MAX // 4, fill=1)
    (held,) = log.read(0, 1 << 30, up_to=8, at_least_one=False)
    fill(log, make_batch, 8, size=COPY_MAX // 4, fill=2)
    (newer,) = log.read(0, 1 << 30, up_to=16, at_least_one=False)  # maps anew: the first slice holds an old map
    before, before_newer = bytes(held), bytes(newer)
    del newer
    inode = (tmp_path / "t-0" / f"{0:020d}.log").stat().st_ino
    log.truncate_to(2)
    fill(log, make_batch, 4, size=COPY_MAX // 4, fill=3)
    assert bytes(held) == before
    assert (tmp_path / "t-0" / f"{0:020d}.log").stat().st_ino != inode
    assert read_all(log)[: COPY_MAX // 2] == before_newer[: COPY_MAX // 2]
    assert offsets_in(read_all(log)) == list(range(6))


def test_without_readers_truncation_cuts_the_file_in_place(open_log, make_batch, tmp_path):
    log = open_log()
    fill(log, make_batch, 8, size=COPY_MAX // 4)
    assert len(read_all(log)) == 2 * COPY_MAX
    path = tmp_path / "t-0" / f"{0:020d}.log"
    inode = path.stat().st_ino
    log.truncate_to(2)
    assert (path.stat().st_ino, path.stat().st_size) == (inode, COPY_MAX // 2)


def test_a_reader_keeps_its_slice_while_segments_are_deleted(open_log, make_batch):
    log = open_log(segment_bytes=300, retention_ms=0)
    fill(log, make_batch, 6, timestamp=1)
    held = log.read(0, 1000, up_to=6, at_least_one=False)
    before = b"".join(held)
    log.apply_retention(100)
    log.remove_deleted_files()
    assert b"".join(held) == before


# --- epochs ---


def test_an_older_leader_is_fenced(open_log, make_batch):
    log = open_log()
    log.assign_epoch(5)
    with pytest.raises(FencedLeaderEpoch):
        log.append_as_leader(make_batch(), 4, 0)
    with pytest.raises(FencedLeaderEpoch):
        log.assign_epoch(4)
    assert log.log_end_offset == 0


def test_epochs_end_where_the_next_begins(open_log, make_batch):
    log = open_log()
    log.assign_epoch(2)
    fill_at = [(2, 3), (5, 2)]
    for epoch, batches in fill_at:
        for _ in range(batches):
            log.append_as_leader(make_batch(), epoch, 0)
    assert [log.end_offset_for_epoch(epoch) for epoch in (-1, 0, 2, 3, 5, 6)] == [
        (-1, -1),
        (0, 0),
        (2, 3),
        (2, 3),
        (5, 5),
        (-1, -1),
    ]


def test_truncation_forgets_epochs_even_where_no_record_goes(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 3)
    log.assign_epoch(7)  # a leader that wrote nothing
    assert log.latest_epoch == 7
    log.truncate_to(3)
    assert (log.latest_epoch, log.log_end_offset) == (0, 3)


# --- restart ---


def test_a_clean_restart_reads_no_batches_and_goes_on(open_log, make_batch):
    log = open_log(segment_bytes=300)
    fill(log, make_batch, 10, count=2)
    log.assign_epoch(3)
    log.append_as_leader(make_batch(), 3, 0)
    before = read_all(log)
    log.close()
    again = open_log(segment_bytes=300)
    assert again.recovery is None
    assert read_all(again) == before
    assert (again.log_end_offset, again.latest_epoch) == (21, 3)
    assert again.append_as_leader(make_batch(), 3, 0).first_offset == 21


def test_an_unclean_restart_keeps_every_whole_batch(open_log, make_batch):
    log = open_log(segment_bytes=300)
    fill(log, make_batch, 10)
    before = read_all(log)
    log.discard()
    again = open_log(segment_bytes=300, clean=False)
    assert read_all(again) == before
    assert (again.recovery.bytes_checked, again.recovery.bytes_cut) == (1000, 0)


def test_deleted_records_stay_deleted_over_a_restart(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 5)
    log.delete_records_before(3)
    log.close()
    assert open_log(log_start_offset=3).log_start_offset == 3


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "zeros", "shifted"])
def test_a_bad_index_file_is_noticed_and_rebuilt(open_log, make_batch, tmp_path, suffix, damage):
    config = {"index_interval_bytes": 150, "segment_bytes": 2000}
    log = open_log(**config)
    for number in range(50):
        log.append_as_leader(make_batch(timestamp=number), 0, 0)
    log.close()
    for path in (tmp_path / "t-0").glob(f"*{suffix}"):
        damage_file(path, damage)
    again = open_log(**config)
    for offset in range(50):
        (view, *_) = again.read(offset, 100, up_to=50, at_least_one=True)
        assert read_header(view).base_offset == offset
        assert read_header(again.find_by_timestamp(offset)).base_offset == offset
    assert again.append_as_leader(make_batch(), 0, 0).first_offset == 50


def test_a_time_index_that_makes_records_look_older_does_not_get_them_deleted(open_log, make_batch, tmp_path):
    config = {"segment_bytes": 500, "index_interval_bytes": 0, "retention_ms": 1000}
    log = open_log(**config)
    for timestamp in (100, 5000, 200, 300, 400, 5000):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    log.close()
    path = tmp_path / "t-0" / f"{0:020d}.timeindex"
    entries = path.read_bytes()
    assert struct.unpack(">qI", entries[-12:]) == (5000, 1)
    path.write_bytes(entries[:-12] + struct.pack(">qI", 401, 1))  # still rising
    assert open_log(**config).apply_retention(5500) == []


def test_an_offset_index_that_points_beside_a_batch_is_noticed(open_log, make_batch, tmp_path):
    log = open_log(index_interval_bytes=0)
    fill(log, make_batch, 10)  # all of one time, so that the time index has nothing to say
    log.close()
    path = tmp_path / "t-0" / f"{0:020d}.index"
    entries = list(struct.iter_unpack(">II", path.read_bytes()))
    assert entries[4] == (5, 500)
    entries[4] = (5, 501)  # still rising
    path.write_bytes(b"".join(struct.pack(">II", *entry) for entry in entries))
    again = open_log(index_interval_bytes=0)
    assert again.recovery is None
    for offset in range(10):
        (view,) = again.read(offset, 100, up_to=10, at_least_one=True)
        assert read_header(view).base_offset == offset


def damage_file(path: Path, damage: str) -> None:
    data = path.read_bytes()
    assert len(data) > 16
    if damage == "missing":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(data[:-3])
    elif damage == "zeros":
        path.write_bytes(bytes(len(data)))
    else:
        path.write_bytes(b"".join(bytes([*data[at : at + 7], data[at + 7] + 1]) for at in range(0, len(data) - 7, 8)))
