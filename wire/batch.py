"""The record batch as everyone but its reader sees it: a 61-byte header and an opaque payload.

Kafka's v2 header, for every batch::

    base_offset i64 | length i32 | leader_epoch i32 | magic i8 | crc u32 | attributes i16 | last_offset_delta i32 |
    first_timestamp i64 | max_timestamp i64 | producer_id i64 | producer_epoch i16 | base_sequence i32 | count i32

``length`` counts from leader_epoch on. The CRC-32C covers everything from ``attributes`` on, so a broker stamps base
offset and leader epoch without touching it. ``magic`` tells the payload: 2 is Kafka's own records, MAGIC_COLUMNS ours
(ottla.wire.records reads and writes both). The broker looks past this header once, when it takes a batch from a producer
(ottla.wire.payload_check).

Batches *tile* a log: each begins where the one before ends, at base_offset + last_offset_delta + 1. Where compaction leaves
no record, a *gap* stands: a batch of no records, this header alone. So the CRC of a batch vouches for the base offset of the
next one, which nothing else does (docs/decisions/0017).
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
assert HEADER.size == HEADER_SIZE

LENGTH_OVERHEAD: Final = 12
"""base_offset and length themselves, which ``length`` does not count."""

LENGTH_POSITION: Final = 8
MAGIC_POSITION: Final = 16

OLD_MESSAGE_SIZE_MIN: Final = 14
"""What the shortest message of magic 0 counts in its length: CRC, magic, attributes, and the lengths of key and value."""

CRC_START: Final = 21
"""Where the bytes that the CRC covers begin: at ``attributes``."""

MAGIC_KAFKA: Final = 2
MAGIC_COLUMNS: Final = 0x4F  # 'O'; Kafka's own magics are 0, 1 and 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
KNOWN_ATTRIBUTES: Final = CODEC_MASK | LOG_APPEND_TIME

COUNT_MAX: Final = 1_000_000
"""Records of one batch. A few bytes may claim many null records: this bounds what it costs a reader to believe them."""

NO_PRODUCER: Final = -1

NO_TIMESTAMP: Final = -1
"""The timestamp of a record that has none, and the smallest that is allowed."""

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_APPEND_TIME = struct.Struct(">hiqq")


class Codec(IntEnum):
    """How a payload is compressed; the low three bits of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """What a batch's timestamps mean."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes, in their order on the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody asks a header for

    @property
    def size(self) -> int:
        """All bytes of the batch, header included."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_gap(self) -> bool:
        """Whether there are no records at its offsets."""
        return self.count == 0

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME


_make_header = BatchHeader._make
_unpack_header = HEADER.unpack_from


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``, whose batch must lie wholly inside ``buffer``; the payload is not looked at."""
    left = len(buffer) - position
    if left < HEADER_SIZE:
        raise CorruptMessage(f"a record batch needs {HEADER_SIZE} bytes of header, there are {left}")
    header = _make_header(_unpack_header(buffer, position))
    if not HEADER_SIZE <= header.length + LENGTH_OVERHEAD <= left:
        raise CorruptMessage(f"a record batch says it has {header.size} bytes where {left} are left")
    return header


def read_fields(header: Buffer) -> BatchHeader:
    """The header alone, of a batch that is known to be good."""
    return BatchHeader._make(HEADER.unpack_from(header, 0))


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Everything that can be checked without decoding records: shape, magic, codec and CRC."""
    header = read_header(buffer, position)
    check_magic(header)
    actual = crc32c(memoryview(buffer)[position + CRC_START : position + header.length + LENGTH_OVERHEAD])
    if actual != header.crc:
        raise CorruptMessage(f"record batch with CRC {header.crc:#010x} whose bytes have {actual:#010x}")
    check_claims(header)
    return header


def check_magic(header: BatchHeader) -> None:
    if header.magic not in (MAGIC_KAFKA, MAGIC_COLUMNS):
        raise UnsupportedForMessageFormat(
            f"record batch of magic {header.magic}; known are {MAGIC_KAFKA} and {MAGIC_COLUMNS}"
        )


def check_claims(header: BatchHeader) -> None:
    """What a header says of its records: a codec that is known, and a count that can be."""
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        raise UnsupportedCompressionType(f"record batch of compression codec {header.attributes & CODEC_MASK}")
    if not 0 < header.count <= COUNT_MAX or header.last_offset_delta < header.count - 1:
        _check_gap(header)


