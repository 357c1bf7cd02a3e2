"""A log as a test writes and reads it."""

from collections.abc import Callable

from ottla.broker.storage.log import Log
from ottla.broker.storage.segments.segment_files import base_offsets
from ottla.wire.batch import read_header


def read_all(log: Log, offset: int = 0, max_bytes: int = 1 << 30) -> bytes:
    return b"".join(log.read(offset, max_bytes, up_to=log.log_end_offset, at_least_one=True))


def offsets_in(data: bytes) -> list[int]:
    """The base offsets of the batches in ``data``, which must hold whole batches only."""
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        found.append(header.base_offset)
        position += header.size
    assert position == len(data)
    return found


def fill(log: Log, make_batch: Callable[..., memoryview], batches: int, **more: int) -> None:
    for _ in range(batches):
        log.append_as_leader(make_batch(**more), 0, 0)


def segment_count(log: Log) -> int:
    return len(base_offsets(log.folder))
