"""A disk that fails: nothing partial is shown, the log takes no more records, and no fsync is tried twice."""

import errno
import os
import threading
from pathlib import Path

import pytest

from ottla.broker.storage.log import Log
from ottla.wire.batch import read_header
from ottla.wire.errors import StorageError
from tests.support.machine import scaled


def read_all(log: Log) -> bytes:
    return b"".join(log.read(0, 1 << 20, up_to=log.log_end_offset, at_least_one=False))


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
@pytest.mark.parametrize("written", [0, 1, 60, 99])
def test_a_failed_append_leaves_nothing_behind(open_log, make_batch, monkeypatch, tmp_path, code, written):
    log = open_log()
    first = make_batch()
    log.append_as_leader(first, 0, 0)
    real = os.pwrite
    calls = []

    def failing(fd, data, position):
        calls.append(len(data))
        if len(calls) == 1 and written:
            return real(fd, data[:written], position)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pwrite", failing)
    with pytest.raises(StorageError, match="appending failed"):
        log.append_as_leader(make_batch(), 0, 0)
    monkeypatch.undo()
    assert (log.failed, log.log_end_offset) == (True, 1)
    assert read_all(log) == bytes(first)
    assert (tmp_path / "t-0" / f"{0:020d}.log").read_bytes() == bytes(first)
    with pytest.raises(StorageError):  # though the disk works again
        log.append_as_leader(make_batch(), 0, 0)
    with pytest.raises(StorageError):
        log.append_as_follower(make_batch())
    with pytest.raises(StorageError):
        log.truncate_to(0)


def test_a_short_write_is_completed(open_log, make_batch, monkeypatch):
    log = open_log()
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, data[:30], position))
    batch = make_batch()
    log.append_as_leader(batch, 0, 0)
    assert read_all(log) == bytes(batch)


def test_a_write_that_makes_no_progress_fails(open_log, make_batch, monkeypatch):
    log = open_log()
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: 0)
    with pytest.raises(StorageError):
        log.append_as_leader(make_batch(), 0, 0)
    assert (log.size, log.refuses_records) == (0, True)


def test_bytes_that_could_not_be_cut_back_are_shown_to_nobody_and_recovered_away(open_log, make_batch, monkeypatch):
    log = open_log()
    log.append_as_leader(make_batch(), 0, 0)
    real = os.pwrite
    results = iter([lambda *args: real(args[0], args[1][:70], args[2]), lambda *args: fail(errno.ENOSPC)])
    monkeypatch.setattr(os, "pwrite", lambda *args: next(results)(*args))
    monkeypatch.setattr(os, "ftruncate", lambda *args: fail())
    with pytest.raises(StorageError):
        log.append_as_leader(make_batch(), 0, 0)
    monkeypatch.undo()
    assert (len(read_all(log)), log.failed) == (100, True)
    log.close()
    again = open_log(clean=False)
    assert (again.log_end_offset, again.recovery.bytes_cut) == (1, 70)


def fail(code=errno.EIO):
    raise OSError(code, os.strerror(code))


def test_a_failed_flush_fails_the_log_and_is_never_tried_again(open_log, make_batch, monkeypatch):
    log = open_log()
    log.append_as_leader(make_batch(), 0, 0)
    calls = []

    def failing(fd):
        calls.append(fd)
        fail()

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(StorageError, match="flushing failed"):
        log.flush()
    assert (log.failed, log.flushed_up_to) == (True, 0)
    for attempt in (log.flush, lambda: log.append_as_leader(make_batch(), 0, 0)):
        with pytest.raises(StorageError):
            attempt()
    log.close()
    assert len(calls) == 1


def test_a_segment_that_cannot_be_created_fails_the_log_but_not_its_readers(open_log, make_batch, monkeypatch):
    log = open_log(segment_bytes=150)
    log.append_as_leader(make_batch(), 0, 0)
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, flags, *more: fail() if flags & os.O_CREAT else real(path, flags, *more)
    )
    with pytest.raises(StorageError, match="rolling failed"):
        log.append_as_leader(make_batch(), 0, 0)
    monkeypatch.undo()
    assert (log.failed, log.log_end_offset, len(read_all(log))) == (True, 1, 100)


# --- flushing ---


def test_a_flush_covers_what_was_appended_across_segments(open_log, make_batch, monkeypatch):
    log = open_log(segment_bytes=250)
    synced = []
    real = os.fdatasync

    def noting(fd):
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name[-9:])
        real(fd)

    monkeypatch.setattr(os, "fdatasync", noting)
    for _ in range(5):
        log.append_as_leader(make_batch(), 0, 0)
    assert log.flushed_up_to == 0
    assert log.flush(sealed_only=True) == 4
    assert [name for name in synced if name.endswith(".log")] == ["00000.log", "00002.log"]
    synced.clear()
    assert log.flush() == 5
    assert synced == ["00004.log"]


def test_flushed_segments_keep_no_descriptors(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=100)
    for _ in range(20):
        log.append_as_leader(make_batch(), 0, 0)
    log.flush()
    descriptors = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert [path.name for path in descriptors if path.is_relative_to(tmp_path)] == [f"{19:020d}.log"]


def test_a_flush_does_not_vouch_for_records_that_were_cut_meanwhile(open_log, make_batch, monkeypatch):
    log = open_log()
    for _ in range(5):
        log.append_as_leader(make_batch(), 0, 0)
    in_flush, go_on = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(fd):
        in_flush.set()
        assert go_on.wait(scaled(10))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    thread = threading.Thread(target=log.flush)
    thread.start()
    assert in_flush.wait(scaled(10))
    log.truncate_to(2)
    for _ in range(5):
        log.append_as_leader(make_batch(fill=9), 1, 0)
    go_on.set()
    thread.join(10)
    assert log.flushed_up_to == 2
    assert log.flush() == 7


def test_a_flush_survives_segments_that_go_meanwhile(open_log, make_batch, monkeypatch):
    log = open_log(segment_bytes=100, retention_ms=0)
    for _ in range(5):
        log.append_as_leader(make_batch(timestamp=1), 0, 0)
    real = os.fdatasync
    in_flush, go_on = threading.Event(), threading.Event()

    def slow(fd):
        in_flush.set()
        assert go_on.wait(scaled(10))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    thread = threading.Thread(target=log.flush)
    thread.start()
    assert in_flush.wait(scaled(10))
    assert len(log.apply_retention(1000)) == 5
    log.remove_deleted_files()
    go_on.set()
    thread.join(10)
    assert (log.failed, log.flushed_up_to) == (False, 5)
    header = log.append_as_leader(make_batch(), 0, 0)
    assert read_header(log.read(5, 1000, up_to=6, at_least_one=True)[0]).base_offset == header.first_offset == 5
