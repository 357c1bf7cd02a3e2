"""What a crash, a torn write or a flipped bit leaves of a log."""

import shutil
from pathlib import Path

import pytest

from ottla.broker.storage.epochs import EpochCache
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.recovery import RecoveryReport
from ottla.wire.batch import read_header
from tests.support.logs import segment_count


@pytest.fixture
def crashed(open_log, make_batch, tmp_path):
    """A log of three segments, epochs 0 and 4, that was not closed: batches of 2 records at 0, 2, ... 14."""
    log = open_log(segment_bytes=300, index_interval_bytes=0)
    for number in range(8):
        log.append_as_leader(make_batch(2, fill=number + 1, timestamp=number), 4 if number > 3 else 0, 0)
    log.discard()
    return tmp_path / "t-0"


def reopen(folder: Path, recovery_point: int = 0) -> Log:
    config = LogConfig(segment_bytes=300, index_interval_bytes=0)
    return Log.open(folder, "topic-id-1", config, clean=False, recovery_point=recovery_point)


def report_of(log: Log) -> RecoveryReport:
    assert log.recovery is not None
    return log.recovery


def contents(log: Log) -> bytes:
    return b"".join(log.read(0, 1 << 20, up_to=log.log_end_offset, at_least_one=False))


def segment(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020d}.log"


def assert_recovers_to(folder: Path, expected: bytes, make_batch) -> None:
    """The log holds ``expected``, goes on contiguously, and a second recovery finds nothing wrong."""
    log = reopen(folder)
    try:
        assert contents(log) == expected
        end = log.log_end_offset
        assert log.append_as_leader(make_batch(3), 4, 0).first_offset == end
        assert read_header(log.read(end, 1000, up_to=end + 3, at_least_one=True)[0]).base_offset == end
    finally:
        log.discard()
    again = reopen(folder)
    assert (report_of(again).reason, again.log_end_offset) == ("", end + 3)
    again.discard()


def test_a_segment_cut_at_every_byte_of_its_last_batch_recovers_to_the_batch_before(crashed, make_batch, tmp_path):
    last = segment(crashed, 12).read_bytes()
    assert len(last) == 200
    whole = b"".join(segment(crashed, base).read_bytes() for base in (0, 6)) + last[:100]
    for size in range(100, 200):
        folder = tmp_path / "cut"
        shutil.copytree(crashed, folder)
        segment(folder, 12).write_bytes(last[:size])
        assert_recovers_to(folder, whole, make_batch)
        shutil.rmtree(folder)


def test_every_flipped_byte_of_the_last_batch_is_noticed(crashed, make_batch, tmp_path):
    last = segment(crashed, 12).read_bytes()
    whole = b"".join(segment(crashed, base).read_bytes() for base in (0, 6)) + last[:100]
    for place in range(100, 200):
        for flip in (0x01, 0x80, 0xFF):
            folder = tmp_path / "flip"
            shutil.copytree(crashed, folder)
            damaged = bytearray(last)
            damaged[place] ^= flip
            segment(folder, 12).write_bytes(damaged)
            log = reopen(folder)
            assert contents(log) == whole, f"byte {place - 100} of the batch, flipped by {flip:#x}"
            assert report_of(log).bytes_cut == 100
            log.discard()
            shutil.rmtree(folder)


def test_only_the_interrupted_append_counts_as_torn(crashed, tmp_path):
    for name, change, damaged in [
        ("torn", lambda data: data[:-1], False),
        ("flipped", lambda data: data[:-1] + b"\0", True),
        ("garbage", lambda data: data + b"\xff" * 100, True),
    ]:
        folder = tmp_path / name
        shutil.copytree(crashed, folder)
        segment(folder, 12).write_bytes(change(segment(folder, 12).read_bytes()))
        log = reopen(folder)
        assert report_of(log).damaged is damaged, name
        log.discard()


def test_a_flipped_bit_in_an_old_segment_drops_everything_after_it(crashed, make_batch):
    data = bytearray(segment(crashed, 6).read_bytes())
    data[170] ^= 4
    segment(crashed, 6).write_bytes(data)
    whole = segment(crashed, 0).read_bytes() + bytes(data[:100])
    log = reopen(crashed)
    assert (log.log_end_offset, segment_count(log)) == (8, 2)
    report = report_of(log)
    assert (report.bytes_cut, report.segments_dropped, report.damaged) == (200 + 200, 1, True)
    assert "CRC" in report.reason
    assert log.latest_epoch == 0  # epoch 4 began at 8: nothing of it is left
    log.discard()
    assert not list(crashed.glob("*.deleted"))
    assert_recovers_to(crashed, whole, make_batch)


def test_segments_before_the_recovery_point_are_not_read(crashed):
    log = reopen(crashed, recovery_point=12)
    assert report_of(log).bytes_checked == 200
    log.discard()
    log = reopen(crashed, recovery_point=7)
    assert report_of(log).bytes_checked == 500
    log.discard()
    log = reopen(crashed, recovery_point=10**9)
    assert report_of(log).bytes_checked == 200
    log.discard()


def test_a_segment_that_lost_its_end_takes_the_later_ones_with_it(crashed, make_batch):
    data = segment(crashed, 0).read_bytes()[:200]  # whole batches, as after a power cut
    segment(crashed, 0).write_bytes(data)
    log = reopen(crashed)
    assert report_of(log).damaged
    assert report_of(log).segments_dropped == 2
    log.discard()
    assert_recovers_to(crashed, data, make_batch)


