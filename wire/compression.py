"""Compressed payloads, in the framings that Kafka's clients read and write.

gzip and zstd are plain streams (several may follow one another), lz4 is the standard frame with independent blocks
(Java's Kafka client refuses linked ones), snappy is written in xerial's framing and read in that or raw.

What comes over the wire may be a bomb: a megabyte that says it holds ten gigabytes, or that does. No output buffer is
ever larger than the caller's limit, and none is made on the word of a header alone: sizes that the input cannot reach
are not believed.
"""

import struct
from collections.abc import Callable

import cramjam

from ottla.wire.batch import Buffer, Codec
from ottla.wire.errors import CorruptMessage, InvalidConfig, MessageTooLarge

GZIP_LEVEL = 6
LZ4_LEVEL = 1
"""cramjam's own default is five times slower for a few percent of size."""
ZSTD_LEVEL = 3
LEVELS = {Codec.GZIP: range(10), Codec.LZ4: range(17), Codec.ZSTD: range(-7, 23)}

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
"""What snappy-java puts into one block; readers exist that reserve just as much."""

SNAPPY_RATIO_MAX = 22
"""Three bytes of snappy are at most 64 bytes of output; a size beyond that is a lie."""

SNAPPY_OPENED_MAX = 4096
SNAPPY_GROWTH_MAX = 32
"""What does not shrink grows by so many bytes and a sixth, and no more (MaxCompressedLength in snappy.cc)."""

GUESS_MIN = 16 * 1024
GUESS_RATIO = 6
"""The first output buffer, where no header tells the size: most JSON shrinks less than this."""

HINT_RATIO_MAX = 1024
"""A size told by a header is believed up to this ratio; past it the buffer has to grow step by step."""

GROWTH = 4

_BLOCK_LENGTH = struct.Struct(">i")
DecompressInto = Callable[[Buffer, Buffer], int]
"""Writes what its first argument holds into its second, which it never grows, and tells how much it was."""

_OUTPUT_FULL = "failed to write whole buffer"


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """``data`` as a payload of this codec; ``level`` is the codec's own scale."""
    if level is not None and level not in LEVELS.get(codec, ()):
        raise InvalidConfig(f"{codec.name.lower()} has no compression level {level}")
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=GZIP_LEVEL if level is None else level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # No checksum of the content: the CRC of the batch covers it.
            frame = cramjam.lz4.Compressor(LZ4_LEVEL if level is None else level, False, False)
            frame.compress(data)
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: Buffer, limit: int) -> memoryview:
    """What ``data`` holds: at most ``limit`` bytes, or it is MessageTooLarge; damaged, cut or padded, it is CorruptMessage."""
    match codec:
        case Codec.NONE:
            if len(data) > limit:
                raise _too_large(codec, limit)
            return memoryview(data)
        case Codec.GZIP:
            return _decompress_growing(codec, cramjam.gzip.decompress_into, data, _gzip_size(data), limit)
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        case Codec.LZ4:
            return _decompress_growing(codec, cramjam.lz4.decompress_into, data, _lz4_size(data), limit)
        case Codec.ZSTD:
            return _decompress_growing(codec, cramjam.zstd.decompress_into, data, _zstd_size(data), limit)


def _decompress_growing(codec: Codec, into: DecompressInto, data: Buffer, hint: int | None, limit: int) -> memoryview:
    """Decompress into a buffer of the hinted or guessed size; where it proves too small, into a larger one."""
    if hint is None:
        hint = max(GUESS_MIN, len(data) * GUESS_RATIO)
    size = min(hint, len(data) * HINT_RATIO_MAX, limit)
    while True:
        output = bytearray(size)
        try:
            del output[into(data, output) :]
            return memoryview(output)
        except (cramjam.DecompressionError, OSError) as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptMessage(f"{codec.name.lower()} payload of {len(data)} bytes: {error}") from error
        if size >= limit:
            raise _too_large(codec, limit)
        size = min(max(size * GROWTH, GUESS_MIN), limit)


