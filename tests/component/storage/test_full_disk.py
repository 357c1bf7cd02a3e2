"""A full disk, a real one: what does not fit is refused and leaves nothing behind, and when there is room the log goes on."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.batch import stamp
from ottla.wire.errors import StorageError
from ottla.wire.names import TopicPartition
from tests.support.small_disks import fill_up, make_room, small_disk

A0 = TopicPartition("a", 0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 512) as mounted:
        yield mounted


def open_dir(disk: Path) -> LogDir:
    config = LogConfig(segment_bytes=10_000, retention_ms=0)
    return LogDir.open(disk, broker_id=1, cluster_id="c", config_for=lambda _: config, boot_id="boot")


@pytest.fixture
def log_dir(disk: Path) -> Iterator[LogDir]:
    opened = open_dir(disk)
    opened.create_log(A0, "id", LogConfig(segment_bytes=10_000, retention_ms=0))
    opened.checkpoint_recovery_points()
    yield opened
    for log in opened.logs.values():
        log.discard()
    opened._lock.release()


@pytest.fixture
def log(log_dir: LogDir) -> Log:
    return log_dir.logs[A0]


def read_all(log: Log) -> bytes:
    return b"".join(log.read(log.log_start_offset, 1 << 20, up_to=log.log_end_offset, at_least_one=False))


def copied(make_batch, offset: int, epoch: int, size: int = 100) -> memoryview:
    batch: memoryview = make_batch(size=size)
    stamp(batch, 0, offset, epoch)
    return batch


def test_a_leader_refuses_what_does_not_fit_and_goes_on_when_there_is_room(disk, log, make_batch):
    log.append_as_leader(make_batch(size=5000), 0, 0)
    before = read_all(log)
    fill_up(disk)
    for _ in range(3):
        with pytest.raises(StorageError, match="appending is not possible now"):
            log.append_as_leader(make_batch(size=5000), 0, 0)
    assert (log.failed, log.refuses_records, log.log_end_offset) == (False, True, 1)
    assert read_all(log) == before == (log.folder / f"{0:020d}.log").read_bytes()
    make_room(disk)
    log.append_as_leader(make_batch(size=4900), 0, 0)
    assert (log.refuses_records, log.log_end_offset) == (False, 2)
    assert log.flush() == 2


def test_a_follower_takes_what_fits_and_claims_no_epoch_that_it_does_not_have(disk, log, make_batch):
    log.append_as_follower(copied(make_batch, 0, 0, 5000))
    fill_up(disk)
    with pytest.raises(StorageError):
        log.append_as_follower(copied(make_batch, 1, 3, 4900))
    assert (log.failed, log.log_end_offset, log.latest_epoch) == (False, 1, 0)
    assert log.end_offset_for_epoch(3) == (-1, -1)
    make_room(disk)
    log.append_as_follower(copied(make_batch, 1, 4, 4900))
    assert (log.log_end_offset, log.latest_epoch) == (2, 4)
    assert log.end_offset_for_epoch(3) == (0, 1)


def test_a_segment_that_there_is_no_room_for_is_begun_later(disk, log, make_batch):
    for _ in range(2):
        log.append_as_leader(make_batch(size=5000), 0, 0)
    fill_up(disk)
    for _ in range(2):
        with pytest.raises(StorageError):
            log.append_as_leader(make_batch(size=5000), 0, 0)
    assert (log.failed, log.log_end_offset, len(read_all(log))) == (False, 2, 10_000)
    make_room(disk)
    for _ in range(3):
        log.append_as_leader(make_batch(size=5000), 0, 0)
    assert (log.log_end_offset, len(read_all(log))) == (5, 25_000)


def test_retention_makes_room_on_a_full_disk(disk, log_dir, log, make_batch):
    for epoch in range(8):
        log.append_as_leader(make_batch(size=5000, timestamp=1), epoch, 0)
    fill_up(disk)
    assert len(log.apply_retention(1000)) == 4
    log.remove_deleted_files()
    assert (log.failed, log.log_start_offset, log.log_end_offset) == (False, 8, 8)
    log.append_as_leader(make_batch(size=5000), 8, 0)
    assert (log.log_end_offset, len(read_all(log))) == (9, 5000)
    log_dir.checkpoint_log_start_offsets()
    log.apply_retention(1000)
    assert log.end_offset_for_epoch(5) == (5, 8), "old epochs are dropped when there is room for the file"


def test_retention_leaves_the_active_segment_if_there_is_no_room_for_another(log, make_batch, monkeypatch):
    for epoch in range(8):
        log.append_as_leader(make_batch(size=5000, timestamp=1), epoch, 0)
    real = os.open

    def full(path, flags, *more):
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", full)
    assert len(log.apply_retention(1000)) == 3
    monkeypatch.undo()
    assert (log.failed, log.log_start_offset, log.log_end_offset) == (False, 6, 8)
    assert len(log.apply_retention(1000)) == 1


def test_a_log_is_truncated_on_a_full_disk_or_left_whole(disk, log_dir, log, make_batch):
    for epoch in range(4):
        log.append_as_follower(copied(make_batch, epoch, epoch, 5000))
    log.flush()
    log_dir.checkpoint_recovery_points()
    fill_up(disk)
    with pytest.raises(StorageError, match="truncating is not possible now"):
        log.truncate_to(1)
    assert (log.failed, log.log_end_offset, log.latest_epoch) == (False, 4, 3)
    make_room(disk)
    log.truncate_to(1)
    assert (log.log_end_offset, log.latest_epoch) == (1, 0)
    log.append_as_follower(copied(make_batch, 1, 5))
    fill_up(disk)
    log.truncate_to(1)  # the checkpoints say no more than that: only the epochs are to be written
    assert (log.failed, log.log_end_offset, log.latest_epoch) == (False, 1, 0)
    make_room(disk)
    log.append_as_follower(copied(make_batch, 1, 7))
    log.discard()
    log_dir._lock.release()
    again = open_dir(disk)
    assert (again.logs[A0].log_end_offset, again.logs[A0].latest_epoch, again.lost.losses) == (2, 7, {})
    again.logs[A0].discard()
    again._lock.release()


def test_a_log_is_deleted_on_a_full_disk(disk, log_dir, log, make_batch):
    log.append_as_leader(make_batch(size=5000), 0, 0)
    log_dir.checkpoint_high_watermarks({A0: 1})
    fill_up(disk)
    log_dir.remove_folder(log_dir.delete_log(A0))
    assert log_dir.logs == {}
    assert not log.folder.exists()


def test_a_broker_that_was_killed_on_a_full_disk_opens_its_logs(disk, log_dir, log, make_batch):
    for _ in range(3):
        log.append_as_leader(make_batch(size=5000), 0, 0)
    fill_up(disk)
    log.discard()
    log_dir._lock.release()
    again = open_dir(disk)
    assert (again.failed, again.logs[A0].log_end_offset) == ({}, 3)
    again.logs[A0].discard()
    again._lock.release()


def test_a_flush_that_finds_no_room_fails_the_log(log, make_batch, monkeypatch):
    log.append_as_leader(make_batch(), 0, 0)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(StorageError, match="flushing failed"):
        log.flush()
    assert log.failed
