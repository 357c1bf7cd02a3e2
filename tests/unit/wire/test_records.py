"""Whole batches of both magics: what goes in comes out, and whatever is damaged or lies is refused."""

import struct
import tracemalloc
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    MAGIC_COLUMNS,
    MAGIC_KAFKA,
    Codec,
    TimestampType,
    check_batch,
    check_produced,
    read_header,
    stamp,
    stamp_append_time,
)
from ottla.wire.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, OttlaError
from ottla.wire.records import RecordBatch, encode_batch, find_offset_by_timestamp
from ottla.wire.rewriting import as_kafka_batch
from tests.support.batches import split_batches

NOW = 1_700_000_000_000
MAGICS = [MAGIC_COLUMNS, MAGIC_KAFKA]

optional_bytes = st.none() | st.binary(max_size=40) | st.just(b"") | st.just(b"x" * 300)
header_pairs = st.lists(st.tuples(st.text(max_size=6), optional_bytes), max_size=3)
# The largest distance between two timestamps is 64 bits wide, and signed.
timestamp = st.integers(-1, 2**63 - 2) | st.integers(NOW, NOW + 100_000)


@st.composite
def record_lists(draw):
    values = draw(st.lists(optional_bytes, min_size=1, max_size=80))
    size = len(values)
    keys = draw(st.none() | st.lists(optional_bytes, min_size=size, max_size=size))
    headers = draw(st.none() | st.lists(header_pairs, min_size=size, max_size=size))
    timestamps = draw(timestamp | st.lists(timestamp, min_size=size, max_size=size))
    return {"values": values, "keys": keys, "headers": headers, "timestamps": timestamps}


def assert_holds(batch: RecordBatch, values: Any, keys: Any, headers: Any, timestamps: Any) -> None:
    size = len(values)
    assert batch.count == size
    assert batch.values() == values
    assert batch.keys() == (keys or [None] * size)
    assert batch.headers() == [tuple(pairs) for pairs in headers or [()] * size]
    assert batch.timestamps() == ([timestamps] * size if isinstance(timestamps, int) else timestamps)


def read_all(buffer: bytearray, decoded_max: int = 2**20) -> bytearray:
    batch = RecordBatch(buffer, decoded_max=decoded_max)
    batch.offsets(), batch.timestamps(), batch.keys(), batch.values(), batch.headers(), batch.columns()
    find_offset_by_timestamp(batch, 0)
    return as_kafka_batch(batch)


def with_crc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return batch


# --- what goes in comes out --------------------------------------------------------------------------------------------


@given(records=record_lists(), codec=st.sampled_from(list(Codec)), magic=st.sampled_from(MAGICS))
@example(
    records={"values": [b"", None], "keys": [None, b""], "headers": None, "timestamps": [-1, 2**63 - 2]},
    codec=Codec.NONE,
    magic=MAGIC_COLUMNS,
)
def test_records_come_back(records, codec, magic):
    encoded = encode_batch(**records, codec=codec, magic=magic)
    assert check_produced(encoded).codec is codec
    batch = RecordBatch(encoded)
    assert batch.size == len(encoded)
    assert batch.offsets() == range(len(records["values"]))
    assert_holds(batch, **records)


@given(records=record_lists(), codec=st.sampled_from(list(Codec)), base_offset=st.integers(0, 2**40))
def test_columnar_batch_becomes_a_kafka_batch_of_the_same_records(records, codec, base_offset):
    encoded = encode_batch(**records, codec=codec, producer_id=7, producer_epoch=2, base_sequence=40)
    stamp(encoded, 0, base_offset, 9)
    ours = RecordBatch(encoded)
    theirs = RecordBatch(as_kafka_batch(ours))
    assert theirs.header == ours.header._replace(magic=MAGIC_KAFKA, length=theirs.header.length, crc=theirs.header.crc)
    assert list(theirs.offsets()) == list(ours.offsets())
    assert_holds(theirs, **records)


@given(records=record_lists())
def test_columns_of_a_kafka_batch_are_those_of_a_columnar_one(records):
    ours = RecordBatch(encode_batch(**records)).columns()
    theirs = RecordBatch(encode_batch(**records, magic=MAGIC_KAFKA)).columns()
    assert theirs == ours


def test_payload_of_a_columnar_batch_is_the_documented_one():
    encoded = encode_batch([b"ab", None], keys=[b"k", b""], timestamps=[5, 7], headers=[[], [("n", b"v")]])
    headers = b"\x92\x90\x91\x92\xa1n\xc4\x01v"
    assert bytes(encoded[HEADER_SIZE:]) == (
        b"\x96"
        b"\xc4\x08\x00\x00\x00\x00\x02\x00\x00\x00"
        b"\xc4\x08\x01\x00\x00\x00\x00\x00\x00\x00"
        b"\xc4\x01k"
        b"\xc4\x08\x02\x00\x00\x00\xff\xff\xff\xff"
        b"\xc4\x02ab"
        b"\xc4" + bytes([len(headers)]) + headers
    )
    header = read_header(encoded)
    assert (header.magic, header.count, header.first_timestamp, header.max_timestamp) == (MAGIC_COLUMNS, 2, 5, 7)


