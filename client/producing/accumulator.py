"""Batches that wait to be sent. Callers fill them, the send loop empties them.

Callers may be in another thread than the send loop. A record costs its caller one lock and three list appends; whatever
can be done once for a batch is done by the send loop.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import time_ns

from ottla.client.producing.batches import Headers, ProducerBatch
from ottla.client.producing.delivery import RecordDelivery
from ottla.client.producing.headers import checked_headers
from ottla.client.producing.record_lists import RECORD_OVERHEAD, BatchRange, RecordList, cut
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.errors import MessageTooLarge, OttlaError
from ottla.wire.names import TopicPartition


class Accumulator:
    """Batches that are being filled, and full ones that wait to be sent, per partition in the order of sending."""

    def __init__(self, batch_size: int, buffer_memory: int, record_max: int, delivery_timeout_s: float) -> None:
        # Records of up to a quarter of it may come on top: even then a batch fits into a request.
        self._batch_size = batch_size = min(batch_size, record_max * 4 // 5)
        self.buffer_memory = buffer_memory
        self._record_max = record_max
        self._large = min(batch_size // 4, record_max)
        self._delivery_timeout_s = delivery_timeout_s
        self._new_lock()
        self._open: dict[TopicPartition, ProducerBatch] = {}
        self._sealed: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._unfinished: dict[ProducerBatch, None] = {}
        self._halved: list[ProducerBatch] = []
        self._closed: OttlaError | None = None
        self.pending_bytes = 0
        self.on_sealed: Callable[[], None] = lambda: None
        """Called, in the thread of a caller that filled a batch, because a full one need not wait for company."""

    @property
    def full(self) -> bool:
        return self.pending_bytes >= self.buffer_memory

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._open and not self._sealed

    # --- for callers -------------------------------------------------------------------------------------------------

    def add(
        self,
        where: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        now: float,
    ) -> tuple[ProducerBatch, int]:
        """Put a record into the open batch of its partition; the batch, and the record's place in it.

        Place 0 means that the batch is new: the send loop must hear of it.
        """
        size = RECORD_OVERHEAD + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
        if headers:
            headers = checked_headers(headers)
            size += sum(len(name.encode()) + len(content or b"") + RECORD_OVERHEAD for name, content in headers)
        if size > self._large:
            self._make_way(where, size)
        with self._lock:
            batch = self._open.get(where)
            if batch is None:
                batch = self._open[where] = self._new_batch(where, now)
            index = len(batch.values)
            batch.values.append(value)
            if batch.keys is not None:
                batch.keys.append(key)
            elif key is not None:
                batch.keys = [*itertools.repeat(None, index), key]
            batch.timestamps.append(timestamp_ms)  # type: ignore[union-attr]  # an open batch has a list
            if headers:
                batch.headers[index] = headers
            batch.size += size
            self.pending_bytes += size
            if batch.size < self._batch_size:
                return batch, index
            self._seal(where)
        self.on_sealed()
        return batch, index

    def send_plain(self, where: TopicPartition, value: bytes) -> RecordDelivery | None:
        """As ``add``, for a value alone that goes into an open batch without filling it; None if it is not so simple.

        Nearly every record of a busy producer comes this way: it does nothing that is not needed.
        """
        size = len(value) + RECORD_OVERHEAD
        self._acquire()  # "with" would look up how to enter and how to leave, for every record
        try:
            batch = self._open.get(where)
            if batch is None or size > self._large or batch.keys is not None:
                return None
            filled = batch.size + size
            if filled >= self._batch_size:
                return None
            batch.size = filled
            self.pending_bytes += size
            values = batch.values
            index = len(values)
            values.append(value)
            batch.timestamps.append(time_ns() // 1_000_000)  # type: ignore[union-attr]  # an open batch has a list
        finally:
            self._release()
        return RecordDelivery(batch, index)

    def add_many(
        self,
        where: TopicPartition,
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        timestamp_ms: int,
        now: float,
    ) -> list[ProducerBatch]:
        """Make batches of a whole list at once, behind what the partition's open batch holds."""
        return self.add_lists([(where, keys, values)], timestamp_ms, now)[0]

    def add_lists(self, lists: Sequence[RecordList], timestamp_ms: int, now: float) -> list[list[ProducerBatch]]:
        """As ``add_many``, for lists of several partitions: all of them, or none if it raises."""
        lists_cut = [self._cut(records) for records in lists]
        with self._lock:
            self._check_open()
            return [
                self._add_cut(each, pieces, timestamp_ms, now) for each, pieces in zip(lists, lists_cut, strict=True)
            ]

    def _add_cut(
        self, records: RecordList, pieces: list[BatchRange], timestamp_ms: int, now: float
    ) -> list[ProducerBatch]:
        where, keys, values = records
        batches: list[ProducerBatch] = []
        self._seal(where)
        for start, end, size in pieces:
            batch = self._new_batch(where, now)
            batch.values = values[start:end]
            batch.keys = keys[start:end] if keys is not None else None
            batch.timestamps = timestamp_ms
            batch.size += size
            self.pending_bytes += size
            batches.append(batch)
        self._sealed.setdefault(where, deque()).extend(batches)
        return batches

    def _cut(self, records: RecordList) -> list[BatchRange]:
        where, keys, values = records
        pieces, largest = cut(keys, values, self._batch_size, self._record_max)
        self._check_size(where, largest)
        return pieces

    # --- for the send loop -------------------------------------------------------------------------------------------

    def waiting(self) -> list[TopicPartition]:
        """The partitions that have something to send."""
        with self._lock:
            return list(dict.fromkeys([*self._sealed, *self._open])) if self._sealed else list(self._open)

    def take(
        self, where: TopicPartition, now: float, linger_s: float, most: int = 1, *, numbered: bool = False
    ) -> list[ProducerBatch]:
        """The next batches of a partition that should go now, at most so many; none when none is due yet.

        With ``numbered``, only those that have a sequence number: the others must wait for theirs.
        """
        with self._lock:
            queue = self._sealed.get(where)
            if queue:
                taken: list[ProducerBatch] = []
                while queue and len(taken) < most and queue[0].not_before <= now:
                    if numbered and queue[0].line is None:
                        break
                    taken.append(queue.popleft())
                if not queue:
                    del self._sealed[where]
                return taken
            open_batch = self._open.get(where)
            if most < 1 or numbered or open_batch is None or open_batch.opened_at + linger_s > now:
                return []
            return [self._open.pop(where)]

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that must be sent again to its place before all younger ones."""
        with self._lock:
            queue = self._sealed.setdefault(batch.where, deque())
            queue.appendleft(batch)
            if len(queue) > 1 and queue[0].number > queue[1].number:
                ordered = sorted(queue, key=lambda waiting: waiting.number)
                queue.clear()
                queue.extend(ordered)

    def take_out(self, batch: ProducerBatch) -> None:
        """A batch that waits need not be sent any more."""
        with self._lock:
            queue = self._sealed.get(batch.where)
            if queue is not None and batch in queue:
                queue.remove(batch)
                if not queue:
                    del self._sealed[batch.where]

    def hurry(self, where: TopicPartition) -> None:
        """What waits in a partition before it is tried again need not wait any longer."""
        with self._lock:
            for batch in self._sealed.get(where, ()):
                batch.not_before = 0.0

    def split(self, batch: ProducerBatch) -> tuple[ProducerBatch, ProducerBatch]:
        """Send a batch that was too large for the broker in two halves instead."""
        halves = batch.split()
        with self._lock:
            self._halved.append(batch)
            self._unfinished.update(dict.fromkeys(halves))
            del self._unfinished[batch]
        for half in reversed(halves):
            self.put_back(half)
        return halves

    def release(self, batch: ProducerBatch) -> None:
        """A batch is done: its bytes no longer wait."""
        with self._lock:
            if batch in self._unfinished:
                del self._unfinished[batch]
                self.pending_bytes -= batch.size - HEADER_SIZE
            if self._halved:
                self._halved = [other for other in self._halved if not other.done]

    def unaccounted(self, in_flight: set[ProducerBatch]) -> list[ProducerBatch]:
        """Unfinished batches that neither wait nor are in flight. Invariant: none, unless something failed halfway."""
        with self._lock:
            waiting = {batch for queue in self._sealed.values() for batch in queue} | set(self._open.values())
            return [batch for batch in self._unfinished if batch not in waiting and batch not in in_flight]

    def finish_halved(self) -> None:
        """After a failure in the middle of something: whoever waits for both halves of a batch is told that they are done."""
        for batch in reversed(self._halved):  # halves of halves were added later
            if not batch.done:
                batch.half_done()

    def unfinished(self) -> list[ProducerBatch]:
        """All batches that records were put into and whose fate is open, whether they wait or are in flight."""
        with self._lock:
            return list(self._unfinished)

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

    def close(self, why: OttlaError) -> list[ProducerBatch]:
        """Take no more records, and take out all batches that wait.

        Invariant: no batch is open afterwards, so whoever adds a record later needs a new batch and is told ``why``.
        """
        with self._lock:
            self._closed = self._closed or why
            gone = [batch for queue in self._sealed.values() for batch in queue] + list(self._open.values())
            self._sealed.clear()
            self._open.clear()
        return gone

    def abandon(self, why: OttlaError) -> None:
        """In a forked child, where no send loop runs: everything has failed, as far as this process will ever know."""
        self._new_lock()
        self._closed = why
        self._open.clear()
        self._sealed.clear()
        for batch in self.unfinished():
            self.release(batch)
            if not batch.done:
                batch.finish(error=why)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _new_lock(self) -> None:
        self._lock = threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release

    def _check_open(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed), hint=self._closed.hint)

    def _new_batch(self, where: TopicPartition, now: float) -> ProducerBatch:
        self._check_open()
        batch = ProducerBatch(where, now, now + self._delivery_timeout_s)
        self._unfinished[batch] = None
        return batch

    def _make_way(self, where: TopicPartition, size: int) -> None:
        """A large record does not go into a batch that it makes much larger than batch_size."""
        self._check_size(where, size)
        with self._lock:
            batch = self._open.get(where)
            if batch is None or batch.size + size <= self._batch_size:
                return
            self._seal(where)
        self.on_sealed()

    def _check_size(self, where: TopicPartition, size: int) -> None:
        if size > self._record_max:
            raise MessageTooLarge(
                f"a record of {size} bytes; max_request_size is {self._record_max}", topic=where.topic
            )

    def _seal(self, where: TopicPartition) -> None:
        batch = self._open.pop(where, None)
        if batch is not None:
            self._sealed.setdefault(where, deque()).append(batch)
