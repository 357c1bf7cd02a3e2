"""Records on their way out: the batches that collect them, and the accumulator that callers fill and the send loop empties.

Callers may be in another thread than the send loop. A record costs its caller one lock and three list appends; whatever
can be done once for a batch is done by the send loop.
"""

import itertools
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence

from ottla.client.records import RecordMetadata
from ottla.wire.batch import HEADER_SIZE, Codec
from ottla.wire.errors import MessageTooLarge, OttlaError
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch

Headers = Sequence[tuple[str, bytes | None]]

RECORD_OVERHEAD = 16
"""What a record costs beside its key and value: its lengths, its timestamp."""

_numbers = itertools.count()
_waiters_lock = threading.Lock()


class ProducerBatch:
    """Records of one partition that travel, arrive or fail together."""

    __slots__ = (
        "_halves", "_waiters", "append_time_ms", "base_offset", "deadline", "done", "error", "headers", "keys", "not_before",
        "number", "opened_at", "size", "timestamps", "values", "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, opened_at: float, deadline: float) -> None:
        self.where = where
        self.number: float = next(_numbers)  # tells which of two batches of a partition is the older
        self.opened_at = opened_at
        self.deadline = deadline
        self.not_before = 0.0
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = []
        self.headers: dict[int, Headers] = {}
        self.timestamps: list[int] | int = []
        self.size = HEADER_SIZE
        self.done = False
        self.error: OttlaError | None = None
        self.base_offset = -1
        self.append_time_ms = -1
        self._halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self._waiters: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, codec: Codec) -> bytearray:
        keys = self.keys
        if keys is not None and keys.count(None) == len(keys):
            keys = None
        headers = [self.headers.get(index, ()) for index in range(len(self.values))] if self.headers else None
        return encode_batch(self.values, keys=keys, headers=headers, timestamps=self.timestamps, codec=codec)

    def metadata(self, index: int) -> RecordMetadata:
        """Where a record went; raises what kept it from going anywhere."""
        if self._halves is not None:
            first, second = self._halves
            return first.metadata(index) if index < len(first) else second.metadata(index - len(first))
        if self.error is not None:
            raise self.error
        timestamp = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[index]
        if self.append_time_ms >= 0:
            timestamp = self.append_time_ms
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(self.where.topic, self.where.partition, offset, timestamp)

    def finish(self, base_offset: int = -1, append_time_ms: int = -1, error: OttlaError | None = None) -> None:
        """Tell everybody who waits what became of the batch. Invariant: happens once."""
        with _waiters_lock:
            assert not self.done
            self.base_offset, self.append_time_ms, self.error = base_offset, append_time_ms, error
            self.done = True
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def when_done(self, waiter: Callable[[], object]) -> None:
        """Call ``waiter`` once the batch is done, on the send loop's thread; at once if it is done already."""
        with _waiters_lock:
            if not self.done:
                self._waiters.append(waiter)
                return
        waiter()

    def split(self) -> "tuple[ProducerBatch, ProducerBatch]":
        """Two halves of a batch that was too large for the broker; this batch is done when both are."""
        middle = len(self.values) // 2
        self._halves = halves = (self._part(0, middle), self._part(middle, len(self.values)))

        def half_done() -> None:
            if all(half.done for half in halves):
                self.finish(halves[0].base_offset, halves[0].append_time_ms, halves[0].error or halves[1].error)

        for half in halves:
            half.when_done(half_done)
        return halves

    def _part(self, start: int, end: int) -> "ProducerBatch":
        part = ProducerBatch(self.where, self.opened_at, self.deadline)
        part.number = self.number + start / len(self.values)  # between this batch and the next
        part.values = self.values[start:end]
        part.keys = self.keys[start:end] if self.keys is not None else None
        part.timestamps = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[start:end]
        part.headers = {index - start: headers for index, headers in self.headers.items() if start <= index < end}
        payload = self.size - HEADER_SIZE
        part.size += payload // 2 if start == 0 else payload - payload // 2
        return part


