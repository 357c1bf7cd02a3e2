"""Batches one after the other in what a log gives, told by their headers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.wire.batch import CODEC_MASK, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_COLUMNS, Buffer, Codec
from ottla.wire.errors import UnsupportedCompressionType
from ottla.wire.kafka.primitives import INT32

PRODUCE_ZSTD_FROM: Final = 7
FETCH_ZSTD_FROM: Final = 10
"""Clients of older versions do not know zstd (KIP-110)."""

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


def before_zstd(views: Sequence[Buffer]) -> list[Buffer]:
    """The stored batches before the first one of zstd; UnsupportedCompressionType if it is the first of all."""
    if not any(map(has_zstd, views)):
        return list(views)
    found: list[Buffer] = []
    for batch in (batch for view in views for batch in batches_of(view)):
        if has_zstd(batch):
            if not found:
                why = f"records are compressed with zstd, which Fetch has from version {FETCH_ZSTD_FROM} on"
                raise UnsupportedCompressionType(why)
            break
        found.append(batch)
    return found
