"""What a fetch brought: good batches come out, and the first bad one is named and stops what comes behind it."""

import pytest

from ottla.client.consuming.fetched import unpack
from ottla.wire.batch import MAGIC_COLUMNS, MAGIC_KAFKA, build_gap, stamp
from ottla.wire.errors import OttlaError, UnreadableRecords, UnsupportedForMessageFormat
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch

WHERE = TopicPartition("t", 3)


def batch(base: int, count: int = 2, magic: int = MAGIC_COLUMNS) -> bytearray:
    encoded = encode_batch([b"v"] * count, timestamps=7, magic=magic)
    stamp(encoded, 0, base, 0)
    return encoded


def damaged(base: int, at: int, count: int = 2, magic: int = MAGIC_COLUMNS) -> bytearray:
    encoded = batch(base, count, magic)
    encoded[at] ^= 0xFF
    return encoded


def unpacked(*pieces: bytes | bytearray, offset: int = 0) -> tuple[list[int], OttlaError | None]:
    batches, error = unpack(WHERE, memoryview(b"".join(pieces)), offset, verify=True)
    return [each.base_offset for each in batches], error


def test_whole_batches_come_out_and_the_first_may_begin_before_the_offset() -> None:
    assert unpacked() == ([], None)
    assert unpacked(batch(0), batch(2), build_gap(4, 7, 0), batch(7), offset=1) == ([0, 2, 4, 7], None)
    assert unpacked(build_gap(4, 7, 0), batch(7), offset=5) == ([4, 7], None)
    assert unpacked(batch(0), batch(2)[:-1]) == ([0], None), "what was cut off comes with the next fetch"


@pytest.mark.parametrize("magic", [MAGIC_COLUMNS, MAGIC_KAFKA])
@pytest.mark.parametrize("at", [8, 9, 17, 25, 40, 60, -1])
def test_good_batches_before_a_damaged_one_come_out_and_it_is_named(at: int, magic: int) -> None:
    found, error = unpacked(batch(0), damaged(2, at, magic=magic), batch(4))
    assert found == [0]
    if error is None:  # its length says that more must follow: it is the first one of the next fetch
        found, error = unpacked(damaged(2, at, magic=magic), batch(4), offset=2)
        assert found == []
    assert isinstance(error, UnreadableRecords)
    assert (error.topic, error.partition, error.offset) == ("t", 3, 2)
    assert error.next_offset in (3, 4)


def test_batch_of_another_format_is_told_as_that() -> None:
    found, error = unpacked(batch(0), damaged(2, 16))
    assert found == [0]
    assert isinstance(error, UnsupportedForMessageFormat)
    assert (error.topic, error.partition, error.hint) == ("t", 3, "seek to 4 to go on behind it")


@pytest.mark.parametrize("pieces", [[batch(3)], [batch(8), batch(6)], [batch(8), batch(8)], [batch(8, 3), batch(9, 3)]])
def test_batches_that_lead_back_are_never_believed(pieces: list[bytearray]) -> None:
    found, error = unpacked(*pieces, offset=8)
    assert found == [8] * (len(pieces) - 1)
    assert isinstance(error, UnreadableRecords)


@pytest.mark.parametrize("bit", range(64))
def test_no_record_is_given_under_the_offset_of_a_flipped_bit(bit: int) -> None:
    """Nothing but the batch before it vouches for a base offset."""
    bad = batch(12)
    bad[7 - bit // 8] ^= 1 << bit % 8
    found, error = unpacked(batch(10), bad, batch(14), offset=10)
    assert found == [10]
    assert isinstance(error, UnreadableRecords)
    assert (error.offset, error.next_offset) == (12, 14)


@pytest.mark.parametrize("size", [1, 11, 12, 60])
def test_scrap_is_an_error_and_not_for_ever_nothing(size: int) -> None:
    found, error = unpacked(bytes(batch(0)[:size]))
    assert found == []
    assert isinstance(error, UnreadableRecords)
    assert error.next_offset == 1
