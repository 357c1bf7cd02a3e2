"""A log that is opened again: after a clean end, after another, and with index files that are damaged."""

import struct
from pathlib import Path

import pytest

from ottla.wire.batch import read_header
from tests.support.logs import fill, read_all


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
