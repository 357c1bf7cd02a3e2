"""A truncation is on disk once the log is flushed or closed: after a power cut no record comes back that was cut."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.storage.log import Log
from tests.support.logs import fill

Cut = Callable[[Log], None]


class SyncedDisk:
    """What a power cut would leave: the size of each file when it was last synced, and the names when the folder was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[str, int] = {}
        self.names: dict[str, set[str]] = {}
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._noting(getattr(os, name)))

    def _noting(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            real(fd)
            path = Path(f"/proc/self/fd/{fd}").readlink()
            if path.is_dir():
                self.names[path.name] = {each.name for each in path.glob("*.log")}
            else:
                self.sizes[path.name] = path.stat().st_size

        return sync


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SyncedDisk:
    return SyncedDisk(monkeypatch)


def cut_inside_a_segment(log: Log) -> None:
    log.truncate_to(5)


def cut_where_a_segment_begins(log: Log) -> None:
    log.truncate_to(4)


def cut_everything(log: Log) -> None:
    log.truncate_to(0)


def start_over(log: Log) -> None:
    log.truncate_fully_and_start_at(20)


def cut_and_roll(log: Log) -> None:
    log.truncate_to(5)
    log._segments.roll()


@pytest.mark.parametrize("end", [Log.close, lambda log: log.flush() and log.discard()], ids=["close", "flush"])
@pytest.mark.parametrize(
    "cut", [cut_inside_a_segment, cut_where_a_segment_begins, cut_everything, start_over, cut_and_roll]
)
def test_truncation_is_durable_after_a_close_and_after_a_flush(open_log, make_batch, tmp_path, disk, cut, end):
    log = open_log(segment_bytes=200)
    fill(log, make_batch, 7)
    log.flush()
    cut(log)
    end(log)
    found = {path.name: path.stat().st_size for path in (tmp_path / "t-0").glob("*.log")}
    assert disk.names["t-0"] == found.keys()
    assert {name: disk.sizes.get(name, 0) for name in found} == found, "what was never synced has no bytes"


def test_truncation_whose_flush_failed_for_want_of_descriptors_is_synced_by_the_next(open_log, make_batch, disk):
    log = open_log()
    fill(log, make_batch, 7)
    log.flush()
    log.truncate_to(5)
    with pytest.MonkeyPatch.context() as short:
        short.setattr(os, "dup", lambda fd: (_ for _ in ()).throw(OSError(24, "too many open files")))
        with pytest.raises(Exception, match="not possible now"):
            log.flush()
    assert disk.sizes[f"{0:020d}.log"] == 700
    log.flush()
    assert disk.sizes[f"{0:020d}.log"] == 500
