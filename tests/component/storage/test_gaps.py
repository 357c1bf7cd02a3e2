"""Offsets without records: a log bears them everywhere, and no record is ever found under the offset of another."""

from pathlib import Path

import pytest

from ottla import compiled
from ottla.broker.storage import incoming, recovery
from ottla.broker.storage import log as log_module
from ottla.broker.storage.epochs import EpochCache
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.recovery import RecoveryReport
from ottla.broker.storage.segments.segment import Segment
from ottla.wire.batch import HEADER_SIZE, build_gap, check_batch, read_header, stamp
from ottla.wire.errors import CorruptMessage
from ottla.wire.records import RecordBatch, encode_batch
from ottla.wire.rewriting import keep_records
from tests.support.logs import offsets_in, read_all, segment_count
from tests.support.switched_off import cut_out

CANNOT_CUT = "nothing can be cut out of compiled code; OTTLA_PURE=1 can"
CONFIG = {"segment_bytes": 400, "index_interval_bytes": 0}


def batch(base: int, kept: str, epoch: int = 0, time: int = 0) -> bytes:
    """A batch that once had a record for each letter; those of "." are gone."""
    encoded = encode_batch([letter.encode() for letter in kept], timestamps=[time + n for n in range(len(kept))])
    stamp(encoded, 0, base, epoch)
    return bytes(keep_records(RecordBatch(encoded), [letter != "." for letter in kept]))


def gap(base: int, behind: int, epoch: int = 0, **producer: int) -> bytes:
    return bytes(build_gap(base, behind, epoch, **producer))


COMPACTED = [
    gap(0, 5),  # at a segment's beginning
    batch(5, "ab", time=100),
    batch(7, ".c.d", time=110),  # inside a batch
    gap(11, 30),  # between batches
    batch(30, "e...", time=200),
    gap(34, 40, 1),  # an epoch of which nothing is left
    gap(40, 41, 2),
    batch(41, "f", 2, time=300),
    gap(42, 60, 2),
    gap(60, 61, 2),  # at a segment's beginning again
    batch(61, "gh.", 2, time=400),  # the last records of the log are gone
]
END = 64
RECORDS = {5: b"a", 6: b"b", 8: b"c", 10: b"d", 30: b"e", 41: b"f", 61: b"g", 62: b"h"}


def follow(log: Log, *batches: bytes) -> Log:
    log.append_as_follower(memoryview(bytearray(b"".join(batches))))
    return log


@pytest.fixture
def log(open_log) -> Log:
    """In three segments, the first of offsets 0 to 29."""
    log = follow(open_log(**CONFIG), *COMPACTED)
    assert segment_count(log) == 3
    return log


def records_from(log: Log, offset: int) -> dict[int, bytes]:
    """What a reader of all of the log is shown, from the batch that holds ``offset`` on."""
    found: dict[int, bytes] = {}
    data = read_all(log, offset)
    while data:
        whole = RecordBatch(data)
        found |= {at: value for at, value in zip(whole.offsets(), whole.values(), strict=True) if value is not None}
        data = data[whole.size :]
    return found


def report_of(log: Log) -> RecoveryReport:
    assert log.recovery is not None
    return log.recovery


# --- reading ---


def test_a_log_with_gaps_is_stored_byte_for_byte_and_ends_where_its_leaders_does(log):
    assert read_all(log) == b"".join(COMPACTED)
    assert log.log_end_offset == END
    assert records_from(log, 0) == RECORDS


@pytest.mark.parametrize("restart", ["none", "clean", "crash"])
def test_every_offset_leads_to_the_next_record(log, open_log, restart):
    if restart != "none":
        log.close() if restart == "clean" else log.discard()
        log = open_log(clean=restart == "clean", **CONFIG)
    headers = [check_batch(each) for each in COMPACTED]
    for offset in range(END):
        (first, *_) = log.read(offset, 1, up_to=END, at_least_one=True)
        expected = next(header for header in headers if header.next_offset > offset)
        assert read_header(first) == expected
        shown = {at: value for at, value in records_from(log, offset).items() if at >= offset}
        assert shown == {at: value for at, value in RECORDS.items() if at >= offset}
    assert log.read(END, 100, up_to=END, at_least_one=True) == []


def test_a_time_is_looked_up_past_gaps(log):
    expected = {0: 5, 100: 5, 101: 5, 111: 7, 113: 7, 114: 30, 200: 30, 201: 41, 301: 61, 401: 61, 402: None}
    for time, offset in expected.items():
        found = log.find_by_timestamp(time)
        assert (None if found is None else read_header(found).base_offset) == offset


def test_a_segment_that_begins_with_a_gap_is_as_old_as_its_first_record(open_log, make_batch):
    log = follow(open_log(segment_ms=100), gap(0, 10))
    for timestamp in (1000, 1100):
        log.append_as_leader(make_batch(timestamp=timestamp), 0, 0)
    assert segment_count(log) == 1
    log.close()
    log = open_log(segment_ms=100)
    log.append_as_leader(make_batch(timestamp=1101), 0, 0)
    assert segment_count(log) == 2