def _check_gap(header: BatchHeader) -> None:
    """A batch may have no records: then it has no payload either, and is Kafka's empty batch."""
    if header.count != 0 or header.last_offset_delta < 0:
        raise CorruptMessage(
            f"record batch of {header.count} records whose last offset delta is {header.last_offset_delta}"
        )
    if header.size != HEADER_SIZE or header.magic != MAGIC_KAFKA or header.attributes & CODEC_MASK:
        raise CorruptMessage(
            f"record batch of no records with {header.size - HEADER_SIZE} bytes of payload, magic {header.magic} "
            f"and codec {header.attributes & CODEC_MASK}"
        )


def check_produced(buffer: Buffer, position: int = 0) -> BatchHeader:
    """What a *producer* may send: as check_batch, offsets from zero without gaps, no attributes that are not its to set."""
    try:
        header = check_batch(buffer, position)
    except CorruptMessage:
        _check_format(buffer, position)
        raise
    if header.base_offset != 0 or header.last_offset_delta != header.count - 1:
        raise InvalidRecord(
            f"a produced batch numbers its records from 0: base offset {header.base_offset}, "
            f"{header.count} records, last offset delta {header.last_offset_delta}"
        )
    if header.attributes & ~KNOWN_ATTRIBUTES:
        raise InvalidRecord(f"a produced batch must not set attributes {header.attributes & ~KNOWN_ATTRIBUTES:#06x}")
    if header.attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer's batch must not claim to be timed by the broker")
    # Older clients (sarama 1.22) leave the largest timestamp out: stamp_max_timestamp puts one there.
    if header.first_timestamp < -1 or NO_TIMESTAMP != header.max_timestamp < header.first_timestamp:
        raise InvalidRecord(f"a batch from {header.first_timestamp} ms to {header.max_timestamp} ms")
    return header


def _check_format(buffer: Buffer, position: int) -> None:
    """Raise UnsupportedForMessageFormat at a message of the formats before magic 2, which may be shorter than a header.

    Their offset, length and magic lie where those of a batch do. (In a log they are as torn as anything that is no batch.)
    """
    left = len(buffer) - position
    if left <= MAGIC_POSITION or buffer[position + MAGIC_POSITION] >= MAGIC_KAFKA:
        return
    size = int.from_bytes(buffer[position + LENGTH_POSITION : position + LENGTH_OVERHEAD], "big", signed=True)
    if OLD_MESSAGE_SIZE_MIN <= size <= left - LENGTH_OVERHEAD:
        raise UnsupportedForMessageFormat(
            f"message of magic {buffer[position + MAGIC_POSITION]}; known are {MAGIC_KAFKA} and {MAGIC_COLUMNS}"
        )


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write what the leader decides into a batch; neither field is under the CRC."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LENGTH_OVERHEAD, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Mark a batch as timed by the broker: every record then has ``max_timestamp``. Computes the CRC anew."""
    attributes = header.attributes | LOG_APPEND_TIME
    _APPEND_TIME.pack_into(
        buffer, position + CRC_START, attributes, header.last_offset_delta, header.first_timestamp, now_ms
    )
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + header.size])
    _CRC.pack_into(buffer, position + CRC_START - _CRC.size, crc)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)


def stamp_max_timestamp(buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """For a batch whose producer did not say what its largest timestamp is: none is later than now. Computes the CRC anew."""
    largest = max(header.first_timestamp, now_ms)
    _APPEND_TIME.pack_into(
        buffer, position + CRC_START, header.attributes, header.last_offset_delta, header.first_timestamp, largest
    )
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + header.size])
    _CRC.pack_into(buffer, position + CRC_START - _CRC.size, crc)
    return header._replace(max_timestamp=largest, crc=crc)


_NO_HEADER = bytes(HEADER_SIZE)


def build_batch(
    payload: Buffer | list[Buffer],
    *,
    magic: int,
    attributes: int,
    count: int,
    first_timestamp: int,
    max_timestamp: int,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A whole batch as a producer sends it: base offset 0, leader epoch -1.

    ``last_offset_delta`` for one that has lost records: it keeps the offsets that it once had.
    """
    batch = bytearray().join([_NO_HEADER, *payload] if isinstance(payload, list) else [_NO_HEADER, payload])
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LENGTH_OVERHEAD, -1, magic, 0, attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        first_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    _CRC.pack_into(batch, CRC_START - _CRC.size, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def build_gap(
    base_offset: int,
    next_offset: int,
    leader_epoch: int,
    *,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """A batch that says that no records are left from ``base_offset`` up to ``next_offset``, all of them of one epoch.

    With a producer it stands for that producer's batch of these offsets, whose sequence numbers must not be forgotten.
    """
    gap = build_batch(
        b"",
        magic=MAGIC_KAFKA,
        attributes=Codec.NONE,
        count=0,
        first_timestamp=-1,
        max_timestamp=-1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        last_offset_delta=next_offset - base_offset - 1,
    )
    stamp(gap, 0, base_offset, leader_epoch)
    return gap
