"""Record batches that lie: about themselves, or about what is in them. What a broker must answer stands beside each."""

import struct
import time

from crc32c import crc32c

from ottla.wire.batch import CRC_START, HEADER, MAGIC_COLUMNS, MAGIC_KAFKA, BatchHeader, Codec, build_batch
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    OttlaError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ottla.wire.records import encode_batch

NOW_MS = int(time.time() * 1000)


def honest() -> bytearray:
    return encode_batch([b"one", b"two", None], keys=[b"k", None, b""], timestamps=[NOW_MS, NOW_MS + 1, NOW_MS + 2])


def lying(**fields: int) -> bytearray:
    """An honest batch with header fields changed and the CRC made to fit."""
    return changed(honest(), **fields)


def changed(batch: bytearray, **fields: int) -> bytearray:
    """A batch with header fields changed and the CRC made to fit."""
    batch = bytearray(batch)
    header = BatchHeader._make(HEADER.unpack_from(batch))._replace(**fields)
    HEADER.pack_into(batch, 0, *header)
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(batch[CRC_START:]))
    return batch


LENGTH = len(honest()) - 12

LIES: list[tuple[dict[str, int], type[OttlaError]]] = [
    ({"base_offset": 1}, InvalidRecord),
    ({"base_offset": -1}, InvalidRecord),
    ({"base_offset": 2**63 - 1}, InvalidRecord),
    ({"length": LENGTH + 1}, CorruptMessage),
    ({"length": LENGTH - 1}, CorruptMessage),
    ({"length": 0}, CorruptMessage),
    ({"length": -1}, CorruptMessage),
    ({"length": 2**31 - 1}, CorruptMessage),
    ({"magic": 0}, UnsupportedForMessageFormat),
    ({"magic": 1}, UnsupportedForMessageFormat),
    ({"magic": 9}, UnsupportedForMessageFormat),
    ({"magic": -1}, UnsupportedForMessageFormat),
    ({"attributes": 5}, UnsupportedCompressionType),
    ({"attributes": 7}, UnsupportedCompressionType),
    ({"attributes": 0x10}, InvalidRecord),
    ({"attributes": 0x20}, InvalidRecord),
    ({"attributes": 0x40}, InvalidRecord),
    ({"attributes": -(2**15)}, InvalidRecord),
    ({"last_offset_delta": 3}, InvalidRecord),
    ({"last_offset_delta": 1}, CorruptMessage),
    ({"last_offset_delta": -1}, CorruptMessage),
    ({"last_offset_delta": 2**31 - 1}, InvalidRecord),
    ({"first_timestamp": -2}, InvalidRecord),
    ({"first_timestamp": 2**63 - 1}, InvalidRecord),
    ({"max_timestamp": -2}, InvalidRecord),
    ({"max_timestamp": -(2**63)}, InvalidRecord),
    ({"count": 2}, InvalidRecord),
    ({"count": 4}, CorruptMessage),
    ({"count": 0}, CorruptMessage),
    ({"count": -1}, CorruptMessage),
    ({"count": 2**31 - 1}, CorruptMessage),
    ({"count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, CorruptMessage),
    ({"count": 0, "last_offset_delta": -1}, CorruptMessage),
]
"""Header fields that are changed in an honest batch, with a CRC that fits."""


def lies_about_its_payload() -> list[tuple[str, bytearray]]:
    columns, kafka = honest(), honest_kafka()
    found = [
        ("columns said to be Kafka's records", with_magic(columns, MAGIC_KAFKA)),
        ("Kafka's records said to be columns", with_magic(kafka, MAGIC_COLUMNS)),
        ("a count of records that the columns do not have", lying(count=2, last_offset_delta=1)),
        ("a count of records that do not fit", changed(kafka, count=900, last_offset_delta=899)),
        ("one record said to be all there are", changed(kafka, count=1, last_offset_delta=0)),
        ("a value that is longer than its column", forged(b"\x96\xc0\xc0\xc0\xc4\x04\x05\0\0\0\xc4\x01x\xc0")),
        ("lengths without values", forged(b"\x96\xc0\xc0\xc0\xc4\x04\x01\0\0\0\xc0\xc0")),
        ("timestamps of another number of records", forged(b"\x96\xc4\x05abcde\xc0\xc0\xc0\xc0\xc0")),
        ("headers of another number of records", forged(b"\x96\xc0\xc0\xc0\xc0\xc0\xc4\x03\x92\x90\x90")),
        ("columns with something behind them", forged(b"\x96\xc0\xc0\xc0\xc0\xc0\xc0\xc0")),
        ("no payload at all", forged(b"")),
        ("a varint without an end", forged(b"\xff" * 30, magic=MAGIC_KAFKA)),
    ]
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        found.append((f"plain columns said to be {codec.name}", changed(columns, attributes=codec)))
        found.append((f"plain records said to be {codec.name}", changed(kafka, attributes=codec)))
        for other in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            if other is not codec:
                packed = encode_batch([b"one"] * 50, timestamps=NOW_MS, codec=codec)
                found.append((f"{codec.name} said to be {other.name}", changed(packed, attributes=other)))
        found.append((f"{codec.name} said to be plain", changed(packed, attributes=Codec.NONE)))
    return found


def honest_kafka() -> bytearray:
    return encode_batch([b"one", b"two", b"three"], timestamps=[NOW_MS, NOW_MS + 1, NOW_MS + 2], magic=MAGIC_KAFKA)


def with_magic(batch: bytearray, magic: int) -> bytearray:
    other = bytearray(batch)
    other[16] = magic  # outside the CRC
    return other


def forged(payload: bytes, magic: int = MAGIC_COLUMNS) -> bytearray:
    return build_batch(payload, magic=magic, attributes=0, count=1, first_timestamp=NOW_MS, max_timestamp=NOW_MS)
