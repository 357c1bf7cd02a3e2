"""Batches that were fetched and not yet asked for. The fetch loop puts them in, the caller, in its thread, takes them out."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from ottla.client.config import ConsumerConfig
from ottla.client.consuming.deserializing import Deserializing
from ottla.client.consuming.fetched import unreadable
from ottla.client.consuming.subscription import Assigned
from ottla.client.records import FetchedBatch, Record
from ottla.wire.errors import CorruptMessage, OttlaError
from ottla.wire.names import TopicPartition
from ottla.wire.records import RecordBatch

UNCOUNTED = -1


class _Entry(NamedTuple):
    """A batch as it was fetched, for a version of its partition's position; what lies before ``start`` is not wanted."""

    state: Assigned
    position_version: int
    batch: RecordBatch
    start: int
    skip: int
    """How many records of it are not wanted. Counted by the caller: the batch may have to be decoded, and may be damaged."""

    @property
    def stale(self) -> bool:
        """Whether a seek came after the fetch."""
        return self.state.position_version != self.position_version

    def counted(self) -> "_Entry":
        if self.skip != UNCOUNTED:
            return self
        return self._replace(skip=sum(1 for offset in self.batch.offsets() if offset < self.start))

    def unreadable(self, why: Exception) -> OttlaError:
        return unreadable(self.state.where, max(self.batch.base_offset, self.start), self.batch.next_offset, why)

    def fetched(self, skip: int | None = None) -> FetchedBatch:
        where = self.state.where
        return FetchedBatch(where.topic, where.partition, self.batch, self.skip if skip is None else skip)


class _InHand(NamedTuple):
    """The batch being read: its entry and its records belong together, for whoever looks from the other thread."""

    entry: _Entry
    records: list[Record]
    behind: int
    """The offset behind the records."""


@dataclass(slots=True)
class _Failure:
    """Why a partition cannot be read, as of one attempt; ``raised`` once the caller has heard of this attempt."""

    state: Assigned
    position_version: int
    error: OttlaError
    raised: bool = False

    @property
    def stale(self) -> bool:
        return self.state.position_version != self.position_version