def test_gaps_that_span_more_than_an_index_can_tell_are_put_into_several_segments(open_log):
    far = 2**31
    pieces = [batch(0, "a"), gap(1, far), gap(far, 2 * far), batch(2 * far, "b")]
    log = follow(open_log(), *pieces)
    assert segment_count(log) == 3
    log.discard()
    log = open_log(clean=False)
    assert report_of(log).reason == ""
    assert records_from(log, 0) == {0: b"a", 2 * far: b"b"}
    assert offsets_in(read_all(log, far + 5)) == [far, 2 * far]


# --- cutting ---


@pytest.mark.parametrize("offset", range(END + 1))
def test_a_cut_into_a_gap_or_a_batch_ends_the_log_where_that_begins(log, open_log, offset):
    log.truncate_to(offset)
    borders = [check_batch(each).base_offset for each in COMPACTED] + [END]
    end = max(border for border in borders if border <= offset)
    assert log.log_end_offset == end
    whole = [each for each in COMPACTED if check_batch(each).next_offset <= end]
    assert read_all(log) == b"".join(whole)
    missing = COMPACTED[len(whole) :]
    if missing:
        follow(log, *missing)
    log.discard()
    again = open_log(clean=False, **CONFIG)
    assert (report_of(again).reason, read_all(again)) == ("", b"".join(COMPACTED))


def test_epochs_of_which_nothing_is_left_are_known_to_followers(log, open_log, tmp_path):
    assert [log.end_offset_for_epoch(epoch) for epoch in range(3)] == [(0, 34), (1, 40), (2, END)]
    log.discard()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").unlink()
    open_log(clean=False, **CONFIG)
    assert EpochCache.load(tmp_path / "t-0").entries == ((0, 0), (1, 34), (2, 40))


def test_records_before_an_offset_in_a_gap_are_deleted(log):
    assert log.delete_records_before(45) == 45
    log.apply_retention(0)
    assert (log.log_start_offset, segment_count(log)) == (45, 2)
    assert records_from(log, 45) == {61: b"g", 62: b"h"}


# --- following ---


def test_a_follower_that_has_some_of_what_a_gap_is_made_of_takes_the_rest(open_log):
    log = follow(open_log(), batch(0, "ab"), batch(2, "cd"), batch(4, "ef"))
    follow(log, gap(2, 20, 1), batch(20, "g", 1))
    assert offsets_in(read_all(log)) == [0, 2, 4, 6, 20]
    assert log.log_end_offset == 21
    log.discard()
    again = open_log(clean=False)
    assert (report_of(again).reason, again.log_end_offset) == ("", 21)
    assert check_batch(again.read(6, HEADER_SIZE, up_to=20, at_least_one=True)[0]).next_offset == 20


@pytest.mark.parametrize(
    "piece",
    [
        batch(2, "xyz"),
        batch(2, "x.."),
        gap(2, 4),
        gap(2, 5, producer_id=3, producer_epoch=0, base_sequence=0),
        batch(5, "x"),
        gap(5, 6),
    ],
    ids=["overlap", "thinned", "known gap", "producer's gap", "hole", "hole before a gap"],
)
def test_a_follower_takes_nothing_that_does_not_begin_where_its_log_ends(open_log, piece):
    log = follow(open_log(), batch(0, "ab"), batch(2, "cd"))
    with pytest.raises(CorruptMessage, match="where the log ends at 4"):
        follow(log, piece)
    assert log.log_end_offset == 4


@pytest.mark.parametrize("first", [batch(100, "abcdefghij"), batch(100, "a........j"), gap(100, 110)])
def test_an_empty_log_begins_inside_a_batch_if_its_leaders_does(open_log, first):
    log = open_log()
    log.truncate_fully_and_start_at(105)
    follow(log, first, batch(110, "k"))
    assert (log.log_start_offset, log.log_end_offset) == (105, 111)
    assert read_all(log, 105) in (first + batch(110, "k"), gap(105, 110) + batch(110, "k"))
    log.close()
    again = open_log(log_start_offset=105)
    assert (again.recovery, again.log_start_offset, again.log_end_offset) == (None, 105, 111)


def test_what_a_gap_tells_of_a_producer_is_remembered(open_log, make_batch):
    sent = encode_batch([b"x"], timestamps=0, producer_id=7, producer_epoch=0, base_sequence=3)
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    for clean in (True, False):
        log = follow(open_log(clean=clean), *([gap(0, 3, **producer)] if clean else []))
        appended = log.append_as_leader(memoryview(bytearray(sent)), 0, 0)
        assert (appended.first_offset, appended.last_offset) == (3, 3), "the second time it is a repetition"
        log.discard()
    assert open_log(clean=False).log_end_offset == 4


# --- damage ---


