"""Logs that hold less than the checkpoints beside them say: they are told from new, deleted and truncated ones."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.data_folder.lost_partitions import Loss
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.names import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
CONFIG = LogConfig(segment_bytes=300, retention_ms=0)

OpenDir = Callable[..., LogDir]


@pytest.fixture
def open_dir(tmp_path: Path) -> Iterator[OpenDir]:
    opened: list[LogDir] = []

    def open_it(boot_id: str = "boot-1") -> LogDir:
        log_dir = LogDir.open(tmp_path, broker_id=1, cluster_id="c", config_for=lambda topic: CONFIG, boot_id=boot_id)
        opened.append(log_dir)
        return log_dir

    yield open_it
    for log_dir in opened:
        crash(log_dir)


def crash(log_dir: LogDir) -> None:
    for log in log_dir.logs.values():
        log.discard()
    log_dir._lock.release()


def filled(log_dir: LogDir, make_batch, partition: TopicPartition = A0, batches: int = 5) -> None:
    """A log of five records in segments of three, as a broker makes it."""
    log = log_dir.create_log(partition, "id-1", CONFIG)
    log_dir.checkpoint_recovery_points()
    for _ in range(batches):
        log.append_as_leader(make_batch(timestamp=1), 0, 0)


def losses(log_dir: LogDir) -> dict[TopicPartition, Loss]:
    return {where: lost.loss for where, lost in log_dir.lost.losses.items()}


def path_of(folder: Path, base_offset: int) -> Path:
    return folder / "a-0" / f"{base_offset:020d}.log"


def test_a_log_that_is_whole_is_not_lost(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.checkpoint_high_watermarks({A0: 5})
    crash(log_dir)
    log_dir = open_dir()
    assert losses(log_dir) == {}
    log_dir.close()
    assert losses(open_dir()) == {}


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_folder_is_a_loss_until_that_was_acted_on(open_dir, make_batch, tmp_path, clean):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    filled(log_dir, make_batch, A1)
    log_dir.close() if clean else crash(log_dir)
    shutil.rmtree(tmp_path / "a-0")
    for _ in range(2):  # neither a crash nor a clean shutdown hides it
        log_dir = open_dir()
        assert losses(log_dir) == {A0: Loss.FOLDER}
        log_dir.checkpoint_recovery_points()
        log_dir.close() if clean else crash(log_dir)
    log_dir = open_dir()
    log_dir.lost.remove({A0})
    crash(log_dir)
    assert losses(open_dir()) == {}


def test_a_log_without_bytes_is_a_loss(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=3)
    log_dir.close()
    path_of(tmp_path, 0).write_bytes(b"")
    log_dir = open_dir()
    assert (losses(log_dir), log_dir.tail_suspect) == ({A0: Loss.END}, False)
    crash(log_dir)
    assert losses(open_dir()) == {A0: Loss.END}, "though the checkpoints do not say so any more"


def test_a_log_cut_where_a_batch_ends_is_a_loss(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.close()
    path = path_of(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:100])
    assert losses(open_dir()) == {A0: Loss.END}


def test_missing_segments_are_a_loss(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=8)
    log_dir.close()
    path_of(tmp_path, 0).unlink()
    log_dir = open_dir()
    assert (losses(log_dir), log_dir.logs[A0].log_start_offset) == ({A0: Loss.START}, 3)
    log_dir.lost.remove({A0})
    log_dir.close()
    path_of(tmp_path, 6).unlink()
    assert losses(open_dir()) == {A0: Loss.END}


def test_a_log_that_ends_before_its_high_watermark_is_a_loss_after_a_crash(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=3)
    log_dir.checkpoint_high_watermarks({A0: 3})
    crash(log_dir)
    path_of(tmp_path, 0).write_bytes(b"")
    assert losses(open_dir()) == {A0: Loss.END}


def test_after_a_power_cut_only_what_was_flushed_must_be_there(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=2)
    log_dir.logs[A0].flush()
    log_dir.checkpoint_recovery_points()
    log_dir.logs[A0].append_as_leader(make_batch(), 0, 0)
    log_dir.checkpoint_high_watermarks({A0: 3})
    crash(log_dir)
    path = path_of(tmp_path, 0)
    path.write_bytes(path.read_bytes()[:200])
    log_dir = open_dir(boot_id="boot-2")
    assert (losses(log_dir), log_dir.tail_suspect) == ({}, True)
    log_dir.tail_reported()
    crash(log_dir)
    log_dir = open_dir(boot_id="boot-2")
    assert losses(log_dir) == {}, "the power cut explains it for good"
    crash(log_dir)
    path.write_bytes(path.read_bytes()[:100])
    assert losses(open_dir(boot_id="boot-3")) == {A0: Loss.END}


def test_damage_that_recovery_cuts_is_a_loss_even_if_the_broker_dies_meanwhile(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.checkpoint_high_watermarks({A0: 5})
    crash(log_dir)
    path = path_of(tmp_path, 0)
    damaged = bytearray(path.read_bytes())
    damaged[150] ^= 1
    path.write_bytes(damaged)
    crash(open_dir())
    log_dir = open_dir()
    assert (losses(log_dir), log_dir.logs[A0].log_end_offset) == ({A0: Loss.END}, 1)


def test_retention_deletion_of_records_and_truncation_are_no_losses(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=7)
    log = log_dir.logs[A0]
    log.flush()
    log_dir.checkpoint_recovery_points()
    log_dir.checkpoint_high_watermarks({A0: 7})
    log.truncate_to(5)
    crash(log_dir)
    log_dir = open_dir()
    assert losses(log_dir) == {}
    log = log_dir.logs[A0]
    log.delete_records_before(4)
    log_dir.checkpoint_log_start_offsets()
    log_dir.close()
    log_dir = open_dir()
    log = log_dir.logs[A0]
    assert (log.log_start_offset, log_dir.lost.losses) == (4, {})
    assert log.apply_retention(10_000)
    crash(log_dir)  # before the new log start is noted
    log_dir = open_dir()
    log = log_dir.logs[A0]
    assert (log.log_start_offset, log.log_end_offset, log_dir.lost.losses) == (5, 5, {})
    log.truncate_fully_and_start_at(2)
    log_dir.close()
    assert losses(open_dir()) == {}


def test_a_high_watermark_that_is_noted_while_its_log_is_cut_does_not_outlive_the_cut(
    open_dir, make_batch, monkeypatch
):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    cut = os.ftruncate

    def note_first(fd: int, size: int) -> None:
        log_dir.checkpoint_high_watermarks({A0: 5})  # as another thread may
        cut(fd, size)

    monkeypatch.setattr(os, "ftruncate", note_first)
    log_dir.logs[A0].truncate_to(2)
    crash(log_dir)
    assert losses(open_dir()) == {}


def test_deleted_partitions_are_no_losses(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    filled(log_dir, make_batch, A1)
    log_dir.checkpoint_log_start_offsets()
    log_dir.checkpoint_high_watermarks({A0: 5, A1: 5})
    log_dir.delete_log(A0)
    crash(log_dir)
    log_dir = open_dir()
    assert (losses(log_dir), set(log_dir.logs)) == ({}, {A1})


def test_recovery_points_of_a_new_folder_tell_that_it_has_no_partitions(open_dir, tmp_path, make_batch):
    crash(open_dir())
    assert open_dir().knows_partitions


def test_without_recovery_points_it_is_not_known_which_folders_there_were(open_dir, tmp_path, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    crash(log_dir)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    log_dir = open_dir()
    assert (log_dir.knows_partitions, log_dir.lost.losses) == (False, {})


@pytest.mark.parametrize("made_anew", [True, False])
def test_a_folder_that_is_put_back_is_trusted_again_and_an_empty_one_is_not(open_dir, make_batch, tmp_path, made_anew):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.close()
    away = (tmp_path / "a-0").rename(tmp_path / "away")
    log_dir = open_dir()
    if made_anew:  # as when the controller says that the partition waits for its records
        log_dir.create_log(A0, "id-1", CONFIG)
    log_dir.close()
    log_dir = open_dir()
    assert losses(log_dir) == {A0: Loss.FOLDER}
    log_dir.close()
    shutil.rmtree(tmp_path / "a-0", ignore_errors=True)
    away.rename(tmp_path / "a-0")
    log_dir = open_dir()
    assert (losses(log_dir), log_dir.logs[A0].log_end_offset) == ({}, 5)
