"""Batches one after the other in what a log gives, told by their headers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_COLUMNS, Buffer
from ottla.wire.kafka.primitives import INT32

LENGTH_AT: Final = 8
MAGIC_AT: Final = 16


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