def base_offset_positions(folder: Path) -> list[tuple[Path, int]]:
    found = []
    for path in sorted(folder.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            found.append((path, at))
            at += read_header(data, at).size
    return found


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


BITS = [0, 1, 2, 3, 5, 8, 31, 32, 40, 62, 63]


def assert_flipped_base_offsets_are_cut(folder: Path) -> None:
    for number, (path, at) in enumerate(base_offset_positions(folder)):
        for bit in BITS:
            kept = {name: name.read_bytes() for name in folder.iterdir()}
            flip(path, at, bit)
            log = Log.open(folder, "topic-id-1", LogConfig(**CONFIG), clean=False)  # type: ignore[arg-type]
            shown = records_from(log, 0) if log.size else {}
            log.discard()
            assert shown == {
                at: value for at, value in RECORDS.items() if at < check_batch(COMPACTED[number]).base_offset
            }
            for name in folder.iterdir():
                name.unlink()
            for name, data in kept.items():
                name.write_bytes(data)


def test_recovery_cuts_at_a_flipped_bit_in_any_base_offset(log, tmp_path):
    log.discard()
    assert_flipped_base_offsets_are_cut(tmp_path / "t-0")


@pytest.mark.skipif(compiled.is_active(), reason=CANNOT_CUT)
def test_without_its_guard_recovery_shows_records_under_wrong_offsets(log, tmp_path, monkeypatch):
    log.discard()
    monkeypatch.setattr(recovery, "_check", recovery._check)
    cut_out(recovery, "_check", "if header.base_offset != scan.next_offset:", "if False:")
    monkeypatch.setattr(Segment, "_check_tiles", lambda *_: None)
    with pytest.raises(AssertionError):
        assert_flipped_base_offsets_are_cut(tmp_path / "t-0")


def assert_flipped_base_offsets_are_not_replicated(log: Log) -> None:
    for number in range(len(COMPACTED)):
        for bit in BITS:
            damaged = bytearray(COMPACTED[number])
            damaged[7 - bit // 8] ^= 1 << bit % 8
            log.truncate_fully_and_start_at(0)
            if number:
                follow(log, *COMPACTED[:number])
            sent = check_batch(COMPACTED[number])
            try:
                follow(log, bytes(damaged))
            except CorruptMessage:
                assert log.log_end_offset == sent.base_offset
            else:
                assert sent.is_gap, (
                    "of a gap that seems to begin too early its end is believed, which is too early as well"
                )
                assert log.log_end_offset < sent.next_offset


def test_a_follower_takes_no_base_offset_with_a_flipped_bit(open_log):
    assert_flipped_base_offsets_are_not_replicated(open_log(**CONFIG))


@pytest.mark.skipif(compiled.is_active(), reason=CANNOT_CUT)
def test_without_its_guard_a_follower_takes_wrong_offsets(open_log, monkeypatch):
    monkeypatch.setattr(incoming, "replicated_batches", incoming.replicated_batches)
    cut_out(incoming, "replicated_batches", "if header.base_offset != next_offset and not", "if False and not")
    monkeypatch.setattr(log_module, "replicated_batches", incoming.replicated_batches)
    with pytest.raises(AssertionError):
        assert_flipped_base_offsets_are_not_replicated(open_log(**CONFIG))


def test_a_flipped_base_offset_in_a_sealed_segment_is_never_shown_and_can_be_passed(open_log, tmp_path):
    """Nothing reads a sealed segment again before somebody asks for it."""
    pieces = [batch(offset, "ab") for offset in range(0, 20, 2)]
    for interval in (0, 4096):
        for bit in BITS:
            config = {"segment_bytes": 100 * len(pieces), "index_interval_bytes": interval}
            log = follow(open_log(**config), *pieces, batch(20, "x" * 900))
            log.close()
            path, at = base_offset_positions(tmp_path / "t-0")[5]
            flip(path, at, bit)
            log = open_log(**config)
            assert log.recovery is None
            for offset in (10, 11):
                with pytest.raises(CorruptMessage, match="where 10 was due"):
                    log.read(offset, 1000, up_to=20, at_least_one=True)
            assert offsets_in(read_all(log, 12)) == [12, 14, 16, 18, 20]
            assert offsets_in(b"".join(log.read(0, 500, up_to=10, at_least_one=True))) == [0, 2, 4, 6, 8]
            log.discard()
            for name in (tmp_path / "t-0").iterdir():
                name.unlink()


def test_an_active_segment_is_looked_at_before_records_go_on_behind_it(log, open_log, tmp_path):
    log.close()
    path, at = base_offset_positions(tmp_path / "t-0")[-1]
    flip(path, at, 3)
    log = open_log(**CONFIG)
    assert (report_of(log).damaged, log.log_end_offset) == (True, 61)


def test_a_follower_takes_no_epoch_past_its_leaders(open_log):
    """Nor does a CRC cover the epoch. One that is too large would make every later batch seem to go back."""
    log = follow(open_log(), batch(0, "a", epoch=3))
    with pytest.raises(CorruptMessage, match="leader of epoch 5 sent epoch 7 after epoch 3"):
        log.append_as_follower(memoryview(bytearray(batch(1, "b", epoch=7))), 5)
    assert log.append_as_follower(memoryview(bytearray(batch(1, "b", epoch=5))), 5) == 2