class Accumulator:
    """Batches that are being filled, and full ones that wait to be sent, per partition in the order of sending."""

    def __init__(self, batch_size: int, buffer_memory: int, record_max: int, delivery_timeout_s: float) -> None:
        self._batch_size = batch_size
        self._buffer_memory = buffer_memory
        self._record_max = record_max
        self._delivery_timeout_s = delivery_timeout_s
        self._lock = threading.Lock()
        self._open: dict[TopicPartition, ProducerBatch] = {}
        self._sealed: dict[TopicPartition, deque[ProducerBatch]] = {}
        self.pending_bytes = 0

    @property
    def full(self) -> bool:
        return self.pending_bytes >= self._buffer_memory

    def add(
        self,
        where: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        now: float,
    ) -> tuple[ProducerBatch, int]:
        """Put a record into the open batch of its partition; the batch and the record's place in it."""
        size = RECORD_OVERHEAD + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
        if headers:
            size += sum(len(name) + len(content or b"") + RECORD_OVERHEAD for name, content in headers)
        if size > self._record_max:
            raise MessageTooLarge(
                f"a record of {size} bytes; max_request_size is {self._record_max}", topic=where.topic
            )
        with self._lock:
            batch = self._open.get(where)
            if batch is None:
                batch = self._open[where] = ProducerBatch(where, now, now + self._delivery_timeout_s)
            index = len(batch.values)
            batch.values.append(value)
            batch.keys.append(key)  # type: ignore[union-attr]  # an open batch has lists
            batch.timestamps.append(timestamp_ms)  # type: ignore[union-attr]
            if headers:
                batch.headers[index] = tuple(headers)
            batch.size += size
            self.pending_bytes += size
            if batch.size >= self._batch_size:
                self._seal(where)
            return batch, index

    def add_many(
        self,
        where: TopicPartition,
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        timestamp_ms: int,
        now: float,
    ) -> list[ProducerBatch]:
        """Make batches of a whole list at once, behind what the partition's open batch holds."""
        lengths = [len(value or b"") for value in values] if None in values else list(map(len, values))  # type: ignore[arg-type]
        if keys is not None:
            lengths = [length + len(key or b"") for length, key in zip(lengths, keys, strict=True)]
        if max(lengths) + RECORD_OVERHEAD > self._record_max:
            raise MessageTooLarge(
                f"a record of {max(lengths) + RECORD_OVERHEAD} bytes; max_request_size is {self._record_max}",
                topic=where.topic,
            )
        ends = list(itertools.accumulate(lengths, initial=0))

        def bytes_before(index: int) -> int:
            return ends[index] + index * RECORD_OVERHEAD

        batches = []
        start = 0
        while start < len(values):
            limit = bytes_before(start) + self._batch_size
            end = bisect_left(range(len(values)), limit, lo=start + 1, key=bytes_before)
            batch = ProducerBatch(where, now, now + self._delivery_timeout_s)
            batch.values = values[start:end]
            batch.keys = keys[start:end] if keys is not None else None
            batch.timestamps = timestamp_ms
            batch.size += bytes_before(end) - bytes_before(start)
            batches.append(batch)
            start = end
        with self._lock:
            self._seal(where)
            self._sealed.setdefault(where, deque()).extend(batches)
            self.pending_bytes += bytes_before(len(values))
        return batches

    def waiting(self) -> list[TopicPartition]:
        """The partitions that have something to send."""
        with self._lock:
            return list(dict.fromkeys([*self._sealed, *self._open]))

    def take(self, where: TopicPartition, now: float, linger_s: float) -> ProducerBatch | None:
        """The next batch of a partition that should go now; None when none is due yet."""
        with self._lock:
            queue = self._sealed.get(where)
            if queue:
                if queue[0].not_before > now:
                    return None
                batch = queue.popleft()
                if not queue:
                    del self._sealed[where]
                return batch
            open_batch = self._open.get(where)
            if open_batch is None or open_batch.opened_at + linger_s > now:
                return None
            return self._open.pop(where)

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that must be sent again to its place before all younger ones."""
        with self._lock:
            queue = self._sealed.setdefault(batch.where, deque())
            queue.appendleft(batch)
            if len(queue) > 1 and queue[0].number > queue[1].number:
                ordered = sorted(queue, key=lambda waiting: waiting.number)
                queue.clear()
                queue.extend(ordered)

    def release(self, size: int) -> None:
        """A batch is done: its bytes no longer wait."""
        with self._lock:
            self.pending_bytes -= size - HEADER_SIZE

    def next_due(self, linger_s: float) -> float | None:
        """When the next batch that is not due yet will be: the end of a linger or of a wait before a retry."""
        with self._lock:
            times = [batch.opened_at + linger_s for batch in self._open.values()]
            times += [queue[0].not_before for queue in self._sealed.values()]
        return min(times, default=None)

    def expired(self, now: float) -> list[ProducerBatch]:
        """Take out the batches whose delivery time is over."""
        gone: list[ProducerBatch] = []
        with self._lock:
            for where in list(self._sealed):
                queue = self._sealed[where]
                while queue and queue[0].deadline <= now:
                    gone.append(queue.popleft())
                if not queue:
                    del self._sealed[where]
            for where in [where for where, batch in self._open.items() if batch.deadline <= now]:
                gone.append(self._open.pop(where))
        return gone

    def _seal(self, where: TopicPartition) -> None:
        batch = self._open.pop(where, None)
        if batch is not None:
            self._sealed.setdefault(where, deque()).append(batch)
