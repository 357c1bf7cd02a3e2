"""Batches that were fetched and not yet asked for. The fetch loop puts them in, the caller, in any thread, takes them out."""

from collections import deque
from collections.abc import Callable

from ottla.client.config import ConsumerConfig
from ottla.client.records import FetchedBatch, Record
from ottla.client.subscription import Assigned
from ottla.wire.errors import CorruptMessage, OttlaError
from ottla.wire.records import RecordBatch


class Inbox:
    """Decoding happens here, on the caller's side, so that a slow caller slows only itself."""

    def __init__(self, config: ConsumerConfig, on_room: Callable[[], None], on_data: Callable[[], None]) -> None:
        self._limit = config.fetch_buffer_bytes
        self._key_deserializer = config.key_deserializer
        self._value_deserializer = config.value_deserializer
        self.on_room = on_room
        self.on_data = on_data
        self._fetched: deque[tuple[Assigned, int, RecordBatch]] = deque()
        self._records: list[Record] = []  # of the batch being read, from _next on
        self._next = 0
        self._reading: tuple[Assigned, int, int] | None = None  # whose records, of which generation, ending where
        self._failure: OttlaError | None = None
        self._bytes = 0
        self.trouble: OttlaError | None = None
        """Why nothing can be fetched at the moment; None while all is well."""

    @property
    def has_room(self) -> bool:
        return self._bytes < self._limit

    def put(self, state: Assigned, generation: int, batches: list[RecordBatch]) -> None:
        for batch in batches:
            self._bytes += batch.size
            state.buffered_bytes += batch.size
            self._fetched.append((state, generation, batch))
        self.on_data()

    def fail(self, error: OttlaError) -> None:
        """The next poll raises this, once."""
        self._failure = error
        self.on_data()

    @property
    def has_data(self) -> bool:
        return self._next < len(self._records) or bool(self._fetched) or self._failure is not None

    def take_records(self, most: int) -> list[Record]:
        """Up to ``most`` records, of as many batches as that takes."""
        taken: list[Record] = []
        while len(taken) < most:
            if not self._open_next():
                break
            chunk = self._records[self._next : self._next + most - len(taken)]
            self._next += len(chunk)
            taken += chunk
            self._advance()
        return taken

    def take_batches(self, most_bytes: int) -> list[FetchedBatch]:
        """Whole batches of about ``most_bytes`` in all, at least one if there is one."""
        self._raise_failure()
        taken: list[FetchedBatch] = []
        size = 0
        while size < most_bytes and (entry := self._pop()) is not None:
            state, _, batch = entry
            fetched = self._trimmed(state, batch)
            state.position = batch.next_offset
            if len(fetched):
                taken.append(fetched)
                size += batch.size
        return taken

    def _open_next(self) -> bool:
        """Have records at hand: those of the batch being read if a seek did not make them stale, else of the next."""
        if self._next < len(self._records) and self._reading is not None:
            state, generation, _ = self._reading
            if state.generation == generation:
                return True
        while (entry := self._pop()) is not None:
            state, generation, batch = entry
            try:
                records = self._trimmed(state, batch).records()
            except CorruptMessage as error:
                error.topic, error.partition = state.where
                raise
            self._records, self._next = self._deserialized(records), 0
            self._reading = (state, generation, batch.next_offset)
            if self._records:
                return True
            state.position = batch.next_offset
        if not self._next < len(self._records):
            self._raise_failure()
        return False

    def _pop(self) -> tuple[Assigned, int, RecordBatch] | None:
        while self._fetched:
            entry = self._fetched.popleft()
            state, generation, batch = entry
            was_full = not self.has_room
            self._bytes -= batch.size
            if was_full and self.has_room:
                self.on_room()
            if state.generation == generation:
                state.buffered_bytes -= batch.size
                return entry
        return None

    def _advance(self) -> None:
        assert self._reading is not None
        state, generation, end = self._reading
        if state.generation == generation:
            done = self._next >= len(self._records)
            state.position = end if done else self._records[self._next].offset

    @staticmethod
    def _trimmed(state: Assigned, batch: RecordBatch) -> FetchedBatch:
        """The batch without the records before the position: a fetch gives whole batches."""
        skip = 0
        if batch.base_offset < state.position:
            skip = sum(1 for offset in batch.offsets() if offset < state.position)
        return FetchedBatch(state.where.topic, state.where.partition, batch, skip)

    def _deserialized(self, records: list[Record]) -> list[Record]:
        of_key, of_value = self._key_deserializer, self._value_deserializer
        if of_key is None and of_value is None:
            return records
        return [
            Record(
                r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type,
                of_key(r.key) if of_key is not None else r.key,
                of_value(r.value) if of_value is not None else r.value,
                r.headers,
            )
            for r in records
        ]  # fmt: skip

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