class Inbox:
    """Decoding happens here, on the caller's side, so that a slow caller slows only itself.

    The records of the batch being read stand behind one list iterator, ``_left``. A loop over a consumer runs on that
    iterator itself: it costs nothing per record, and yet whoever stops in the middle, or polls, goes on where it stands.
    It ends where the list is emptied: by a seek, or because the partition is not this consumer's any more.
    """

    def __init__(self, config: ConsumerConfig, on_data: Callable[[], object]) -> None:
        self._limit = config.fetch_buffer_bytes
        self._deserializer = Deserializing(config)
        self.on_room: Callable[[], None] = lambda: None
        """Called, in the caller's thread, when there is room again."""
        self.on_data = on_data
        self._fetched: deque[_Entry] = deque()
        self._left: Iterator[Record] = iter([])
        self._reading: _InHand | None = None
        self._opening: _Entry | None = None  # on its way from _fetched to _reading, or out of here
        self._failures: dict[TopicPartition, _Failure] = {}
        # Each of the two is changed by one thread only, so that none can undo what the other one counted.
        self._bytes_put = 0
        self._bytes_taken = 0
        self.trouble: OttlaError | None = None
        """Why something cannot be fetched at the moment; None while all is well."""

    # --- for the fetch loop ------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more bytes may be put in; not below 0, though the last fetch may have brought more."""
        return max(0, self._limit - self._bytes_put + self._bytes_taken)

    def put(self, state: Assigned, batches: list[RecordBatch]) -> None:
        for batch in batches:
            self._bytes_put += batch.size
            # A fetch gives whole batches: the first may begin before the offset that was asked for.
            start = state.fetch_offset
            skip = 0 if batch.base_offset >= start else UNCOUNTED
            self._fetched.append(_Entry(state, state.position_version, batch, start, skip))
        self.on_data()

    def fail(self, state: Assigned, error: OttlaError) -> None:
        """A partition cannot be read. The caller hears of it after the records before it: now, after every further attempt

        that fails, and whenever there is nothing else to give; until it seeks, or the partition can be read.
        """
        self._failures[state.where] = _Failure(state, state.position_version, error)
        self.on_data()

    @property
    def has_failures(self) -> bool:
        return bool(self._failures)

    def recovered(self, state: Assigned) -> None:
        """Records of a partition came that can be read."""
        if self._failures:
            self._failures.pop(state.where, None)

    def not_refused(self, state: Assigned) -> None:
        """A leader did not refuse a partition, but had nothing of it to give: that does not make a damaged batch readable."""
        failure = self._failures.get(state.where)
        if failure is not None and not isinstance(failure.error, CorruptMessage):
            self.recovered(state)

    def holds(self, state: Assigned) -> bool:
        """Whether records of a partition are here that the caller has not taken."""
        if any(entry.state is state and not entry.stale for entry in list(self._fetched)):
            return True
        opening, reading = self._opening, self._reading  # in this order: the caller's thread fills them in this order
        return (opening is not None and opening.state is state and not opening.stale) or (
            reading is not None
            and reading.entry.state is state
            and not reading.entry.stale
            and length_hint(self._left) > 0
        )

    def take_back(self) -> None:
        """Partitions are not this consumer's any more: a loop that runs on records of one ends here, in whatever thread."""
        reading = self._reading
        if reading is not None and reading.entry.stale:
            reading.records.clear()

    # --- for the caller ----------------------------------------------------------------------------------------------

    def chunk(self, most: int | None = None) -> Iterator[Record] | None:
        """The records of the next batch, or what is left of the one being read; no more than ``most`` of them."""
        self._raise_news()
        if self._open_next():
            return self._left if most is None else islice(self._left, most)
        self._raise_failure()
        return None

    def take_records(self, most: int) -> list[Record]:
        """Up to ``most`` records, of as many batches as that takes."""
        self._raise_news()
        taken: list[Record] = []
        while len(taken) < most:
            try:
                if not self._open_next():
                    break
            except Exception:
                if taken:  # they come first; what failed is still here and fails the next time
                    break
                raise
            taken += islice(self._left, most - len(taken))
        if taken:
            self._settle()
        else:
            self._raise_failure()
        return taken

    def take_batches(self, most_bytes: int) -> list[FetchedBatch]:
        """Whole batches of about ``most_bytes`` in all, at least one if there is one."""
        self._raise_news()
        taken: list[FetchedBatch] = []
        size = 0
        remainder = self._remainder()
        while size < most_bytes and (entry := remainder or self._pop()) is not None:
            remainder = None
            try:
                entry = entry.counted()
            except Exception as error:
                self._put_back(entry)
                if taken:
                    break
                raise entry.unreadable(error) from error
            if not entry.stale:
                entry.state.position = entry.batch.next_offset
            if entry.skip < entry.batch.count:
                taken.append(entry.fetched())
                size += entry.batch.size
        self._opening = None
        if not taken:
            self._raise_failure()
        return taken

    def position(self, state: Assigned) -> int:
        """The offset of the record that the caller gets next."""
        if self._reading is not None and self._reading.entry.state is state:
            self._settle()
        return state.position

    def drop_stale(self) -> None:
        """After a seek: what is at hand may be of the time before. A loop that runs on it ends here."""
        self.take_back()
        if self._reading is not None and self._reading.entry.stale:
            self._reading = None

    # --- inside ------------------------------------------------------------------------------------------------------

    def _open_next(self) -> bool:
        """Have records at hand: those of the batch being read if a seek did not make them stale, else of the next."""
        self.drop_stale()
        if self._reading is not None:
            if length_hint(self._left):
                return True
            self._settle()
            self._reading = None
        try:
            while (entry := self._pop()) is not None:
                if self._open(entry):
                    return True
            return False
        finally:
            self._opening = None

    def _open(self, entry: _Entry) -> bool:
        """Decode a batch. One that cannot be read stays where it is, and fails until somebody seeks past it."""
        try:
            entry = entry.counted()
            records = entry.fetched().records()
        except Exception as error:
            self._put_back(entry)
            raise entry.unreadable(error) from error
        behind = entry.batch.next_offset
        if self._deserializer.needed:
            readable, before, stopped = self._deserializer.apply(records)
            if stopped is not None:
                self._put_back(entry._replace(skip=entry.skip + before))
                if not readable:
                    raise stopped
                behind = records[before].offset
            records = readable
        self._left = iter(records)
        self._reading = _InHand(entry, records, behind)
        if not records:
            self._settle()
        return bool(records)

    def _remainder(self) -> _Entry | None:
        """What is left of the batch being read, as a batch again."""
        self.drop_stale()
        reading = self._reading
        if reading is None:
            return None
        entry = self._opening = reading.entry
        self._reading = None
        left = length_hint(self._left)
        try:
            start = reading.records[-left].offset if left else -1
        except IndexError:
            left = 0  # they were taken back this very moment
        if not left:
            return None
        reading.records.clear()
        if self._fetched and self._fetched[0].batch is entry.batch:
            self._pop()  # the records of the same batch that could not be deserialized are in it, too
        return entry._replace(start=start, skip=UNCOUNTED)  # records of it may have been passed over

    def _settle(self) -> None:
        """Write down how far the caller has come."""
        reading = self._reading
        if reading is not None and not reading.entry.stale:
            left = length_hint(self._left)
            try:
                reading.entry.state.position = reading.records[-left].offset if left else reading.behind
            except IndexError:
                pass  # they were taken back this very moment

    def _pop(self) -> _Entry | None:
        while self._fetched:
            self._opening = self._fetched[0]
            entry = self._fetched.popleft()
            was_full = not self.room
            self._bytes_taken += entry.batch.size
            if was_full and self.room:
                self.on_room()
            if not entry.stale:
                return entry
        return None

    def _put_back(self, entry: _Entry) -> None:
        self._bytes_taken -= entry.batch.size
        self._fetched.appendleft(entry)

    def _raise_news(self) -> None:
        """Raise what the caller has not heard of yet, once it has had all that came before."""
        for failure in list(self._failures.values()):
            if not (failure.raised or failure.stale or self.holds(failure.state)):
                failure.raised = True
                raise failure.error.with_traceback(None)

    def _raise_failure(self) -> None:
        """There is nothing to give: raise why."""
        for failure in list(self._failures.values()):
            if not failure.stale:
                failure.raised = True
                raise failure.error.with_traceback(None)
        if self.trouble is not None and not self.trouble.retriable:
            raise self.trouble