def test_columns_that_say_nothing_are_nil():
    assert bytes(encode_batch([None, None], timestamps=NOW)[HEADER_SIZE:]) == b"\x96" + b"\xc0" * 6


def test_timestamps_take_four_bytes_where_they_can_and_eight_where_they_must():
    near = RecordBatch(encode_batch([b""] * 3, timestamps=[NOW, NOW - 5, NOW + 2**31 - 1])).columns()
    far = RecordBatch(encode_batch([b""] * 3, timestamps=[NOW, NOW - 5, NOW + 2**31])).columns()
    assert near.timestamps is not None
    assert far.timestamps is not None
    assert (len(near.timestamps), len(far.timestamps)) == (12, 24)


def test_values_of_an_uncompressed_columnar_batch_are_not_copied_into_columns():
    encoded = encode_batch([b"before"], timestamps=NOW)
    values = RecordBatch(encoded).columns().values
    assert values is not None
    struct.pack_into("6s", encoded, encoded.index(b"before"), b"after!")
    assert bytes(values) == b"after!"


@pytest.mark.parametrize("magic", MAGICS)
def test_append_time_stands_for_all_timestamps(magic):
    encoded = encode_batch([b"a", b"b"], timestamps=[1, 2], magic=magic)
    stamp_append_time(encoded, 0, read_header(encoded), NOW)
    batch = RecordBatch(encoded)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.timestamps() == [NOW, NOW]
    assert RecordBatch(as_kafka_batch(batch)).timestamps() == [NOW, NOW]


@pytest.mark.parametrize("magic", MAGICS)
def test_offset_is_found_by_timestamp(magic):
    encoded = encode_batch([b"a", b"b", b"c"], timestamps=[10, 30, 20], magic=magic)
    stamp(encoded, 0, 100, 0)
    batch = RecordBatch(encoded)
    assert find_offset_by_timestamp(batch, 5) == (100, 10)
    assert find_offset_by_timestamp(batch, 11) == (101, 30)
    assert find_offset_by_timestamp(batch, 30) == (101, 30)
    assert find_offset_by_timestamp(batch, 31) is None


# --- what must not be written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"values": []},
        {"values": [b""], "keys": []},
        {"values": [b""], "headers": [[], []]},
        {"values": [b""], "timestamps": []},
        {"values": [b""], "timestamps": [1, 2]},
    ],
)
def test_lists_of_different_lengths_are_refused(arguments):
    with pytest.raises(InvalidRecord):
        encode_batch(**{"timestamps": NOW, **arguments})


@pytest.mark.parametrize("timestamps", [-2, 2**63, [0, -2], [-1, 2**63 - 1], [5, 2**64]])
def test_timestamps_out_of_range_are_refused(timestamps):
    with pytest.raises(InvalidTimestamp):
        encode_batch([b""] * 2, timestamps=timestamps)


@pytest.mark.parametrize("magic", MAGICS)
def test_text_is_not_taken_for_bytes(magic):
    with pytest.raises(TypeError):
        encode_batch(["text"], timestamps=NOW, magic=magic)  # type: ignore[list-item]


def test_batch_that_no_reader_would_take_is_not_written():
    with pytest.raises(MessageTooLarge):
        encode_batch([bytes(2**26)] * 4, timestamps=NOW, codec=Codec.LZ4)


# --- what must not be believed ------------------------------------------------------------------------------------------

RECORDS: dict[str, Any] = {
    "values": [b"value", None, b"", b"y" * 70],
    "keys": [None, b"key", b"", b"k"],
    "headers": [[], [("name", b"content")], [("é", None)], []],
    "timestamps": [NOW, NOW + 5, NOW - 3, NOW + 90_000],
}
VARIANTS = [(magic, codec) for magic in MAGICS for codec in Codec]


@pytest.mark.parametrize(("magic", "codec"), VARIANTS)
def test_every_truncation_of_a_batch_is_refused(magic, codec):
    encoded = encode_batch(**RECORDS, codec=codec, magic=magic)
    for size in range(len(encoded)):
        with pytest.raises(OttlaError):
            RecordBatch(encoded[:size])


@pytest.mark.parametrize(("magic", "codec"), VARIANTS)
def test_every_mutation_under_the_crc_is_refused_and_outside_decodes_or_is_refused(magic, codec):
    encoded = encode_batch(**RECORDS, codec=codec, magic=magic)
    outside = {*range(8), *range(12, 16)}
    for place in range(len(encoded)):
        for flipped in (0x01, 0x80, 0xFF):
            mutated = bytearray(encoded)
            mutated[place] ^= flipped
            if place not in outside:
                with pytest.raises(OttlaError):
                    read_all(mutated)
            elif place == 0 and flipped & 0x80:
                with pytest.raises(CorruptMessage):  # a negative base offset
                    read_all(mutated)
            else:
                assert_holds(RecordBatch(mutated), **RECORDS)