def test_a_missing_segment_takes_the_later_ones_with_it(crashed):
    segment(crashed, 6).unlink()
    log = reopen(crashed)
    assert log.log_end_offset == 6
    assert "segment 12 follows" in report_of(log).reason


@pytest.mark.parametrize(
    ("clean", "recovery_point"), [(True, 16), (False, 16)], ids=["clean", "before the recovery point"]
)
def test_a_segment_that_went_missing_is_noticed_where_nothing_is_checked(
    open_log, make_batch, tmp_path, clean, recovery_point
):
    """Batches tile a log: what comes behind a hole would be given to whoever asks for what was in it [I27]."""
    log = open_log(segment_bytes=300)
    for number in range(8):
        log.append_as_leader(make_batch(2, timestamp=number), 0, 0)
    log.close()
    segment(tmp_path / "t-0", 6).unlink()
    again = open_log(segment_bytes=300, clean=clean, recovery_point=recovery_point)
    assert (again.log_end_offset, report_of(again).damaged) == (6, True)
    assert "segment 12 follows" in report_of(again).reason


def test_what_is_missing_before_the_log_start_offset_costs_nothing(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=300)
    for number in range(8):
        log.append_as_leader(make_batch(2, timestamp=number), 0, 0)
    log.close()
    segment(tmp_path / "t-0", 6).unlink()
    again = open_log(segment_bytes=300, recovery_point=16, log_start_offset=13)
    assert (again.log_start_offset, again.log_end_offset, again.recovery) == (13, 16, None)
    assert read_header(again.read(13, 100, up_to=16, at_least_one=True)[0]).base_offset == 12


def test_both_indexes_are_rebuilt(crashed):
    for path in [*crashed.glob("*.index"), *crashed.glob("*.timeindex")]:
        path.write_bytes(b"\xee" * 24)
    log = reopen(crashed)
    for offset in range(16):
        assert read_header(log.read(offset, 1, up_to=16, at_least_one=True)[0]).base_offset == offset // 2 * 2
    for timestamp in range(8):
        found = log.find_by_timestamp(timestamp)
        assert found is not None
        assert read_header(found).base_offset == timestamp * 2


def test_a_lost_epoch_checkpoint_is_read_from_the_batches(crashed):
    expected = EpochCache.load(crashed).entries
    assert expected == ((0, 0), (4, 8))
    for damage in (None, "", "garbage", "0\n2\n0 0\n", "0\n1\n0 zero\n", "0\n2\n4 8\n0 0\n"):
        path = crashed / "leader-epoch-checkpoint"
        path.unlink()
        if damage is not None:
            path.write_text(damage)
        log = reopen(crashed, recovery_point=12)
        assert EpochCache.load(crashed).entries == expected
        log.discard()


def test_epochs_past_the_recovered_end_are_forgotten(crashed):
    segment(crashed, 12).unlink()
    segment(crashed, 6).write_bytes(b"")
    log = reopen(crashed)
    assert (log.log_end_offset, log.latest_epoch) == (6, 0)
    assert EpochCache.load(crashed).entries == ((0, 0),)


def test_leftovers_and_orphan_indexes_are_removed(crashed):
    for name in ("x.tmp", f"{6:020d}.log.deleted", f"{0:020d}.log.swap", f"{0:020d}.log.cleaned", f"{99:020d}.index"):
        (crashed / name).write_bytes(b"rubbish")
    (crashed / "notes.txt").write_text("somebody's own")
    log = reopen(crashed)
    assert log.log_end_offset == 16
    assert not [path for path in crashed.iterdir() if path.read_bytes() == b"rubbish"]
    assert (crashed / "notes.txt").exists()


def test_a_damaged_tail_is_cut_even_after_a_clean_close(open_log, make_batch, tmp_path):
    log = open_log()
    for _ in range(3):
        log.append_as_leader(make_batch(), 0, 0)
    log.close()
    path = segment(tmp_path / "t-0", 0)
    path.write_bytes(path.read_bytes()[:-1])
    again = open_log(clean=True)
    assert (again.log_end_offset, report_of(again).bytes_cut) == (2, 99)


def test_a_batch_larger_than_the_read_window_is_recovered(open_log, make_batch, tmp_path):
    log = open_log(max_message_bytes=20_000_000)
    log.append_as_leader(make_batch(size=100), 0, 0)
    log.append_as_leader(make_batch(size=9_000_000), 0, 0)
    log.append_as_leader(make_batch(size=100), 0, 0)
    log.discard()
    again = open_log(clean=False)
    assert (report_of(again).reason, again.log_end_offset) == ("", 3)


def test_an_empty_log_that_was_closed_cleanly_is_not_recovered(open_log):
    open_log().close()
    assert open_log(clean=True).recovery is None
    assert open_log(clean=False).recovery is not None


def test_a_clean_log_with_records_and_without_epochs_is_recovered(open_log, make_batch, tmp_path):
    log = open_log()
    log.append_as_leader(make_batch(), 3, 0)
    log.close()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").unlink()
    again = open_log(clean=True)
    assert again.recovery is not None
    assert again.latest_epoch == 3
