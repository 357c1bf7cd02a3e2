"""Searches by time: which record of a log is the first of a time or later, and which has the largest timestamp.

It is the one thing that makes a broker open batches of records, so it is bounded: one thread opens one batch at a time, for all
clients together, and each search opens few. Where that does not suffice, the answer is where the batch begins that has the
record, as its header says: a reader that begins there reads some older records, and misses none.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.broker.replication.partition import Partition
from ottla.wire.batch import read_fields
from ottla.wire.errors import MessageTooLarge
from ottla.wire.records import RecordBatch, find_offset_by_timestamp, find_youngest

DECODED_MAX: Final = 32 * 1024 * 1024
"""The largest batch that is decompressed to look for a time in it."""

RECORDS_MAX: Final = 100_000
"""The records of all batches that are opened for one search: at most a third of a second of a thread."""

OPENED_MAX: Final = 30
"""Batches that are opened for one search: all but the last had a largest timestamp that was put there when it was stored, a
moment after their records were made, so there are few between that and this."""

Found = tuple[int, int]
"""An offset and a timestamp; -1 and -1 if there is no such record."""

NOTHING: Final[Found] = (-1, -1)


class TimeSearches:
    """All of a broker. A search whose client has hung up is cancelled, and what it had not begun is never done."""

    def __init__(self) -> None:
        self._opening = ThreadPoolExecutor(1, "search by time")
        self._turns: dict[Hashable, tuple[asyncio.Lock, list[None]]] = {}

    @contextlib.asynccontextmanager
    async def turn_of(self, peer: Hashable) -> AsyncIterator[None]:
        """One at a time of each connection: one that asks for many searches at once has no larger share of the thread."""
        lock, waiting = self._turns.setdefault(peer, (asyncio.Lock(), []))
        waiting.append(None)
        try:
            async with lock:
                yield
        finally:
            waiting.pop()
            if not waiting:
                del self._turns[peer]

    async def youngest(self, partition: Partition) -> Found:
        """The record with the largest timestamp, where headers say that it is."""
        largest_ms = partition.log.max_timestamp()
        view = partition.log.find_by_timestamp(largest_ms) if largest_ms >= 0 else None
        if view is None:
            return NOTHING
        found = await self._open(bytes(view), None, RECORDS_MAX)
        return found if found is not None and found[0] < partition.high_watermark else NOTHING

    async def first_since(self, partition: Partition, timestamp_ms: int) -> Found:
        """The first committed record that is not older."""
        offset, records = 0, RECORDS_MAX
        for _ in range(OPENED_MAX):
            view = partition.log.find_by_timestamp(timestamp_ms, offset)
            if view is None:
                return NOTHING
            header = read_fields(view)
            # A copy: the log may be deleted while the thread reads.
            found = await self._open(bytes(view), timestamp_ms, records)
            if found is not None:
                return found if found[0] < partition.high_watermark else NOTHING
            records -= header.count
            offset = header.next_offset  # its header promised more: its producer left the largest timestamp out
        view = partition.log.find_by_timestamp(timestamp_ms, offset)
        found = _beginning(bytes(view)) if view is not None else NOTHING
        return found if found[0] < partition.high_watermark else NOTHING

    async def _open(self, batch: bytes, timestamp_ms: int | None, records: int) -> Found | None:
        return await asyncio.get_running_loop().run_in_executor(self._opening, _search, batch, timestamp_ms, records)


def _search(data: bytes, timestamp_ms: int | None, records: int) -> Found | None:
    """The record in a batch, or where the batch begins if it is too large to be opened; None if it has none."""
    batch = RecordBatch(data, verify=False, decoded_max=DECODED_MAX)
    if batch.count > records:
        return _beginning(data)
    try:
        return find_youngest(batch) if timestamp_ms is None else find_offset_by_timestamp(batch, timestamp_ms)
    except MessageTooLarge:
        return _beginning(data)


def _beginning(data: bytes) -> Found:
    header = read_fields(data)
    return header.base_offset, header.max_timestamp
