"""A log that loses records: to retention, to deletion and to truncation; and what its epochs say then."""

import os

import pytest

from ottla.broker.storage.producers.log_producers import read_producers
from ottla.broker.storage.producers.states import ProducerStates
from ottla.broker.storage.segments.mapped_file import COPY_MAX
from ottla.wire.batch import MAGIC_KAFKA, Codec, build_batch
from ottla.wire.errors import (
    DuplicateSequenceNumber,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    ReplicaNotAvailable,
)
from ottla.wire.payload_check import STREAM_BEGINS
from tests.support.logs import fill, offsets_in, read_all, segment_count

# --- retention ---


def test_retention_by_time_deletes_old_segments_and_moves_the_log_start(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=200, retention_ms=1000)
    for timestamp in (100, 200, 1500, 1600, 3000):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    assert log.apply_retention(2000) == ["00000000000000000000.log"]
    assert (log.log_start_offset, segment_count(log)) == (2, 2)
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
    assert (segment_count(log), log.log_start_offset) == (2, 3)
    assert offsets_in(read_all(log, 3)) == [3, 4, 5]


# --- truncation ---


def test_truncation_cuts_across_segments_and_appending_goes_on(open_log, make_batch):
    log = open_log(segment_bytes=300, index_interval_bytes=0)
    fill(log, make_batch, 10)
    log.truncate_to(4)
    assert (log.log_end_offset, segment_count(log)) == (4, 2)
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


def test_a_reader_keeps_its_slice_while_the_log_is_cut_behind_it(open_log, make_batch, tmp_path):
    log = open_log()
    fill(log, make_batch, 8, size=COPY_MAX // 4, fill=1)
    (held,) = log.read(0, 1 << 30, up_to=8, at_least_one=False)
    fill(log, make_batch, 8, size=COPY_MAX // 4, fill=2)
    (newer,) = log.read(0, 1 << 30, up_to=10, at_least_one=False)  # maps anew: the first slice holds an old map
    before, before_newer = bytes(held), bytes(newer)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    inode = path.stat().st_ino
    log.truncate_to(10)
    assert (path.stat().st_ino, path.stat().st_size) == (inode, 10 * COPY_MAX // 4), "in place: nothing is copied"
    fill(log, make_batch, 4, size=COPY_MAX // 4, fill=3)
    assert (bytes(held), bytes(newer)) == (before, before_newer)
    assert offsets_in(read_all(log)) == list(range(14))


def test_a_cut_through_a_slice_that_is_held_is_put_off(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 8, size=COPY_MAX // 4)
    (held,) = log.read(0, 1 << 30, up_to=8, at_least_one=False)
    before = bytes(held)
    with pytest.raises(ReplicaNotAvailable):
        log.truncate_to(7)
    assert (log.log_end_offset, log.failed, bytes(held)) == (8, False, before)
    del held
    log.truncate_to(7)
    assert offsets_in(read_all(log)) == list(range(7))


def test_what_may_be_cut_is_copied_so_that_no_follower_is_in_the_way(open_log, make_batch):
    log = open_log()
    fill(log, make_batch, 8, size=COPY_MAX // 4)
    held = log.read(0, 1 << 30, up_to=8, at_least_one=False, stays=5)
    before = b"".join(held)
    log.truncate_to(5)
    assert b"".join(held) == before


def test_a_cut_reads_no_more_of_the_log_than_it_takes(open_log, make_batch, monkeypatch):
    """Not every header from the start, to learn who the producers were: the last batch of each is near the end."""
    log = open_log()
    for sequence in range(3000):
        log.append_as_leader(idempotent(7, sequence), 0, 0)
    for sequence in range(10):
        log.append_as_leader(idempotent(8, sequence), 0, 0)
    read = []
    real = os.pread

    def counted(fd, size, position):
        read.append(size)
        return real(fd, size, position)

    monkeypatch.setattr(os, "pread", counted)
    log.truncate_to(2900)
    assert sum(read) < 400_000 < log.size
    assert log.append_as_leader(idempotent(7, 2900), 0, 0).first_offset == 2900
    assert log.append_as_leader(idempotent(7, 2900), 0, 0).first_offset == 2900, "and it is known again"
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append_as_leader(idempotent(8, 10), 0, 0)
    assert log.append_as_leader(idempotent(8, 0), 0, 0).first_offset == 2901


def test_after_a_cut_producers_are_known_as_if_the_log_had_been_read_anew(open_log):
    log = open_log(segment_bytes=20_000, index_interval_bytes=500)
    sequences = {7: 0, 8: 0, 9: 0}
    for number in range(600):
        producer = 7 if number < 300 else 8 if number % 3 else 9
        log.append_as_leader(idempotent(producer, sequences[producer]), 0, 0)
        sequences[producer] += 1
    for end in (540, 500, 310, 301, 120):
        log.truncate_to(end)
        known = {producer: batches[-1] for producer, _, batches in log.producers.states.dump()}
        anew = {
            producer: batches[-1] for producer, _, batches in read_producers(log._segments, 0, ProducerStates()).dump()
        }
        assert known == anew, end


def test_an_epoch_of_a_producer_that_is_cut_does_not_let_an_earlier_one_write_again(open_log):
    """What stands in the log would stand there twice [I21]."""
    log = open_log()
    for sequence in range(3):
        log.append_as_leader(idempotent(7, sequence), 0, 0)
    log.append_as_leader(idempotent(7, 0, epoch=1), 0, 0)
    log.truncate_to(3)
    with pytest.raises(DuplicateSequenceNumber):
        log.append_as_leader(idempotent(7, 0), 0, 0)
    assert log.append_as_leader(idempotent(7, 0, epoch=1), 0, 0).first_offset == 3


def idempotent(producer_id, sequence, epoch=0):
    payload = STREAM_BEGINS[Codec.ZSTD].ljust(140, b".")
    return memoryview(
        build_batch(
            payload, magic=MAGIC_KAFKA, attributes=Codec.ZSTD, count=1, first_timestamp=1, max_timestamp=1,
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        )
    )  # fmt: skip


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
