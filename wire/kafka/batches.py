"""Batches one after the other in what a log gives, told by their headers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.wire.batch import CODEC_MASK, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_COLUMNS, Buffer, Codec
from ottla.wire.kafka.primitives import INT32

PRODUCE_ZSTD_FROM: Final = 7
"""Producers of older versions do not know zstd (KIP-110). As in Kafka, fetches of all versions get what is stored."""

LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CODEC_AT: Final = 22
"""The byte of the attributes that has the codec."""


def any_columnar(views: Sequence[Buffer]) -> bool:
    """Whether there is a batch among them that Kafka's clients cannot read."""
    for view in views:
        position, end = 0, len(view)
        while end - position >= HEADER_SIZE:
            if view[position + MAGIC_AT] == MAGIC_COLUMNS:
                return True
            position += int(INT32.unpack_from(view, position + LENGTH_AT)[0]) + LENGTH_OVERHEAD
    return False


def batches_of(view: Buffer) -> Iterator[memoryview]:
    whole = memoryview(view)
    position = 0
    while len(whole) - position >= HEADER_SIZE:
        size = int(INT32.unpack_from(whole, position + LENGTH_AT)[0]) + LENGTH_OVERHEAD
        yield whole[position : position + size]
        position += size


def has_zstd(records: Buffer) -> bool:
    """Whether a batch is compressed with zstd. A producer's lengths are not checked yet: an impossible one ends the search."""
    position, end = 0, len(records)
    while end - position >= HEADER_SIZE:
        if records[position + CODEC_AT] & CODEC_MASK == Codec.ZSTD:
            return True
        size = int(INT32.unpack_from(records, position + LENGTH_AT)[0]) + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            return False
        position += size
    return False
