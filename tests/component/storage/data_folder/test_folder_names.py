"""What says that it is on disk is found there after a power cut: the names of folders and files are synced too."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.errors import StorageError
from ottla.wire.names import TopicPartition

CONFIG = LogConfig(segment_bytes=300, flush_policy="durable")
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Syncs:
    """Paths whose contents or names were synced, in order; fails where it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[Path] = []
        self.broken: Path | None = None
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._note)

    def _note(self, fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path == self.broken:
            raise OSError(5, "input/output error")
        self.paths.append(path)


@pytest.fixture
def log_dir(tmp_path):
    log_dir = LogDir.open(tmp_path / "data", broker_id=1, cluster_id="c", config_for=lambda topic: CONFIG)
    yield log_dir
    log_dir.close()


def test_the_folder_of_a_new_log_is_durable_before_its_records_count(log_dir, make_batch, monkeypatch):
    log = log_dir.create_log(A0, "id", CONFIG)
    log.append_as_leader(make_batch(), 0, 0)
    syncs = Syncs(monkeypatch)
    log.flush()
    assert {log_dir.folder, log.folder, log.folder / f"{0:020d}.log"} <= set(syncs.paths)
    assert log.flushed_up_to == 1


def test_a_log_whose_folder_could_not_be_made_durable_says_so(log_dir, make_batch, monkeypatch):
    log = log_dir.create_log(A0, "id", CONFIG)
    log.append_as_leader(make_batch(), 0, 0)
    Syncs(monkeypatch).broken = log_dir.folder
    with pytest.raises(StorageError):
        log.flush()
    monkeypatch.undo()
    assert (log.flushed_up_to, log.failed) == (0, True)


def test_folders_that_were_made_together_are_synced_once_and_later_ones_again(log_dir, make_batch, monkeypatch):
    logs = [log_dir.create_log(TopicPartition("a", number), "id", CONFIG) for number in range(5)]
    syncs = Syncs(monkeypatch)
    for _ in range(2):
        for log in logs:
            log.append_as_leader(make_batch(), 0, 0)
            log.flush()
    assert syncs.paths.count(log_dir.folder) == 1
    late = log_dir.create_log(TopicPartition("b", 0), "id", CONFIG)
    late.append_as_leader(make_batch(), 0, 0)
    late.flush()
    assert syncs.paths.count(log_dir.folder) == 2


def test_a_new_segment_and_a_cut_are_durable_with_the_next_flush(log_dir, make_batch, monkeypatch):
    log = log_dir.create_log(A0, "id", CONFIG)
    for _ in range(4):
        log.append_as_leader(make_batch(), 0, 0)
    log.flush()
    syncs = Syncs(monkeypatch)
    log.flush()
    assert log.folder not in syncs.paths
    log.truncate_to(1)
    log.append_as_leader(make_batch(), 1, 0)
    log.flush()
    assert log.folder in syncs.paths
    syncs.paths.clear()
    log.config = replace(log.config, segment_bytes=100)
    log.append_as_leader(make_batch(), 1, 0)
    log.flush()
    assert log.folder in syncs.paths
