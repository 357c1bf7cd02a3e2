"""The leader-epoch cache and its file."""

import os
from pathlib import Path

import pytest

from ottla.broker.storage.epochs import EpochCache
from ottla.wire.batch import stamp
from ottla.wire.errors import StorageError


@pytest.fixture
def cache(tmp_path):
    return EpochCache.load(tmp_path)


def reloaded(cache: EpochCache) -> list[tuple[int, int]]:
    """What the file says once it was saved, as it is before a record is written."""
    if cache.unsaved:
        cache.save()
    return [(entry.epoch, entry.start_offset) for entry in EpochCache.load(cache.path.parent).entries]


def test_the_file_is_kafkas(cache):
    cache.assign(0, 0)
    cache.assign(3, 17)
    assert not cache.path.exists()
    cache.save()
    assert cache.path.name == "leader-epoch-checkpoint"
    assert cache.path.read_text() == "0\n2\n0 0\n3 17\n"


def test_an_epoch_is_assigned_once_even_before_any_record(cache):
    assert cache.assign(1, 0)
    assert not cache.assign(1, 5)
    assert cache.assign(2, 5)
    assert cache.assign(4, 5)  # epoch 2 wrote nothing
    assert reloaded(cache) == [(1, 0), (4, 5)]
    assert cache.latest_epoch == 4


@pytest.mark.parametrize(("epoch", "offset"), [(1, 10), (-1, 10), (3, -1)])
def test_epochs_never_go_back(cache, epoch, offset):
    cache.assign(2, 5)
    with pytest.raises(ValueError):
        cache.assign(epoch, offset)
    assert reloaded(cache) == [(2, 5)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (3, (3, 30)), (5, (5, 99)), (6, (-1, -1))],
)
def test_the_end_of_the_largest_known_epoch_is_told(cache, asked, answer):
    for epoch, start in [(1, 10), (3, 20), (5, 30)]:
        cache.assign(epoch, start)
    assert cache.end_offset_for(asked, 99) == answer


def test_an_empty_cache_knows_nothing(cache):
    assert cache.end_offset_for(0, 99) == (-1, -1)
    assert (cache.latest_epoch, cache.epoch_at(0)) == (-1, -1)


@pytest.mark.parametrize(
    ("offset", "left"), [(0, []), (10, []), (11, [(1, 10)]), (20, [(1, 10)]), (31, [(1, 10), (3, 20), (5, 30)])]
)
def test_truncation_from_the_end(cache, offset, left):
    for epoch, start in [(1, 10), (3, 20), (5, 30)]:
        cache.assign(epoch, start)
    cache.truncate_from_end(offset)
    assert reloaded(cache) == left


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (5, [(1, 10), (3, 20), (5, 30)]),
        (10, [(1, 10), (3, 20), (5, 30)]),
        (15, [(1, 15), (3, 20), (5, 30)]),
        (20, [(3, 20), (5, 30)]),
        (40, [(5, 40)]),
    ],
)
def test_truncation_from_the_start_keeps_the_epoch_that_is_cut_through(cache, offset, left):
    for epoch, start in [(1, 10), (3, 20), (5, 30)]:
        cache.assign(epoch, start)
    cache.truncate_from_start(offset)
    assert reloaded(cache) == left


def test_a_write_that_fails_changes_nothing(cache, monkeypatch):
    cache.assign(1, 0)
    cache.assign(2, 10)
    cache.save()

    def failing(*args, **options):
        raise OSError(5, "input/output error")

    monkeypatch.setattr("ottla.broker.storage.epochs.write_rows", failing)
    with pytest.raises(OSError, match="input/output"):
        cache.truncate_from_end(5)
    cache.assign(3, 20)
    with pytest.raises(OSError, match="input/output"):
        cache.save()
    assert cache.unsaved
    monkeypatch.undo()
    assert [tuple(entry) for entry in cache.entries] == [(1, 0), (2, 10), (3, 20)]
    assert [tuple(entry) for entry in EpochCache.load(cache.path.parent).entries] == [(1, 0), (2, 10)]


def test_what_was_saved_is_synced_once_and_a_failed_sync_is_not_forgotten(cache, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    cache.sync()
    cache.assign(1, 0)
    cache.sync()
    assert not synced, "there is nothing in the file yet"
    cache.save()
    for _ in range(2):
        cache.sync()
    assert len(synced) == 2, "the file and its name"

    def failing(fd):
        raise OSError(5, "input/output error")

    cache.assign(2, 5)
    cache.save()
    monkeypatch.setattr("os.fsync", failing)
    for _ in range(2):
        with pytest.raises(OSError, match="input/output"):
            cache.sync()


# --- in a log ---


def test_becoming_leader_does_not_wait_for_the_disk(open_log, make_batch, monkeypatch):
    log = open_log()
    log.append_as_leader(make_batch(), 0, 0)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in log.folder.iterdir())

    def never(fd):
        raise AssertionError("fsync on the event loop")

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, never)
    log.assign_epoch(1)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in log.folder.iterdir()) == before
    assert (log.latest_epoch, log.end_offset_for_epoch(0)) == (1, (0, 1))
    log.append_as_leader(make_batch(), 1, 0)
    log.append_as_follower(follower_batch(make_batch, 2, 4))
    log.truncate_to(2)
    log.append_as_leader(make_batch(), 5, 0)


def test_an_epoch_with_records_outlives_a_crash_and_one_without_does_not(open_log, make_batch):
    log = open_log()
    log.append_as_leader(make_batch(), 3, 0)
    log.append_as_leader(make_batch(), 4, 0)
    log.assign_epoch(9)
    again = open_log(clean=False)  # the page cache is still there
    assert (again.log_end_offset, again.recovery.bytes_cut, again.latest_epoch) == (2, 0, 4)
    assert again.end_offset_for_epoch(3) == (3, 1)


def test_a_flush_counts_only_with_the_epochs_of_what_is_flushed(open_log, make_batch, monkeypatch):
    log = open_log()
    log.append_as_leader(make_batch(), 1, 0)
    real = os.fsync
    path = log.folder / "leader-epoch-checkpoint"

    def failing(fd):
        if Path(f"/proc/self/fd/{fd}").readlink() == path:
            raise OSError(5, "input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageError):
        log.flush()
    assert (log.flushed_up_to, log.failed) == (0, True)


def test_an_epoch_that_cannot_be_saved_takes_no_record(open_log, make_batch, monkeypatch):
    log = open_log()
    log.append_as_leader(make_batch(), 1, 0)

    def failing(*args, **options):
        raise OSError(5, "input/output error")

    monkeypatch.setattr("ottla.broker.storage.epochs.write_rows", failing)
    with pytest.raises(StorageError):
        log.append_as_leader(make_batch(), 2, 0)
    assert (log.log_end_offset, log.failed) == (1, True)


def follower_batch(make_batch, base_offset, epoch):
    batch = make_batch()
    stamp(batch, 0, base_offset, epoch)
    return batch
