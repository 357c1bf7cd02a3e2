"""Records of one partition on their way out together, and what became of them."""

import itertools
import os
import threading
from collections.abc import Callable, Sequence

from ottla.client.producing.undelivered import FailedBatch
from ottla.client.records import Receipt, RecordMetadata, copy_of
from ottla.wire.batch import HEADER_SIZE, MAGIC_COLUMNS, NO_PRODUCER, Codec
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch

Headers = Sequence[tuple[str, bytes | None]]

SEQUENCES = 2**31
"""Sequence numbers go round after this many."""

_numbers = itertools.count()
_waiters_lock = threading.Lock()


def _new_lock() -> None:
    """In a forked child, where the thread that held the lock may not be."""
    global _waiters_lock
    _waiters_lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


class SequenceLine:
    """The sequence numbers of one partition under one producer id and epoch, and the batches that have some of them."""

    __slots__ = (
        "broken", "dead", "epoch", "in_flight", "leader", "next_sequence", "producer_id", "spent", "unfinished",
    )  # fmt: skip

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.unfinished: dict[ProducerBatch, None] = {}
        """The batches that have numbers of this line and whose fate is open."""
        self.in_flight = 0
        """How many of its batches are in flight,"""
        self.leader = -1
        """and to whom."""
        self.broken = False
        """A number is missing for good: no other batch gets one behind it."""
        self.dead = False
        """The broker said so: it takes none of those that are unfinished under its number."""
        self.spent = False
        """The line that comes after it needs another producer id: another epoch will not do."""


class ProducerBatch:
    """Records of one partition that travel, arrive or fail together."""

    __slots__ = (
        "_halves", "_waiters", "append_time_ms", "attempts", "base_offset", "base_sequence", "deadline", "done", "error",
        "failed", "headers", "in_flight", "keys", "last_error", "line", "may_be_stored", "not_before", "number", "opened_at",
        "receipt", "size", "timestamps", "values", "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, opened_at: float, deadline: float) -> None:
        self.where = where
        self.number: tuple[int, ...] = (next(_numbers),)  # tells which of two batches of a partition is the older
        self.opened_at = opened_at
        self.deadline = deadline
        self.not_before = 0.0
        self.attempts = 0
        self.last_error: OttlaError | None = None
        """Why it has to be sent again."""
        self.in_flight = False
        self.may_be_stored = False
        """It was sent, and no answer told that it is not stored."""
        self.line: SequenceLine | None = None  # see sequences.py
        self.base_sequence = -1
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None  # as long as no record has one
        self.headers: dict[int, Headers] = {}
        self.timestamps: list[int] | int = []
        self.size = HEADER_SIZE
        self.done = False
        self.error: OttlaError | None = None
        self.failed: FailedBatch | None = None
        """Tells of its failure if nobody asks."""
        self.base_offset = -1
        self.append_time_ms = -1
        self.receipt: Receipt | None = None
        self._halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self._waiters: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, codec: Codec, magic: int = MAGIC_COLUMNS) -> bytearray:
        keys = self.keys
        if keys is not None and keys.count(None) == len(keys):
            keys = None
        headers = [self.headers.get(index, ()) for index in range(len(self.values))] if self.headers else None
        line = self.line
        return encode_batch(
            self.values,
            keys=keys,
            headers=headers,
            timestamps=self.timestamps,
            codec=codec,
            magic=magic,
            producer_id=NO_PRODUCER if line is None else line.producer_id,
            producer_epoch=-1 if line is None else line.epoch,
            base_sequence=self.base_sequence,
        )

    def metadata(self, index: int) -> RecordMetadata:
        """Where a record went; raises what kept it from going anywhere."""
        if self._halves is not None and all(half.done for half in self._halves):
            first, second = self._halves
            return first.metadata(index) if index < len(first) else second.metadata(index - len(first))
        if self.error is not None:
            self.asked(index)
            raise copy_of(self.error)
        return self._place(index)

    def fate(self, index: int) -> tuple[OttlaError | None, RecordMetadata]:
        """What kept a record from going anywhere, if anything did, and where it went or should have gone."""
        if self._halves is not None and all(half.done for half in self._halves):
            first, second = self._halves
            return first.fate(index) if index < len(first) else second.fate(index - len(first))
        self.asked(index)
        return copy_of(self.error) if self.error is not None else None, self._place(index)

    def _place(self, index: int) -> RecordMetadata:
        timestamp = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[index]
        if self.append_time_ms >= 0:
            timestamp = self.append_time_ms
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(self.where.topic, self.where.partition, offset, timestamp, self.receipt)

    def raise_error(self) -> None:
        """Raise what kept the batch from being stored, if anything did."""
        if self.error is not None:
            raise copy_of(self.error)

    def asked(self, index: int) -> None:
        """Somebody knows, or will be told, what became of a record."""
        if self._halves is not None:
            first, second = self._halves
            if index < len(first):
                first.asked(index)
            else:
                second.asked(index - len(first))
        elif self.failed is not None:
            self.failed.asked(index)

    def asked_all(self) -> None:
        """As ``asked``, of all its records."""
        if self._halves is not None:
            for half in self._halves:
                half.asked_all()
        elif self.failed is not None:
            self.failed.asked_all()

    def finish(self, base_offset: int = -1, append_time_ms: int = -1, error: OttlaError | None = None) -> None:
        """Tell everybody who waits what became of the batch."""
        with _waiters_lock:
            assert not self.done  # Invariant: the fate of a batch is decided once
            self.base_offset, self.append_time_ms, self.error = base_offset, append_time_ms, error
            self.done = True
            waiters, self._waiters = self._waiters, []
        failure: BaseException | None = None
        for waiter in waiters:
            try:
                waiter()
            except BaseException as raised:  # the others are told all the same
                failure = failure or raised
        if failure is not None:
            raise failure

    def when_done(self, waiter: Callable[[], object]) -> None:
        """Call ``waiter`` once the batch is done, on the send loop's thread; at once if it is done already."""
        with _waiters_lock:
            if not self.done:
                self._waiters.append(waiter)
                return
        waiter()

    def forget_waiter(self, waiter: Callable[[], object]) -> None:
        """Who waited for ``when_done`` does not any more."""
        with _waiters_lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def split(self) -> "tuple[ProducerBatch, ProducerBatch]":
        """Two halves of a batch that is not stored; this batch is done when both are. They share its sequence numbers."""
        middle = len(self.values) // 2
        self._halves = halves = (self._part(0, middle), self._part(middle, len(self.values)))
        if self.line is not None:
            self.line.unfinished.update(dict.fromkeys(halves))
            self.line.unfinished.pop(self, None)
        for half in halves:
            half.when_done(self.half_done)
        return halves

    def half_done(self) -> None:
        if self._halves is not None and all(half.done for half in self._halves):
            first, second = self._halves
            self.finish(first.base_offset, first.append_time_ms, first.error or second.error)

    def _part(self, start: int, end: int) -> "ProducerBatch":
        part = ProducerBatch(self.where, self.opened_at, self.deadline)
        part.number = (*self.number, start)  # behind the batch before this one, before the next
        part.may_be_stored = self.may_be_stored
        part.line = self.line
        if self.line is not None:
            part.base_sequence = (self.base_sequence + start) % SEQUENCES
        part.values = self.values[start:end]
        part.keys = self.keys[start:end] if self.keys is not None else None
        part.timestamps = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[start:end]
        part.headers = {index - start: headers for index, headers in self.headers.items() if start <= index < end}
        payload = self.size - HEADER_SIZE
        part.size += payload // 2 if start == 0 else payload - payload // 2
        return part
