"""Kafka's own records, against batches that aiokafka 0.14 wrote, and every way in which they can lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.batch import MAGIC_KAFKA, Codec
from ottla.wire.columns import HEADERS_MAX
from ottla.wire.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from ottla.wire.kafka_records import VARINTS, decode_records, encode_records, encode_varint, read_varint
from ottla.wire.records import RecordBatch, encode_batch

KEYS = [b"k0", None, b"", b"key"]
VALUES = [b"v0", b"x" * 70, None, b""]
HEADERS = [(), (("h", b"1"), ("n", None), ("é", b"")), (), (("a", b"b"),)]
TIMESTAMPS = [1700000000000, 1700000000005, 1699999999990, 1700000100000]

AIOKAFKA = {
    Codec.NONE: "0000000000000000000000adffffffff02c3c338460000000000030000018bcfe568000000018bcfe6eea00000000000000fa0"
    "0003000000110000000414000000046b3004763000b001000a02018c017878787878787878787878787878787878787878787878787878787878"
    "78787878787878787878787878787878787878787878787878787878787878787878787878787878780602680231026e0104c3a9000c00130400"
    "01001e00c09a0c06066b6579000202610262",
    Codec.GZIP: "00000000000000000000007effffffff0280bd74630001000000030000018bcfe568000000018bcfe6eea00000000000000fa0"
    "000300000011000000041f8b0800016efa6a02ff1361606060c93660293360d8c0c8c0c5c4d8c3584115c0c694c164c894c7c8727825030f8330"
    "0b0323831cc381593c6c6cd9a9950c4c4c894c4900978fe10a7c000000",
    Codec.SNAPPY: "000000000000000000000084ffffffff027f0d11030002000000030000018bcfe568000000018bcfe6eea00000000000000f"
    "a00003000000110000000482534e415050590000000001000000010000003f7c4c14000000046b3004763000b001000a02018c0178fe01000501"
    "880602680231026e0104c3a9000c0013040001001e00c09a0c06066b6579000202610262",
    Codec.LZ4: "000000000000000000000082ffffffff02d078f9ab0003000000030000018bcfe568000000018bcfe6eea00000000000000fa00"
    "003000000110000000404224d187040ad3e000000ff0514000000046b3004763000b001000a02018c0178010032f0140602680231026e0104c3a"
    "9000c0013040001001e00c09a0c06066b6579000202610262d39aa98e00000000",
    Codec.ZSTD: "000000000000000000000078ffffffff02c8e876be0004000000030000018bcfe568000000018bcfe6eea00000000000000fa0"
    "0003000000110000000428b52ffd207cf50100740314000000046b3004763000b001000a02018c01780602680231026e0104c3a9000c001304000"
    "1001e00c09a0c06066b6579000202610262010004054c",
}
AIOKAFKA_WITH_GAPS = (
    "00000000000000000000004dffffffff025d51e3910000000000050000000000000064000000000000012cffffffffffffffffffffffffffff"
    "00000003100000000104763000100063040104763200120090030a0104763500"
)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_aiokafka_are_read(codec):
    batch = RecordBatch(bytes.fromhex(AIOKAFKA[codec]))
    assert batch.codec is codec
    assert batch.keys() == KEYS
    assert batch.values() == VALUES
    assert batch.headers() == HEADERS
    assert batch.timestamps() == TIMESTAMPS
    assert batch.offsets() == range(4)
    assert (batch.header.producer_id, batch.header.producer_epoch, batch.header.base_sequence) == (4000, 3, 17)


def test_uncompressed_batch_is_written_byte_for_byte_as_aiokafka_writes_it():
    written = encode_batch(
        VALUES,
        keys=KEYS,
        headers=HEADERS,
        timestamps=TIMESTAMPS,
        producer_id=4000,
        producer_epoch=3,
        base_sequence=17,
        magic=MAGIC_KAFKA,
    )
    assert written.hex() == AIOKAFKA[Codec.NONE]


def test_batch_with_gaps_keeps_its_offsets():
    batch = RecordBatch(bytes.fromhex(AIOKAFKA_WITH_GAPS))
    assert batch.offsets() == [0, 2, 5]
    assert batch.next_offset == 6
    assert batch.timestamps() == [100, 50, 300]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varint_comes_back(number):
    encoded = VARINTS[number]
    assert encoded == encode_varint(number)
    unsigned, position = read_varint(encoded, 0)
    assert position == len(encoded) <= 10
    assert (unsigned >> 1) ^ -(unsigned & 1) == number


@pytest.mark.parametrize(
    ("number", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (300, "d804")]
)
def test_varint_is_zigzag_with_the_low_groups_first(number, encoded):
    assert VARINTS[number].hex() == encoded


def record(body: bytes) -> bytes:
    return VARINTS[len(body)] + body


GOOD = b"\0" + VARINTS[5] + VARINTS[0] + VARINTS[1] + b"k" + VARINTS[2] + b"vv" + VARINTS[0]


def test_record_made_by_hand_is_read():
    records = decode_records(record(GOOD), 1, 0)
    assert (records.keys, records.values, records.timestamp_deltas) == ([b"k"], [b"vv"], [5])


@pytest.mark.parametrize(
    "payload",
    [
        record(GOOD) + b"\0",
        record(GOOD) + record(GOOD),
        record(GOOD)[:-1],
        record(GOOD + b"\0"),
        VARINTS[len(GOOD) + 1] + GOOD,
        VARINTS[len(GOOD) - 1] + GOOD,
        VARINTS[-len(GOOD)] + GOOD,
        VARINTS[-len(GOOD) - 1] + GOOD,
        b"\xff" * 40,
        record(b"\0\0\0" + VARINTS[-2] + VARINTS[1] + b"v" + b"\0"),
        record(b"\0\0\0" + VARINTS[-1] + VARINTS[-2] + b"v" + b"\0"),
        record(b"\0\0\0" + VARINTS[-1] + VARINTS[2**31 - 1] + b"v" + b"\0"),
        record(b"\0\0\0" + VARINTS[2**62] + b"v" + b"\0\0"),
        record(b"\0" + b"\xff" * 9 + b"\x7f" + b"\0\1\1\0"),
        record(b"\0\0" + VARINTS[1] + b"\1\1\0"),
        record(b"\0\0" + VARINTS[-1] + b"\1\1\0"),
        record(b"\0\0\0\1\1" + VARINTS[-1]),
        record(b"\0\0\0\1\1" + VARINTS[1]),
        record(b"\0\0\0\1\1" + VARINTS[2**40]),
        record(b"\0\0\0\1\1" + VARINTS[1] + b"\1\1"),
        record(b"\0\0\0\1\1" + VARINTS[1] + VARINTS[1] + b"\xff\1"),
        record(b"\0\0\0\1\1" + VARINTS[1] + VARINTS[1] + b"n" + VARINTS[-2] + b"v"),
        record(b"\0\0\0\1\1" + VARINTS[1] + VARINTS[1] + b"n" + VARINTS[9] + b"v"),
        record(b"\0\0\0\1\1" + VARINTS[2] + VARINTS[1] + b"n" + VARINTS[1] + b"v"),
    ],
)
def test_record_that_lies_is_refused(payload):
    with pytest.raises(CorruptMessage):
        decode_records(payload, 1, 0)


def test_count_that_the_payload_cannot_hold_is_refused_before_anything_is_made():
    with pytest.raises(CorruptMessage, match="says it holds"):
        decode_records(record(GOOD), 10_000_000, 9_999_999)


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 3), (-1, 0)])
def test_offsets_that_do_not_rise_are_refused(offsets):
    payload = b"".join(record(b"\0\0" + VARINTS[offset] + b"\1\1\0") for offset in offsets)
    with pytest.raises(CorruptMessage):
        decode_records(payload, 2, 2)


def test_more_headers_than_allowed_are_refused_on_both_sides():
    many = HEADERS_MAX // 2 + 1
    with pytest.raises(MessageTooLarge):
        decode_records(record(b"\0\0\0\1\1" + VARINTS[many] + b"\0\1" * many), 1, 0)
    with pytest.raises(MessageTooLarge):
        encode_records([b""], None, [[("name", bytes(HEADERS_MAX))]], None)


def test_header_name_that_is_no_unicode_is_refused():
    with pytest.raises(InvalidRecord):
        encode_records([b""], None, [[("\ud800", b"")]], None)
