"""Offsets without records: gaps, and batches that have lost some of their records."""

import struct

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    MAGIC_COLUMNS,
    MAGIC_KAFKA,
    Codec,
    build_batch,
    build_gap,
    check_batch,
    check_produced,
    read_header,
    stamp,
    stamp_append_time,
)
from ottla.wire.errors import CorruptMessage, InvalidRecord
from ottla.wire.payload_check import check_payload
from ottla.wire.records import RecordBatch, encode_batch, find_offset_by_timestamp
from ottla.wire.rewriting import as_kafka_batch, keep_records

MAGICS = [MAGIC_COLUMNS, MAGIC_KAFKA]
NOW = 1_700_000_000_000


def with_crc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def contents(batch: RecordBatch) -> list[tuple[object, ...]]:
    columns = (batch.offsets(), batch.timestamps(), batch.keys(), batch.values(), batch.headers())
    return list(zip(*columns, strict=True))


def test_a_gap_is_a_batch_of_no_records_that_keeps_its_offsets():
    gap = RecordBatch(build_gap(100, 140, 3))
    assert (gap.base_offset, gap.next_offset, gap.header.leader_epoch, gap.size) == (100, 140, 3, HEADER_SIZE)
    assert gap.header.is_gap
    assert contents(gap) == []
    assert find_offset_by_timestamp(gap, 0) is None
    assert set(gap.columns()) == {None}


def test_a_gap_is_kafkas_own_empty_batch():
    header = build_gap(7, 9, 1, producer_id=5, producer_epoch=2, base_sequence=40)
    assert struct.unpack(">qiibIhiqqqhii", header)[:4] == (7, 49, 1, MAGIC_KAFKA)
    assert struct.unpack(">hiqqqhii", header[CRC_START:]) == (0, 1, -1, -1, 5, 2, 40, 0)


def test_a_gap_may_span_as_many_offsets_as_a_segment():
    assert check_batch(build_gap(5, 5 + 2**31, 0)).next_offset == 5 + 2**31


def impossible_gaps():
    backwards = build_gap(0, 1, 0)
    struct.pack_into(">i", backwards, CRC_START + 2, -1)
    columnar = build_gap(0, 1, 0)
    columnar[16] = MAGIC_COLUMNS
    compressed = build_gap(0, 1, 0)
    compressed[CRC_START + 1] = Codec.ZSTD
    payload = build_batch(
        b"x", magic=MAGIC_KAFKA, attributes=0, count=0, first_timestamp=-1, max_timestamp=-1, last_offset_delta=0
    )
    return [with_crc(gap) for gap in (backwards, columnar, compressed, payload)]


@pytest.mark.parametrize("gap", impossible_gaps())
@pytest.mark.parametrize("verify", [True, False])
def test_a_gap_with_anything_in_it_is_refused(gap, verify):
    with pytest.raises(CorruptMessage):
        RecordBatch(gap, verify=verify)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_producers_send_no_gaps(magic, codec):
    with pytest.raises(InvalidRecord, match="numbers its records from 0"):
        check_produced(build_gap(0, 1, 0))
    batch = RecordBatch(encode_batch([b"a", b"b", b"c"], timestamps=NOW, magic=magic, codec=codec))
    for kept in ([True, False, True], [True, True, False]):
        with pytest.raises(InvalidRecord, match="numbers its records from 0"):
            check_produced(keep_records(batch, kept))


@pytest.mark.parametrize("offsets", [(0, 1), (0, 2), None])
def test_producers_send_no_offset_column(offsets):
    column = None if offsets is None else struct.pack("<2i", *offsets)
    payload = msgspec.msgpack.encode([None, None, None, struct.pack("<2i", 1, 1), b"ab", None, column])
    batch = build_batch(payload, magic=MAGIC_COLUMNS, attributes=0, count=2, first_timestamp=NOW, max_timestamp=NOW)
    with pytest.raises(InvalidRecord):
        check_payload(memoryview(batch), check_produced(batch))


optional_bytes = st.none() | st.binary(max_size=9)


@given(
    records=st.lists(
        st.tuples(
            optional_bytes,
            optional_bytes,
            st.lists(st.tuples(st.text(max_size=3), optional_bytes), max_size=2).map(tuple),
            st.integers(NOW, NOW + 9),
            st.booleans(),
        ),
        min_size=1,
        max_size=80,
    ),
    magic=st.sampled_from(MAGICS),
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    append_time=st.booleans(),
)
def test_records_that_are_kept_stay_what_and_where_they_were(records, magic, codec, append_time):
    keys, values, headers, timestamps, kept = map(list, zip(*records, strict=True))
    encoded = encode_batch(
        values, keys=keys, headers=headers, timestamps=timestamps, codec=codec, magic=magic,
        producer_id=9, producer_epoch=1, base_sequence=70,
    )  # fmt: skip
    if append_time:
        stamp_append_time(encoded, 0, read_header(encoded), NOW + 50)
    stamp(encoded, 0, 1000, 4)
    whole = RecordBatch(encoded)
    left = RecordBatch(keep_records(whole, kept))
    assert contents(left) == [record for record, keep in zip(contents(whole), kept, strict=True) if keep]
    assert left.header.is_gap == (not any(kept))
    for field in ("base_offset", "last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(left.header, field) == getattr(whole.header, field)
    assert left.header.max_timestamp == max(left.timestamps(), default=-1), (
        "else a search by time would find nothing here"
    )
    again = RecordBatch(keep_records(left, [True] * left.count))
    assert contents(again) == contents(left)
    if any(kept):
        converted = RecordBatch(as_kafka_batch(left))
        assert contents(converted) == contents(left)
        assert converted.next_offset == whole.next_offset
        assert converted.columns().offsets == left.columns().offsets


@pytest.mark.parametrize("magic", MAGICS)
def test_only_what_lies_before_a_record_needs_offsets(magic):
    whole = RecordBatch(encode_batch([b"a", b"b", b"c"], timestamps=NOW, magic=magic))
    tail_lost = RecordBatch(keep_records(whole, [True, True, False]))
    assert tail_lost.columns().offsets is None
    assert (list(tail_lost.offsets()), tail_lost.next_offset) == ([0, 1], 3)
    head_lost = RecordBatch(keep_records(whole, [False, True, True]))
    assert bytes(head_lost.columns().offsets or b"") == struct.pack("<2i", 1, 2)
    assert (list(head_lost.offsets()), head_lost.base_offset) == ([1, 2], 0)


@pytest.mark.parametrize(
    "column",
    [struct.pack("<2i", *pair) for pair in ((0, 0), (1, 0), (-1, 2), (0, 4), (4, 5))]
    + [b"", bytes(4), bytes(16), None],
)
def test_offsets_that_do_not_rise_inside_their_batch_are_refused(column):
    payload = msgspec.msgpack.encode([None, None, None, struct.pack("<2i", 1, 1), b"ab", None, column])
    encoded = build_batch(
        payload, magic=MAGIC_COLUMNS, attributes=0, count=2, first_timestamp=NOW, max_timestamp=NOW, last_offset_delta=3
    )
    batch = RecordBatch(encoded)
    for read in (batch.offsets, batch.columns, batch.values):
        with pytest.raises(CorruptMessage):
            read()
