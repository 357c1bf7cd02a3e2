"""A want of file descriptors: what it stops changes nothing and fails no log, and segments never take more than their share."""

import os
from pathlib import Path

import pytest

from ottla.broker.storage.disk_health import DiskShortage
from ottla.broker.storage.log import Log
from ottla.broker.storage.segments.mapped_file import MappedFile
from ottla.broker.storage.segments.open_files import Mapped, OpenFiles
from ottla.wire.batch import HEADER_SIZE, MAGIC_KAFKA, Codec, build_batch, stamp
from ottla.wire.errors import StorageError
from ottla.wire.payload_check import STREAM_BEGINS
from tests.support.descriptors import few_descriptors
from tests.support.logs import fill, offsets_in, read_all


def open_in(folder: Path) -> int:
    found = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(path.is_relative_to(folder) for path in found)


def sent_by_a_producer(offset: int, epoch: int) -> memoryview:
    payload = STREAM_BEGINS[Codec.ZSTD].ljust(100 - HEADER_SIZE, b"x")
    made = build_batch(
        payload, magic=MAGIC_KAFKA, attributes=Codec.ZSTD, count=1, first_timestamp=1, max_timestamp=1, producer_id=7,
        producer_epoch=0, base_sequence=offset,
    )  # fmt: skip
    batch = memoryview(made)
    stamp(batch, 0, offset, epoch)
    return batch


def newest_sequence(log: Log) -> int:
    """Of the producer above, by what the log remembers; -1 if it does not know it."""
    return max((batches[-1].last_sequence for _, _, batches in log.producers.states.dump()), default=-1)


def test_readers_of_all_segments_hold_a_bounded_number_of_descriptors(open_log, make_batch, tmp_path):
    log = open_log(open_files=OpenFiles(maps_max=4), segment_bytes=100)
    fill(log, make_batch, 50)
    log.flush()
    for _ in range(2):
        assert offsets_in(read_all(log)) == list(range(50))
        assert open_in(tmp_path) <= 4 + 1, "the maps, and the active segment"


def test_segments_are_read_while_readers_hold_slices_of_all_maps(open_log, make_batch, tmp_path):
    open_files = OpenFiles(maps_max=4)
    log = open_log(open_files=open_files, segment_bytes=100)
    fill(log, make_batch, 50)
    log.flush()
    held = [log.read(offset, 100, up_to=50, at_least_one=True)[0] for offset in range(50)]
    assert open_files.maps == 4
    assert offsets_in(b"".join(held)) == list(range(50))
    assert open_in(tmp_path) == 4 + 1
    del held
    read_all(log)
    assert open_files.maps == 4, "what nobody holds is released for what is read next"


def test_a_segment_that_is_read_often_stays_mapped(open_log, make_batch):
    log = open_log(open_files=OpenFiles(maps_max=3), segment_bytes=100)
    fill(log, make_batch, 20)
    opened = []
    with pytest.MonkeyPatch.context() as patched:
        real = os.open

        def noting(path, *more):
            opened.append(Path(path).name)
            return real(path, *more)

        patched.setattr(os, "open", noting)
        log.flush()
        opened.clear()
        for offset in range(1, 19):
            log.read(0, 100, up_to=20, at_least_one=True)
            log.read(offset, 100, up_to=20, at_least_one=True)
    logs = [name for name in opened if name.endswith(".log")]
    assert logs.count(f"{0:020d}.log") < len(logs) / 4


def test_a_log_that_is_closed_or_cut_lets_go_of_its_share(open_log, make_batch, tmp_path):
    open_files = OpenFiles()
    log = open_log(open_files=open_files, segment_bytes=100, retention_ms=0)
    fill(log, make_batch, 20, timestamp=1)
    read_all(log)
    assert (open_files.maps, open_files.unflushed) == (19, 19)
    log.truncate_to(15)
    assert (open_files.maps, open_files.unflushed) == (15, 15), "the one that is cut is active now"
    log.apply_retention(1000, up_to=5)
    assert (open_files.maps, open_files.unflushed) == (10, 10)
    log.flush()
    assert (open_files.maps, open_files.unflushed) == (10, 0)
    log.close()
    assert (open_files.maps, open_in(tmp_path)) == (0, 0)


