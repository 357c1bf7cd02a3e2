"""A data folder over the lives of a broker: lock, identity, restarts, deletion, checkpoints."""

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.storage.data_folder import index_format
from ottla.broker.storage.data_folder.index_format import FORMAT_FILE
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.batch import BatchHeader, read_header
from ottla.wire.errors import ConfigError, InconsistentTopicId, InvalidTopic, StorageError
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch
from tests.support.machine import scaled

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b-c.d", 0)
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100)

OpenDir = Callable[..., LogDir]


@pytest.fixture
def open_dir(tmp_path: Path) -> Iterator[OpenDir]:
    opened: list[LogDir] = []

    def open_it(broker_id: int = 1, cluster_id: str = "c", boot_id: str = "boot-1") -> LogDir:
        log_dir = LogDir.open(
            tmp_path, broker_id=broker_id, cluster_id=cluster_id, config_for=lambda topic: CONFIG, boot_id=boot_id
        )
        opened.append(log_dir)
        return log_dir

    yield open_it
    for log_dir in opened:
        crash(log_dir)


def crash(log_dir: LogDir) -> None:
    """End a life without a clean shutdown."""
    for log in log_dir.logs.values():
        log.discard()
    log_dir._lock.release()


def filled(log_dir: LogDir, make_batch, partition: TopicPartition = A0, batches: int = 5) -> None:
    log = log_dir.create_log(partition, "id-1", CONFIG)
    for _ in range(batches):
        log.append_as_leader(make_batch(), 0, 0)