@pytest.mark.parametrize(("magic", "codec"), VARIANTS)
def test_every_lie_under_a_right_crc_is_refused_or_harmless(magic, codec):
    encoded = encode_batch(**RECORDS, codec=codec, magic=magic)
    tracemalloc.start()
    try:
        for place in range(CRC_START, len(encoded)):
            for byte in {0x00, 0x01, 0x7F, 0x80, 0x93, 0xC0, 0xDD, 0xFF, encoded[place] ^ 1, encoded[place] ^ 0x80}:
                mutated = bytearray(encoded)
                mutated[place] = byte
                try:
                    read_all(with_crc(mutated))
                except OttlaError:
                    pass
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


@settings(max_examples=300)
@given(
    magic=st.sampled_from(MAGICS),
    codec=st.sampled_from(list(Codec)),
    payload=st.binary(max_size=200),
    count=st.integers(1, 300) | st.integers(1, 2**31 - 1),
)
def test_random_payload_under_a_right_crc_is_refused_or_harmless(magic, codec, payload, count):
    batch = encode_batch([b"x"], timestamps=NOW, magic=magic)[:HEADER_SIZE] + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">hi", batch, CRC_START, codec, count - 1)
    struct.pack_into(">i", batch, HEADER_SIZE - 4, count)
    try:
        read_all(with_crc(batch))
    except OttlaError:
        pass


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_batch_that_decodes_to_more_than_allowed_is_refused(magic, codec):
    encoded = encode_batch([bytes(1_000_000)], timestamps=NOW, codec=codec, magic=magic)
    assert RecordBatch(encoded).values() == [bytes(1_000_000)]
    with pytest.raises(MessageTooLarge):
        RecordBatch(encoded, decoded_max=1_000_000).values()


@pytest.mark.parametrize("magic", [0, 1, 3, 9, 127])
@pytest.mark.parametrize("verify", [True, False])
def test_unknown_magic_is_refused(magic, verify):
    encoded = encode_batch([b"x"], timestamps=NOW)
    encoded[16] = magic
    with pytest.raises(OttlaError):
        RecordBatch(encoded, verify=verify)


@pytest.mark.parametrize("codec", [5, 6, 7])
@pytest.mark.parametrize("verify", [True, False])
def test_unknown_codec_is_refused(codec, verify):
    encoded = encode_batch([b"x"], timestamps=NOW)
    encoded[22] = codec
    with pytest.raises(OttlaError):
        RecordBatch(with_crc(encoded), verify=verify)


@pytest.mark.parametrize("count", [0, -1, 10_000_001, 2**31 - 1])
@pytest.mark.parametrize("verify", [True, False])
def test_impossible_count_is_refused(count, verify):
    encoded = encode_batch([b"x"], timestamps=NOW)
    struct.pack_into(">i", encoded, HEADER_SIZE - 4, count)
    with pytest.raises(CorruptMessage):
        RecordBatch(with_crc(encoded), verify=verify)


@pytest.mark.parametrize("magic", MAGICS)
def test_timestamp_past_64_bits_is_refused(magic):
    encoded = encode_batch([b"x", b"y"], timestamps=[0, 5], magic=magic)
    struct.pack_into(">q", encoded, CRC_START + 6, 2**63 - 3)
    with pytest.raises(CorruptMessage):
        RecordBatch(with_crc(encoded)).timestamps()


def test_crc_is_skipped_only_where_asked():
    encoded = encode_batch([b"x"], timestamps=NOW)
    encoded[CRC_START - 1] ^= 1
    with pytest.raises(CorruptMessage):
        RecordBatch(encoded)
    assert RecordBatch(encoded, verify=False).values() == [b"x"]


# --- fetch responses ----------------------------------------------------------------------------------------------------


def test_response_is_split_into_its_batches_and_the_cut_one_is_left_out():
    first = encode_batch([b"a", b"b"], timestamps=NOW)
    second = encode_batch([b"c"], timestamps=NOW, magic=MAGIC_KAFKA, codec=Codec.ZSTD)
    stamp(second, 0, 2, 0)
    response = bytes(first + second)
    for cut in range(len(response) + 1):
        batches = split_batches(response[:cut])
        assert [batch.base_offset for batch in batches] == [0, 2][: (cut >= len(first)) + (cut == len(response))]
    assert [value for batch in split_batches(response) for value in batch.values()] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48])
def test_batch_shorter_than_its_header_ends_no_loop_but_is_refused(length):
    response = encode_batch([b"a"], timestamps=NOW)
    struct.pack_into(">i", response, 8, length)
    with pytest.raises(CorruptMessage):
        split_batches(response)


def test_damaged_batch_in_a_response_is_refused():
    good = encode_batch([b"a"], timestamps=NOW)
    bad = encode_batch([b"b"], timestamps=NOW)
    bad[-1] ^= 1
    with pytest.raises(CorruptMessage):
        split_batches(good + bad)
    assert check_batch(good).count == 1
