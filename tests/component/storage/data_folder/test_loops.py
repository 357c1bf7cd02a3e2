"""The background tasks on a data folder: group commit and cleaning."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from ottla.broker.storage.data_folder.clean_loop import CleanIntervals, CleanLoop
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.flush_loop import Flusher
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.errors import NotLeaderOrFollower, StorageError
from ottla.wire.names import TopicPartition
from tests.support.machine import scaled
from tests.support.waiting import eventually

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class HeldSync:
    """os.fdatasync that counts its calls and waits for a sign."""

    def __init__(self, monkeypatch) -> None:
        self.calls = 0
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.error: OSError | None = None
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        self.calls += 1
        self.started.set()
        assert self.go_on.wait(scaled(10))
        if self.error is not None:
            raise self.error


# --- group commit ---


async def test_durable_returns_once_the_disk_has_the_records(open_log, make_batch):
    log, flusher = open_log(), Flusher()
    log.append_as_leader(make_batch(), 0, 0)
    await flusher.durable(log, 1)
    assert log.flushed_up_to == 1
    await flusher.close()


async def test_waiters_share_a_flush_and_late_ones_share_the_next(open_log, make_batch, monkeypatch):
    log, flusher, sync = open_log(), Flusher(), HeldSync(monkeypatch)
    log.append_as_leader(make_batch(), 0, 0)
    early = asyncio.create_task(flusher.durable(log, 1))
    await eventually(sync.started.is_set)
    late = []
    for offset in range(2, 12):
        log.append_as_leader(make_batch(), 0, 0)
        late.append(asyncio.create_task(flusher.durable(log, offset)))
    await asyncio.sleep(0)
    assert not early.done()
    sync.go_on.set()
    await asyncio.wait_for(asyncio.gather(early, *late), 10)
    assert (sync.calls, log.flushed_up_to) == (2, 11)
    await flusher.durable(log, 11)
    assert sync.calls == 2


async def test_a_flush_error_reaches_every_waiter_and_is_not_retried(open_log, make_batch, monkeypatch):
    log, flusher, sync = open_log(), Flusher(), HeldSync(monkeypatch)
    sync.error = OSError(5, "input/output error")
    log.append_as_leader(make_batch(3), 0, 0)
    waiters = [asyncio.create_task(flusher.durable(log, offset)) for offset in (1, 2, 3)]
    await eventually(sync.started.is_set)
    sync.go_on.set()
    results = await asyncio.gather(*waiters, return_exceptions=True)
    assert [type(result) for result in results] == [StorageError] * 3
    with pytest.raises(StorageError):
        await flusher.durable(log, 1)
    assert sync.calls == 1
    await flusher.close()


async def test_who_waits_for_records_that_are_cut_is_told(open_log, make_batch, monkeypatch):
    log, flusher, sync = open_log(), Flusher(), HeldSync(monkeypatch)
    for _ in range(3):
        log.append_as_leader(make_batch(), 0, 0)
    waiter = asyncio.create_task(flusher.durable(log, 3))
    await eventually(sync.started.is_set)
    log.truncate_to(1)
    sync.go_on.set()
    with pytest.raises(NotLeaderOrFollower):
        await asyncio.wait_for(waiter, 10)


async def test_a_waiter_that_gave_up_disturbs_nobody(open_log, make_batch, monkeypatch):
    log, flusher, sync = open_log(), Flusher(), HeldSync(monkeypatch)
    log.append_as_leader(make_batch(2), 0, 0)
    first, second = (asyncio.create_task(flusher.durable(log, offset)) for offset in (1, 2))
    await eventually(sync.started.is_set)
    first.cancel()
    sync.go_on.set()
    await asyncio.wait_for(second, 10)
    await flusher.close()


# --- cleaning ---


@pytest.fixture
def log_dir(tmp_path):
    config = LogConfig(segment_bytes=200, retention_ms=1000)
    log_dir = LogDir.open(tmp_path, broker_id=1, cluster_id="c", config_for=lambda topic: config)
    for partition in (A0, A1):
        log_dir.create_log(partition, f"id-{partition}", config)
    yield log_dir
    log_dir.close()


def make_loop(
    log_dir, high_watermarks, shortened=lambda partition: None, leads=True, now_ms=10_000, **intervals
) -> CleanLoop:
    return CleanLoop(
        log_dir,
        high_watermarks=lambda: high_watermarks,
        leads=lambda where: leads,
        now_ms=lambda: now_ms,
        clock=time.monotonic,
        intervals=CleanIntervals(**intervals),
        shortened=shortened,
    )


def fill(log_dir, make_batch, batches: int = 5) -> None:
    for log in log_dir.logs.values():
        for _ in range(batches):
            log.append_as_leader(make_batch(timestamp=1), 0, 0)


async def test_retention_stops_at_the_high_watermark_and_spares_the_unknown(log_dir, make_batch, tmp_path):
    fill(log_dir, make_batch)
    shortened: list[TopicPartition] = []
    await make_loop(log_dir, {A0: 3}, shortened.append).apply_retention()
    assert shortened == [A0]
    assert [log_dir.logs[key].log_start_offset for key in (A0, A1)] == [2, 0]
    assert not list((tmp_path / "a-0").glob("*.deleted"))
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n2\na 0 2\na 1 0\n"


async def test_follower_deletes_only_what_its_leader_has_deleted(log_dir, make_batch):
    """Before: by its own clock and its own size."""
    fill(log_dir, make_batch)
    log = log_dir.logs[A0]
    follower = make_loop(log_dir, {A0: 5, A1: 5}, leads=False)
    await follower.apply_retention()
    assert [one.log_start_offset for one in log_dir.logs.values()] == [0, 0]
    log.delete_records_before(4)  # the leader's log start offset came with a fetch
    await follower.apply_retention()
    assert (log.log_start_offset, log_dir.logs[A1].log_start_offset) == (4, 0)
    assert not (log.folder / f"{0:020}.log").exists()


async def test_nothing_is_deleted_by_age_while_the_clock_is_not_trusted(log_dir, make_batch):
    fill(log_dir, make_batch)
    log_dir.logs[A1].config = LogConfig(segment_bytes=200, retention_ms=1000, retention_bytes=250)
    await make_loop(log_dir, {A0: 5, A1: 5}, now_ms=None).apply_retention()
    assert log_dir.logs[A0].log_start_offset == 0
    assert log_dir.logs[A1].log_start_offset > 0  # what retention.bytes does not keep goes all the same


async def test_sealed_segments_are_flushed_and_the_recovery_point_follows(log_dir, make_batch, tmp_path):
    fill(log_dir, make_batch)
    await make_loop(log_dir, {}).checkpoint_recovery_points()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\na 0 4\na 1 4\n"


async def test_a_failed_log_does_not_keep_the_others_from_their_flush(log_dir, make_batch, monkeypatch):
    fill(log_dir, make_batch)
    real = os.fdatasync
    bad = log_dir.logs[A0].folder

    def failing(fd):
        if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(bad):
            raise OSError(5, "input/output error")
        real(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    await make_loop(log_dir, {}).flush()
    assert (log_dir.logs[A0].failed, log_dir.logs[A1].flushed_up_to) == (True, 5)


async def test_the_loop_does_each_duty_in_its_time_and_stops(log_dir, make_batch, tmp_path):
    fill(log_dir, make_batch)
    loop = make_loop(
        log_dir,
        {A0: 5, A1: 4},
        log_retention_check_interval_ms=20,
        log_flush_offset_checkpoint_interval_ms=20,
        replica_high_watermark_checkpoint_interval_ms=10,
        log_flush_interval_ms=10,
    )
    loop.start()
    checkpoint = tmp_path / "replication-offset-checkpoint"
    await eventually(lambda: checkpoint.exists() and checkpoint.read_text() == "0\n2\na 0 5\na 1 4\n")
    await eventually(lambda: log_dir.logs[A1].log_start_offset == 4)
    await eventually(lambda: log_dir.logs[A1].flushed_up_to == 5)
    await asyncio.wait_for(loop.stop(), 10)


async def test_a_checkpoint_that_cannot_be_written_does_not_end_the_loop(log_dir, make_batch, monkeypatch):
    fill(log_dir, make_batch)
    attempts = []

    def failing(*args):
        attempts.append(args)
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(log_dir, "checkpoint_high_watermarks", failing)
    loop = make_loop(log_dir, {}, replica_high_watermark_checkpoint_interval_ms=5)
    loop.start()
    await eventually(lambda: len(attempts) > 2)
    await asyncio.wait_for(loop.stop(), 10)
