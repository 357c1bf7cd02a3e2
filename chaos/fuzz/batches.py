"""Record batches for Produce: honest ones, and ones that lie about themselves, with a CRC that fits or not. Pure."""

import functools
import random
import struct
from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from ottla.wire.batch import CRC_START, HEADER, HEADER_SIZE, MAGIC_KAFKA, BatchHeader, Codec, build_batch
from ottla.wire.compression import compress
from ottla.wire.records import encode_batch

BOMB_BYTES: Final = 64 * 1024 * 1024
"""What a bomb opens to: 64 times the largest batch, and packed in a moment."""

MAX_TIMESTAMP_AT: Final = 35

_EXTREMES: Final = (-(2**63), -(2**31), -32768, -2, -1, 0, 1, 2, 255, 65536, 2**31 - 1, 2**31, 2**63 - 1)
_WIDTHS: Final = {
    "base_offset": 64,
    "length": 32,
    "leader_epoch": 32,
    "magic": 8,
    "attributes": 16,
    "last_offset_delta": 32,
    "first_timestamp": 64,
    "max_timestamp": 64,
    "producer_id": 64,
    "producer_epoch": 16,
    "base_sequence": 32,
    "count": 32,
}


def honest(source: random.Random, now_ms: int) -> bytes:
    """A batch of a few records, in any codec."""
    count = source.choice((1, 1, 2, 5, 20))
    values = [source.choice((None, b"", b"fuzz", source.randbytes(30), b"a" * 300)) for _ in range(count)]
    keys = [source.choice((None, b"key")) for _ in range(count)] if source.random() < 0.5 else None
    headers = [[("name", b"value")]] * count if source.random() < 0.3 else None
    times = [now_ms - source.randrange(1000) for _ in range(count)]
    codec = source.choice(list(Codec))
    return bytes(encode_batch(values, keys=keys, headers=headers, timestamps=times, codec=codec, magic=MAGIC_KAFKA))


def lying_header(source: random.Random, now_ms: int) -> bytes:
    """Fields of the header that lie, under a CRC that fits."""
    batch = honest(source, now_ms)
    lies = {}
    for name in source.sample(list(_WIDTHS), source.choice((1, 1, 2, 3))):
        number = source.choice((*_EXTREMES, now_ms, now_ms + 10**9, source.getrandbits(64)))
        width = _WIDTHS[name]
        lies[name] = (number + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)
    return _sealed(BatchHeader._make(HEADER.unpack_from(batch))._replace(**lies), batch[HEADER_SIZE:])


def wrong_crc(source: random.Random, now_ms: int) -> bytes:
    batch = bytearray(honest(source, now_ms))
    batch[source.randrange(CRC_START - 4, len(batch))] ^= 1 << source.randrange(8)
    return bytes(batch)


def spoilt_payload(source: random.Random, now_ms: int) -> bytes:
    """Bytes of the records that are changed, cut or added, under a CRC that fits."""
    batch = honest(source, now_ms)
    header, payload = BatchHeader._make(HEADER.unpack_from(batch)), bytearray(batch[HEADER_SIZE:])
    for _ in range(source.choice((1, 2, 8))):
        payload[source.randrange(len(payload))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
    if source.random() < 0.3:
        payload = payload[: source.randrange(len(payload))]
    elif source.random() < 0.3:
        payload += source.randbytes(source.randrange(1, 50))
    length = HEADER_SIZE - 12 + len(payload)
    return _sealed(header._replace(length=length), bytes(payload))


def wrong_codec(source: random.Random, now_ms: int) -> bytes:
    """A payload that is packed otherwise than the header says, or not at all."""
    batch = honest(source, now_ms)
    header = BatchHeader._make(HEADER.unpack_from(batch))
    return _sealed(header._replace(attributes=source.randrange(8)), batch[HEADER_SIZE:])


def bomb(source: random.Random, now_ms: int) -> bytes:
    """Few bytes that open to many: stored as they are, for opening them is the reader's risk, and readers have a cap."""
    codec = source.choice((Codec.GZIP, Codec.LZ4, Codec.ZSTD))
    count = source.choice((1, 1000, 1_000_000))
    return bytes(
        build_batch(
            _packed_zeros(codec),
            magic=MAGIC_KAFKA,
            attributes=codec,
            count=count,
            first_timestamp=now_ms,
            max_timestamp=now_ms,
        )
    )


def several(source: random.Random, now_ms: int) -> bytes:
    """Batches one behind the other, some of them bad."""
    return b"".join(source.choice((honest, honest, lying_header, wrong_crc))(source, now_ms) for _ in range(3))


def cut(source: random.Random, now_ms: int) -> bytes:
    batch = honest(source, now_ms)
    return batch[: source.randrange(len(batch))]


def old_format(source: random.Random, now_ms: int) -> bytes:
    """A message of the formats before magic 2, which brokers refuse."""
    body = struct.pack(">bbqii", source.randrange(2), 0, now_ms, -1, 4) + b"fuzz"
    message = struct.pack(">I", source.getrandbits(32)) + body
    return struct.pack(">qi", 0, len(message)) + message


def junk(source: random.Random, now_ms: int) -> bytes:
    return source.randbytes(source.randrange(200))


def storable(records: bytes) -> list[int]:
    """The fingerprints of all batches in there that are what they say, as far as a CRC can tell: only those may be stored."""
    found, position = [], 0
    while len(records) - position >= HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack_from(records, position))
        end = position + header.size
        if header.length < HEADER_SIZE - 12 or end > len(records):
            break
        if crc32c(records[position + CRC_START : end]) == header.crc:
            found.append(fingerprint(records[position:end]))
        position = end
    return found


def fingerprint(batch: bytes | memoryview) -> int:
    """Of all that a broker stores as it came: where there is no largest timestamp, it puts one there."""
    return int(crc32c(batch[MAX_TIMESTAMP_AT + 8 :], crc32c(batch[CRC_START:MAX_TIMESTAMP_AT])))


def _sealed(header: BatchHeader, payload: bytes) -> bytes:
    batch = bytearray(HEADER.pack(*header) + payload)
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(batch[CRC_START:]))
    return bytes(batch)


@functools.cache
def _packed_zeros(codec: Codec) -> bytes:
    return compress(codec, bytes(BOMB_BYTES), 1)


LIES: Final[dict[str, Callable[[random.Random, int], bytes]]] = {
    "lying header": lying_header,
    "wrong crc": wrong_crc,
    "spoilt payload": spoilt_payload,
    "wrong codec": wrong_codec,
    "bomb": bomb,
    "several batches": several,
    "cut batch": cut,
    "old format": old_format,
    "junk records": junk,
}