def _gzip_size(data: Buffer) -> int | None:
    """What the trailer says: the size of the last member, modulo 4 GiB."""
    return int.from_bytes(data[-4:], "little") if len(data) >= 18 else None


def _zstd_size(data: Buffer) -> int | None:
    """What the first frame's header says (RFC 8878, 3.1.1.1), if it does."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd":
        return None
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    field = (single_segment, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if field == 0 or len(data) < start + field:
        return None
    return int.from_bytes(data[start : start + field], "little") + (256 if field == 2 else 0)


def _lz4_size(data: Buffer) -> int | None:
    """What the first frame's header says (lz4_Frame_format.md), if it does, else as much as its blocks can hold."""
    if len(data) < 7:
        return None
    flags, descriptor = data[4], data[5]
    if flags & 0x08:
        return int.from_bytes(data[6:14], "little")
    block_max = 1 << 8 + 2 * (descriptor >> 4 & 7)
    position = 7 + 4 * (flags & 1)
    size = 0
    while size < len(data) * HINT_RATIO_MAX:
        block = int.from_bytes(data[position : position + 4], "little") & 0x7FFFFFFF  # the high bit: not compressed
        if not block:
            break
        size += block_max
        position += 4 + block + (flags >> 2 & 4)  # the checksum of the block, if there is one
    return size


# --- snappy ----------------------------------------------------------------------------------------------------------


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    pieces = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK]))
        pieces += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, limit: int) -> memoryview:
    view = memoryview(data)
    blocks = _xerial_blocks(view) if view[:8] == XERIAL_MAGIC else [view]
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > limit:
        raise _too_large(Codec.SNAPPY, limit)
    output = memoryview(bytearray(sum(sizes)))
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = cramjam.snappy.decompress_raw_into(block, output[position : position + size])
        except cramjam.DecompressionError as error:
            raise CorruptMessage(f"snappy payload of {len(view)} bytes: {error}") from error
        if written != size:
            raise CorruptMessage(f"snappy block that says {size} bytes and holds {written}")
        position += size
    return output


def _snappy_size(block: memoryview) -> int:
    """The size that a raw snappy block tells first, checked against what its bytes could hold."""
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"snappy block of {len(block)} bytes: {error}") from error
    if size > len(block) * SNAPPY_RATIO_MAX:
        raise CorruptMessage(f"snappy block of {len(block)} bytes that says it holds {size}")
    return size


def check_raw_snappy(payload: Buffer) -> None:
    """CorruptMessage if the payload cannot be one raw block. It has no magic, so what is small is opened, and of what is not,

    the size that it tells must be possible.
    """
    view = memoryview(payload)
    size = _snappy_size(view)
    if size <= SNAPPY_OPENED_MAX:
        _decompress_snappy(view, SNAPPY_OPENED_MAX)
    elif len(view) > SNAPPY_GROWTH_MAX + size + size // 6:
        raise CorruptMessage(f"payload of {len(view)} bytes that is not compressed with snappy")


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    """The raw blocks of a xerial stream; the versions after its magic are informative, and writers differ in them."""
    blocks = []
    position = len(XERIAL_HEADER)
    while position < len(view):
        start = position + _BLOCK_LENGTH.size
        if start > len(view):
            raise CorruptMessage("xerial snappy payload that ends inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position = start + length
        if length <= 0 or position > len(view):
            raise CorruptMessage(f"xerial snappy block of {length} bytes where {len(view) - start} are left")
        blocks.append(view[start:position])
    if position != len(view):
        raise CorruptMessage("xerial snappy payload that ends inside its header")
    return blocks


def _too_large(codec: Codec, limit: int) -> MessageTooLarge:
    return MessageTooLarge(f"{codec.name.lower()} payload that holds more than {limit} bytes")
