"""Batches as Arrow: Spark's columns, the same records, no copy of the values."""

import struct
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.arrow import TIMESTAMP_MS_MAX, arrow_schema, batches_to_arrow
from ottla.wire.batch import CRC_START, MAGIC_COLUMNS, MAGIC_KAFKA, Codec, read_header, stamp, stamp_append_time
from ottla.wire.errors import ConfigError, CorruptMessage, OttlaError
from ottla.wire.records import RecordBatch, encode_batch
from ottla.wire.rewriting import keep_records

NOW = 1_700_000_000_000
optional_bytes = st.none() | st.binary(max_size=20)
header_pairs = st.lists(st.tuples(st.text(max_size=4), optional_bytes), max_size=2)
# pyarrow shows times as datetime, which ends with the year 9999
timestamp = st.integers(-1, 200_000_000_000_000)


@st.composite
def batch_lists(draw):
    batches, base_offset = [], 0
    for size in draw(st.lists(st.integers(1, 12), max_size=4)):
        encoded = encode_batch(
            draw(st.lists(optional_bytes, min_size=size, max_size=size)),
            keys=draw(st.none() | st.lists(optional_bytes, min_size=size, max_size=size)),
            headers=draw(st.none() | st.lists(header_pairs, min_size=size, max_size=size)),
            timestamps=draw(timestamp | st.lists(timestamp, min_size=size, max_size=size)),
            codec=draw(st.sampled_from(list(Codec))),
            magic=draw(st.sampled_from([MAGIC_COLUMNS, MAGIC_KAFKA])),
        )
        if draw(st.booleans()):
            stamp_append_time(encoded, 0, read_header(encoded), NOW)
        stamp(encoded, 0, base_offset, 0)
        whole = RecordBatch(encoded)
        base_offset = whole.next_offset
        if draw(st.booleans()):
            whole = RecordBatch(keep_records(whole, draw(st.lists(st.booleans(), min_size=size, max_size=size))))
        batches.append(whole)
    return batches


@given(batch_lists())
def test_arrow_holds_the_records_of_the_lists(batches):
    table = batches_to_arrow(batches, "täglich", 3, headers=True)
    table.validate(full=True)
    rows = []
    for batch in batches:
        columns = (batch.keys(), batch.values(), batch.offsets(), batch.timestamps(), batch.headers())
        for key, value, offset, milliseconds, headers in zip(*columns, strict=True):
            rows.append(
                {
                    "key": key,
                    "value": value,
                    "topic": "täglich",
                    "partition": 3,
                    "offset": offset,
                    "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds),
                    "timestampType": int(batch.timestamp_type),
                    "headers": [{"key": name, "value": content} for name, content in headers] or None,
                }
            )
    assert table.to_pylist() == rows


@given(batch_lists(), st.lists(st.sampled_from(arrow_schema(headers=True).names), min_size=1, unique=True))
def test_some_columns_are_those_of_the_whole(batches, columns):
    whole = batches_to_arrow(batches, "t", 0, headers=True)
    some = batches_to_arrow(batches, "t", 0, columns=columns)
    assert some.schema.names == columns
    assert some.equals(whole.select(columns))


def test_schema_is_the_one_of_sparks_kafka_source():
    assert arrow_schema() == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
        ]
    )
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    assert arrow_schema(headers=True).field("headers").type == pa.list_(pair)


def test_no_batches_are_an_arrow_batch_of_no_rows():
    table = batches_to_arrow([], "t", 0)
    assert table.num_rows == 0
    assert table.schema == arrow_schema()


def test_values_of_one_uncompressed_batch_are_not_copied():
    encoded = encode_batch([b"one", b"two", None], timestamps=NOW)
    view = memoryview(encoded)
    address = pa.py_buffer(view).address + encoded.index(b"onetwo")
    table = batches_to_arrow([RecordBatch(view)], "t", 0)
    assert table.column("value").buffers()[2].address == address


def test_offsets_with_gaps_are_kept():
    kafka = bytes.fromhex(
        "00000000000000000000004dffffffff025d51e3910000000000050000000000000064000000000000012cffffffffffffffffffffffffffff"
        "00000003100000000104763000100063040104763200120090030a0104763500"
    )
    assert batches_to_arrow([RecordBatch(kafka)], "t", 0).column("offset").to_pylist() == [0, 2, 5]


def test_time_too_late_for_microseconds_is_the_latest_one():
    table = batches_to_arrow([RecordBatch(encode_batch([b"", b""], timestamps=[0, 2**63 - 1]))], "t", 0)
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [0, TIMESTAMP_MS_MAX * 1000]


def test_timestamp_past_64_bits_is_refused():
    encoded = encode_batch([b"x", b"y"], timestamps=[0, 5])
    struct.pack_into(">q", encoded, CRC_START + 6, 2**63 - 3)
    with pytest.raises(CorruptMessage):
        batches_to_arrow([RecordBatch(encoded, verify=False)], "t", 0)


def test_lie_under_a_right_crc_is_refused_or_makes_valid_arrow():
    encoded = encode_batch([b"value", None], keys=[None, b"k"], timestamps=[5, 9], headers=[[("n", b"v")], []])
    for place in range(CRC_START, len(encoded)):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xC0, 0xFF, encoded[place] ^ 1):
            mutated = bytearray(encoded)
            mutated[place] = byte
            struct.pack_into(">I", mutated, CRC_START - 4, crc32c(memoryview(mutated)[CRC_START:]))
            try:
                table = batches_to_arrow([RecordBatch(mutated)], "t", 0, headers=True)
            except OttlaError:
                continue
            table.validate(full=True)


def test_absent_pyarrow_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError) as caught:
        batches_to_arrow([], "t", 0)
    assert caught.value.hint == "pip install 'ottla[arrow]'"