def flip_a_byte(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def test_a_clean_restart_finds_all_logs_and_checks_none(open_dir, make_batch):
    log_dir = open_dir()
    for partition in (A0, A1, B0):
        filled(log_dir, make_batch, partition)
    log_dir.checkpoint_high_watermarks({A0: 4, A1: 99, B0: 1})
    log_dir.close()
    again = open_dir(boot_id="boot-2")
    assert (again.unclean, again.tail_suspect, again.failed) == (False, False, {})
    assert {partition: log.log_end_offset for partition, log in again.logs.items()} == {A0: 5, A1: 5, B0: 5}
    assert [log.recovery for log in again.logs.values()] == [None] * 3
    assert [again.high_watermark(partition) for partition in (A0, A1, B0)] == [4, 5, 1]
    assert again.logs[A0].flushed_up_to == 5


def test_a_new_folder_is_neither_unclean_nor_suspect(open_dir):
    log_dir = open_dir()
    assert (log_dir.unclean, log_dir.tail_suspect) == (False, False)


def test_a_killed_process_loses_nothing_and_is_not_suspect(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    crash(log_dir)
    again = open_dir()
    assert (again.unclean, again.tail_suspect) == (True, False)
    assert again.logs[A0].log_end_offset == 5
    assert again.logs[A0].recovery is not None


def test_after_a_crash_of_the_machine_tails_are_suspect_until_that_is_reported(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    crash(log_dir)
    for _ in range(2):  # a crash before the report must not hide it
        log_dir = open_dir(boot_id="boot-2")
        assert (log_dir.unclean, log_dir.tail_suspect) == (True, True)
        crash(log_dir)
    log_dir = open_dir(boot_id="boot-2")
    log_dir.close()  # nor must a clean shutdown
    log_dir = open_dir(boot_id="boot-2")
    assert log_dir.tail_suspect
    log_dir.tail_reported()
    crash(log_dir)
    log_dir = open_dir(boot_id="boot-2")
    assert (log_dir.unclean, log_dir.tail_suspect) == (True, False)


def test_a_clean_marker_holds_for_one_start_only(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.close()
    crash(open_dir())
    assert open_dir().unclean


def test_a_torn_append_is_no_reason_for_suspicion(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    crash(log_dir)
    path = tmp_path / "a-0" / f"{3:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(make_batch())[:-1])
    again = open_dir()
    assert (again.logs[A0].recovery.bytes_cut, again.tail_suspect) == (99, False)


def test_damaged_records_are_a_reason_for_suspicion_that_survives_a_crash(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    crash(log_dir)
    flip_a_byte(tmp_path / "a-0" / f"{0:020d}.log", 150)
    log_dir = open_dir()
    assert (log_dir.tail_suspect, log_dir.logs[A0].log_end_offset) == (True, 1)
    crash(log_dir)
    assert open_dir().tail_suspect  # though this time nothing was cut


def test_a_tail_cut_below_the_high_watermark_is_suspect(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.checkpoint_high_watermarks({A0: 5})
    crash(log_dir)
    path = tmp_path / "a-0" / f"{3:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    assert open_dir().tail_suspect


def test_a_broken_partition_does_not_keep_the_others_down(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    for partition in (A0, A1, B0):
        filled(log_dir, make_batch, partition)
    log_dir.delete_log(B0)
    log_dir.logs[A0].delete_records_before(2)
    log_dir.close()
    (tmp_path / "a-0" / "partition.metadata").unlink()
    again = open_dir()
    assert set(again.logs) == {A1}
    assert "topic id" in again.failed[A0]
    with pytest.raises(StorageError, match="could not be opened"):
        again.create_log(A0, "id-1", CONFIG)
    again.close()
    (tmp_path / "a-0" / "partition.metadata").write_text("version: 0\ntopic_id: id-1\n")
    assert open_dir().logs[A0].log_start_offset == 2  # what was known of it is still known


def test_a_failed_log_keeps_the_shutdown_from_being_clean(open_dir, make_batch, monkeypatch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    filled(log_dir, make_batch, A1)

    def failing(fd, data, position):
        raise OSError(5, "input/output error")

    monkeypatch.setattr("os.pwrite", failing)
    with pytest.raises(StorageError):
        log_dir.logs[A0].append_as_leader(make_batch(), 0, 0)
    monkeypatch.undo()
    log_dir.close()
    again = open_dir()
    assert again.unclean
    assert again.logs[A0].log_end_offset == again.logs[A1].log_end_offset == 5


def test_a_second_process_is_refused(open_dir, tmp_path):
    open_dir()
    attempt = (
        "from pathlib import Path; from ottla.broker.storage.data_folder.log_dir import LogDir;"
        f"LogDir.open(Path({str(tmp_path)!r}), broker_id=1, cluster_id='c', config_for=lambda topic: None)"
    )
    result = subprocess.run(
        [sys.executable, "-c", attempt], capture_output=True, text=True, timeout=scaled(60), check=False
    )
    assert result.returncode == 1
    assert "ConfigError: data folder" in result.stderr
    assert "is in use by another process (pid " in result.stderr


@pytest.mark.parametrize("other", [{"broker_id": 2}, {"cluster_id": "other"}])
def test_another_brokers_folder_is_refused_and_left_alone(open_dir, make_batch, other):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.close()
    with pytest.raises(ConfigError, match=r"meta\.properties says"):
        open_dir(**other)
    again = open_dir()
    assert (again.unclean, again.data_uuid) == (False, log_dir.data_uuid)


def test_an_emptied_disk_is_known_by_its_data_uuid(open_dir, tmp_path):
    log_dir = open_dir()
    log_dir.close()
    (tmp_path / "meta.properties").unlink()
    assert open_dir().data_uuid != log_dir.data_uuid


def test_records_of_an_earlier_topic_are_never_mixed_in(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    assert log_dir.create_log(A0, "id-1", CONFIG) is log_dir.logs[A0]
    with pytest.raises(InconsistentTopicId, match="id-1, not id-2"):
        log_dir.create_log(A0, "id-2", CONFIG)
    log_dir.delete_log(A0)
    assert log_dir.create_log(A0, "id-2", CONFIG).log_end_offset == 0


def test_a_topic_made_anew_inherits_no_checkpoints(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.logs[A0].flush()
    log_dir.logs[A0].delete_records_before(3)
    log_dir.checkpoint_recovery_points()
    log_dir.checkpoint_log_start_offsets()
    log_dir.checkpoint_high_watermarks({A0: 5})
    log_dir.delete_log(A0)
    filled(log_dir, make_batch, batches=1)
    crash(log_dir)
    again = open_dir()
    log = again.logs[A0]
    assert (log.log_start_offset, log.log_end_offset, log.flushed_up_to, again.high_watermark(A0)) == (0, 1, 0, 0)


def test_a_deleted_log_is_renamed_then_removed_and_never_comes_back(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    long_name = TopicPartition("t" * 249, 7)
    for partition in (A0, A1, long_name):
        filled(log_dir, make_batch, partition)
    held = log_dir.logs[A0].read(0, 1000, up_to=5, at_least_one=False)
    before = b"".join(held)
    doomed = log_dir.delete_log(A0)
    assert doomed.name.startswith("a-0.")
    assert doomed.name.endswith("-delete")
    log_dir.remove_folder(doomed)
    assert not doomed.exists()
    assert b"".join(held) == before
    left_behind = [log_dir.delete_log(A1), log_dir.delete_log(long_name)]
    crash(log_dir)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "my-delete").mkdir()
    again = open_dir()
    assert again.logs == {}
    assert not any(path.exists() for path in left_behind)
    assert (tmp_path / "lost+found").exists()
    assert (tmp_path / "my-delete").exists()


def test_topic_names_cannot_leave_the_folder(open_dir):
    with pytest.raises(InvalidTopic):
        open_dir().create_log(TopicPartition("../evil", 0), "id", CONFIG)


def test_truncation_lowers_the_recovery_point_on_disk_first(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=10)
    log = log_dir.logs[A0]
    log.flush()
    log_dir.checkpoint_recovery_points()
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\na 0 10\n"
    log.truncate_to(4)
    assert checkpoint.read_text() == "0\n1\na 0 4\n"
    for _ in range(8):
        log.append_as_leader(make_batch(), 1, 0)
    crash(log_dir)
    flip_a_byte(tmp_path / "a-0" / f"{6:020d}.log", 150)  # between the old recovery point and the new
    assert open_dir().logs[A0].log_end_offset == 7


def test_a_cut_by_recovery_lowers_the_recovery_point_as_well(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch, batches=6)
    log_dir.logs[A0].flush()
    log_dir.checkpoint_recovery_points()
    crash(log_dir)
    flip_a_byte(tmp_path / "a-0" / f"{3:020d}.log", 250)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 6\n")
    log_dir = open_dir()
    assert log_dir.logs[A0].log_end_offset == 5
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na 0 5\n"


def test_garbage_in_a_checkpoint_is_treated_as_absent(open_dir, make_batch, tmp_path):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.close()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"0\n7\n\xff\xfe garbage")
    again = open_dir()
    assert (again.logs[A0].log_end_offset, again.high_watermark(A0)) == (5, 0)


def test_deleted_records_stay_deleted_over_a_crash_once_that_was_noted(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log_dir.logs[A0].delete_records_before(3)
    log_dir.checkpoint_log_start_offsets()
    crash(log_dir)
    log = open_dir().logs[A0]
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)


def test_what_is_written_below_a_beginning_that_was_noted_is_there_after_a_crash(open_dir, make_batch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log = log_dir.logs[A0]
    log.delete_records_before(5)
    log_dir.checkpoint_log_start_offsets()
    log.truncate_fully_and_start_at(1)  # another leader, elected as it was, begins there
    log.append_as_leader(make_batch(), 1, 0)
    crash(log_dir)
    log = open_dir().logs[A0]
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)


def test_log_whose_folder_cannot_be_renamed_is_deleted_by_the_next_attempt(open_dir, make_batch, monkeypatch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log = log_dir.logs[A0]
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", lambda path, target: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
        with pytest.raises(OSError, match="broken"):
            log_dir.delete_log(A0)
    assert log_dir.logs == {A0: log}
    assert log.failed, "it takes no records any more"
    log_dir.remove_folder(log_dir.delete_log(A0))
    assert log_dir.logs == {}
    assert not log.folder.exists()


def test_deletion_without_descriptors_for_its_fsync_is_a_deletion(open_dir, make_batch, monkeypatch):
    log_dir = open_dir()
    filled(log_dir, make_batch)
    log = log_dir.logs[A0]
    with monkeypatch.context() as short:
        short.setattr(
            os, "open", lambda *arguments: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many open files"))
        )
        doomed = log_dir.delete_log(A0)
    log_dir.remove_folder(doomed)
    assert log_dir.logs == {}
    assert not log.folder.exists()


# --- the form of indexes -------------------------------------------------------------------------------------------------


def batches_of(segment: Path) -> dict[int, BatchHeader]:
    """By position, with a batch of three records at each."""
    data, found, position = segment.read_bytes(), {}, 0
    while position < len(data):
        found[position] = header = read_header(data, position)
        position += header.size
    return found


def index_entries(folder: Path) -> list[tuple[int, int]]:
    """As Kafka's DumpLogSegments checks them: the batch at each position ends with the offset of its entry."""
    found = []
    for path in sorted(folder.glob("*.index")):
        batches, base = batches_of(path.with_suffix(".log")), int(path.stem)
        entries = [(base + relative, position) for relative, position in struct.iter_unpack(">II", path.read_bytes())]
        assert [batches[position].last_offset for _, position in entries] == [offset for offset, _ in entries]
        times = list(struct.iter_unpack(">qI", path.with_suffix(".timeindex").read_bytes()))
        ends = {(header.max_timestamp, header.last_offset) for header in batches.values()}
        assert {(timestamp, base + relative) for timestamp, relative in times} <= ends
        found += entries
    return found


def filled_with_threes(open_dir: OpenDir, batches: int = 9) -> LogDir:
    log_dir = open_dir()
    log = log_dir.create_log(A0, "id-1", CONFIG)
    for number in range(batches):
        log.append_as_leader(memoryview(bytearray(encode_batch([b"x"] * 3, timestamps=number))), 0, 0)
    return log_dir


@pytest.mark.parametrize("clean", [True, False])
def test_index_entries_are_the_last_offsets_of_batches_as_in_kafka(
    open_dir: OpenDir, tmp_path: Path, clean: bool
) -> None:
    log_dir = filled_with_threes(open_dir)
    log_dir.close() if clean else crash(log_dir)
    if not clean:
        open_dir().close()
    entries = index_entries(tmp_path / str(A0))
    assert len(entries) >= 3
    assert all(offset % 3 == 2 for offset, _ in entries)


def test_indexes_of_the_old_form_are_rebuilt_once(open_dir: OpenDir, tmp_path: Path) -> None:
    """First offsets of batches; also where one of them could be taken for today's form."""
    filled_with_threes(open_dir).close()
    folder = tmp_path / str(A0)
    entries = index_entries(folder)
    for path in folder.glob("*.index"):
        old = [(relative - 2, position) for relative, position in struct.iter_unpack(">II", path.read_bytes())]
        path.write_bytes(b"".join(struct.pack(">II", *entry) for entry in old))
    (tmp_path / FORMAT_FILE).unlink()
    log_dir = open_dir()
    for offset in range(27):
        view, *_ = log_dir.logs[A0].read(offset, 1, up_to=27, at_least_one=True)
        assert read_header(view).base_offset == offset - offset % 3
    log_dir.close()
    assert index_entries(folder) == entries
    written = {path.name: path.stat().st_mtime_ns for path in folder.glob("*index")}
    log_dir = open_dir()
    log_dir.close()
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("*index")} == written, "not built again"


def test_full_disk_keeps_no_broker_from_starting_with_old_indexes(
    open_dir: OpenDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_with_threes(open_dir).close()
    (tmp_path / FORMAT_FILE).unlink()

    def no_room(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(index_format, "replace_file", no_room)
        open_dir().close()
    assert not (tmp_path / FORMAT_FILE).exists()
    open_dir().close()
    assert (tmp_path / FORMAT_FILE).exists()
