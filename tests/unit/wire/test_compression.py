"""Payloads in Kafka's framings, and what happens to those who lie about their size."""

import resource
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.batch import Codec
from ottla.wire.compression import XERIAL_HEADER, compress, decompress
from ottla.wire.errors import CorruptMessage, InvalidConfig, MessageTooLarge

TEXT = b"the little Kafka, the little Kafka, the little Kafka"
LIMIT = 1024 * 1024
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]

# Written by python-lz4 (linked blocks, content size and checksum), python-zstandard (a stream, no content size) and
# python-snappy (raw): what other clients may send and we would not write ourselves.
FOREIGN = [
    (
        Codec.LZ4,
        "04224d186c403400000000000000ab1d000000ff03746865206c6974746c65204b61666b612c2012000a504b61666b61000000007680a0ed",
    ),
    (Codec.ZSTD, "28b52ffd0058c5000090746865206c6974746c65204b61666b612c200100ca9961"),
    (Codec.SNAPPY, "3444746865206c6974746c65204b61666b612c20861200"),
]


@given(codec=st.sampled_from(list(Codec)), data=st.binary(max_size=2000), repeat=st.sampled_from([1, 3, 500]))
def test_what_is_compressed_comes_back(codec, data, repeat):
    assert bytes(decompress(codec, compress(codec, data * repeat), LIMIT)) == data * repeat


@pytest.mark.parametrize("codec", COMPRESSED)
def test_compression_makes_repetition_smaller(codec):
    assert len(compress(codec, TEXT * 100)) < len(TEXT * 100) / 10


@pytest.mark.parametrize(("codec", "data"), FOREIGN)
def test_what_other_libraries_wrote_is_read(codec, data):
    assert bytes(decompress(codec, bytes.fromhex(data), LIMIT)) == TEXT


def test_snappy_is_written_in_xerial_blocks_of_32_kib():
    written = compress(Codec.SNAPPY, bytes(100_000))
    assert written.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    lengths, position = [], len(XERIAL_HEADER)
    while position < len(written):
        (length,) = struct.unpack_from(">i", written, position)
        lengths.append(length)
        position += 4 + length
    assert len(lengths) == 4


def test_lz4_blocks_are_independent_as_java_demands():
    flags = compress(Codec.LZ4, TEXT * 10_000)[4]
    assert flags & 0b0010_0000


@pytest.mark.parametrize("codec", COMPRESSED)
def test_output_of_exactly_the_limit_is_allowed_and_one_byte_more_is_not(codec):
    data = compress(codec, TEXT * 1000)
    assert len(decompress(codec, data, len(TEXT) * 1000)) == len(TEXT) * 1000
    with pytest.raises(MessageTooLarge):
        decompress(codec, data, len(TEXT) * 1000 - 1)


def test_limit_holds_without_compression_too():
    with pytest.raises(MessageTooLarge):
        decompress(Codec.NONE, bytes(11), 10)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_refused(codec):
    data = compress(codec, TEXT + bytes(range(256)))
    for size in range(len(data)):
        if codec is Codec.SNAPPY and size == len(XERIAL_HEADER):
            continue  # a xerial stream of no blocks
        with pytest.raises(CorruptMessage):
            decompress(codec, data[:size], LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("garbage", [b"\x00", b"\x01", b"garbage", b"\xff" * 20])
def test_trailing_garbage_is_refused(codec, garbage):
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, TEXT) + garbage, LIMIT)


@given(codec=st.sampled_from(COMPRESSED), data=st.binary(max_size=300))
def test_garbage_is_refused_or_harmless(codec, data):
    try:
        assert len(decompress(codec, data, LIMIT)) <= LIMIT
    except (CorruptMessage, MessageTooLarge):
        pass


@given(codec=st.sampled_from(COMPRESSED), place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damage_is_refused_or_harmless(codec, place, byte):
    data = bytearray(compress(codec, TEXT + bytes(range(256))))
    data[place % len(data)] = byte
    try:
        assert len(decompress(codec, data, LIMIT)) <= LIMIT
    except (CorruptMessage, MessageTooLarge):
        pass


@pytest.mark.parametrize(
    "data",
    [
        XERIAL_HEADER[:12],
        XERIAL_HEADER + b"\x00\x00",
        XERIAL_HEADER + struct.pack(">i", -1),
        XERIAL_HEADER + struct.pack(">i", 0),
        XERIAL_HEADER + struct.pack(">i", 2**31 - 1) + b"abc",
        XERIAL_HEADER + struct.pack(">i", 3) + b"\x10\x00a",
    ],
)
def test_xerial_blocks_that_lie_are_refused(data):
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, data, LIMIT)


@contextmanager
def costs_little() -> Iterator[None]:
    """Our own buffers by tracemalloc; what the codec allocates by the process's peak, which other tests may have raised."""
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 16 * LIMIT
    finally:
        tracemalloc.stop()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before) * 1024 < 64 * LIMIT


def zstd_bomb() -> bytes:
    """Ten gigabytes: run-length blocks of four bytes for 128 KiB each, no content size."""
    header = (1 << 1 | 131072 << 3).to_bytes(3, "little") + b"\0"
    last = (1 | 1 << 1 | 131072 << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + header * 80_000 + last


def lz4_bomb() -> bytes:
    frame = compress(Codec.LZ4, bytes(4 * 1024 * 1024))
    return frame[:7] + frame[7:-4] * 250 + frame[-4:]


def gzip_bomb() -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    return (stream.compress(bytes(10 * 1024 * 1024)) + stream.flush()) * 1000


def snappy_bomb() -> bytes:
    xerial = compress(Codec.SNAPPY, bytes(32 * 1024))
    return XERIAL_HEADER + xerial[len(XERIAL_HEADER) :] * 32 * 1024


BOMBS = [(Codec.ZSTD, zstd_bomb), (Codec.LZ4, lz4_bomb), (Codec.GZIP, gzip_bomb), (Codec.SNAPPY, snappy_bomb)]


@pytest.mark.parametrize(("codec", "make"), BOMBS)
def test_bomb_of_gigabytes_costs_no_more_than_the_limit(codec, make):
    bomb = make()
    with costs_little(), pytest.raises(MessageTooLarge):
        decompress(codec, bomb, 4 * LIMIT)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"),
        (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a"),
        (Codec.GZIP, compress(Codec.GZIP, TEXT)[:-4] + b"\xff\xff\xff\xff"),
        (Codec.LZ4, bytes.fromhex("04224d186840") + (2**40).to_bytes(8, "little") + b"\x00" * 5),
    ],
)
def test_size_that_a_header_lies_about_is_not_allocated(codec, data):
    with costs_little(), pytest.raises((CorruptMessage, MessageTooLarge)):
        decompress(codec, data, 2**40)


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 10), (Codec.ZSTD, 99), (Codec.SNAPPY, 1), (Codec.NONE, 1)])
def test_level_that_the_codec_does_not_have_is_refused(codec, level):
    with pytest.raises(InvalidConfig):
        compress(codec, TEXT, level)


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 12)), (Codec.ZSTD, (1, 19))])
def test_higher_level_compresses_at_least_as_well(codec, levels):
    data = b"".join(b"%d is the %d of %d\n" % (n, n * 7 % 13, n * n) for n in range(5000))
    low, high = (compress(codec, data, level) for level in levels)
    assert len(high) <= len(low)
    assert bytes(decompress(codec, high, LIMIT)) == data
