"""Whether a batch is intact on this broker's disk: read from its file, and checked as recovery would check it."""

import os
from pathlib import Path
from typing import NamedTuple

from ottla.broker.storage.segments.index import BatchPlace
from ottla.broker.storage.segments.mapped_file import read_exactly
from ottla.wire.batch import check_batch
from ottla.wire.errors import OttlaError
from ottla.wire.names import NO_EPOCH


class BatchLocation(NamedTuple):
    """A batch in a file, and the leader epoch that the epoch cache has for it (NO_EPOCH if none)."""

    path: Path
    place: BatchPlace
    leader_epoch: int


def check_stored_batch(location: BatchLocation) -> str:
    """What is wrong with a batch; empty if it is intact. Slow, for a thread. OSError if it cannot be read."""
    path, place, leader_epoch = location
    fd = os.open(path, os.O_RDONLY)
    try:
        data = memoryview(read_exactly(fd, place.position, place.size))
    finally:
        os.close(fd)
    try:
        header = check_batch(data)
    except OttlaError as error:
        return str(error)
    if header.base_offset != place.base_offset:
        return f"base offset {header.base_offset} where {place.base_offset} was due"
    if leader_epoch not in (NO_EPOCH, header.leader_epoch):
        return f"leader epoch {header.leader_epoch} where the epoch cache says {leader_epoch}"
    return ""