def test_many_sealed_segments_are_flushed_with_few_descriptors(open_log, make_batch, tmp_path):
    log = open_log(segment_bytes=100)
    fill(log, make_batch, 40)
    assert open_in(tmp_path) == 40
    with few_descriptors(10):
        assert log.flush(sealed_only=True) == 39
    assert open_in(tmp_path) == 1


def test_too_many_sealed_segments_that_wait_for_a_flush_are_told(open_log, make_batch):
    open_files = OpenFiles(unflushed_max=5)
    told = []
    open_files.on_many_unflushed.append(lambda: told.append(open_files.unflushed))
    log = open_log(open_files=open_files, segment_bytes=100)
    fill(log, make_batch, 8)
    assert told == [6, 7]


def test_sealed_segments_cannot_be_read_without_descriptors_and_can_with(open_log, make_batch):
    log = open_log(segment_bytes=300)
    fill(log, make_batch, 20)
    log.flush()
    with few_descriptors():
        for _ in range(2):
            with pytest.raises(StorageError, match="reading is not possible now"):
                read_all(log)
        log.append_as_leader(make_batch(), 0, 0)
    assert (log.failed, log.refuses_records) == (False, False)
    assert offsets_in(read_all(log)) == list(range(21))


@pytest.mark.parametrize("left", range(6))
@pytest.mark.parametrize("offset", [0, 5, 13, 19])
def test_a_log_is_truncated_with_few_descriptors_or_left_whole(open_log, left, offset):
    log = open_log(segment_bytes=300)
    for number in range(20):
        log.append_as_follower(sent_by_a_producer(number, number // 4))
    log.flush()
    log.close()
    log = open_log(segment_bytes=300)
    with few_descriptors(left):
        try:
            log.truncate_to(offset)
            expected = offset
        except DiskShortage:
            expected = 20
    assert (log.failed, log.log_end_offset) == (False, expected)
    assert offsets_in(read_all(log)) == list(range(expected))
    assert newest_sequence(log) == expected - 1
    log.truncate_to(offset)
    assert newest_sequence(log) == offset - 1
    log.append_as_follower(sent_by_a_producer(offset, 9))
    assert offsets_in(read_all(log)) == list(range(offset + 1))


@pytest.mark.parametrize("left", range(4))
def test_a_log_is_emptied_with_few_descriptors_or_left_whole(open_log, make_stamped, left):
    log = open_log(segment_bytes=300)
    for number in range(20):
        log.append_as_follower(make_stamped(number, 0))
    log.flush()
    with few_descriptors(left):
        try:
            log.truncate_fully_and_start_at(30)
            expected = 30
        except DiskShortage:
            expected = 20
    assert (log.failed, log.log_end_offset) == (False, expected)
    log.truncate_fully_and_start_at(10)
    log.append_as_follower(make_stamped(10, 1))
    log.close()
    log = open_log(segment_bytes=300)
    assert (log.log_start_offset, offsets_in(read_all(log, 10)), log.latest_epoch) == (10, [10], 1)


@pytest.mark.parametrize("maps_max", [0, 10])
def test_sealed_segments_are_not_read_through_descriptors_that_a_flush_may_close(open_log, make_batch, maps_max):
    """A flush runs in a thread: the descriptor could be closed, and its number be that of another file, during a read."""
    log = open_log(open_files=OpenFiles(maps_max=maps_max), segment_bytes=100)
    fill(log, make_batch, 5)
    expected = read_all(log)
    other, numbers = os.memfd_create("other"), [segment.fd for segment in log._segments if segment.sealed]
    os.write(other, bytes(100))
    for number in numbers:
        os.dup2(other, number)
    assert read_all(log) == expected


def test_map_that_is_released_to_make_room_while_its_log_is_closed_in_a_thread(tmp_path: Path) -> None:
    """Before: AttributeError, so the deletion of the log, or the clean close of the data folder, did not end."""

    class Contended(OpenFiles):
        def forget_map(self, file: Mapped) -> None:
            file.was_read = False
            assert self.has_room()  # the event loop was quicker
            super().forget_map(file)

    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    mapped = MappedFile()
    mapped.use(Contended(maps_max=1))
    with path.open("rb") as file:
        mapped.map(file.fileno(), 10_000)
    assert mapped.release()
