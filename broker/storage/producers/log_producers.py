"""The producers of one log: what its batches tell of them, and the file that saves reading all of it again."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.broker.storage.producers.decision import Sent
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.producers.snapshot import Snapshot, SnapshotFile, load_producers
from ottla.broker.storage.producers.states import ProducerStates
from ottla.broker.storage.segments.segment import Segment
from ottla.wire.batch import HEADER_SIZE, BatchHeader, read_fields
from ottla.wire.errors import InvalidRecord

_STEP_BACK = 64 * 1024
"""How much of a log is read at once when it is read backwards; an index entry is never far."""


class LogProducers:
    """See the module. ``states`` is what is known now."""

    def __init__(self, folder: Path, states: ProducerStates, memory: ProducerMemory, saved_up_to: int = 0) -> None:
        self.states = states
        self.saved_up_to = saved_up_to
        """The offset that the snapshot stands for."""
        self._memory = memory
        self._file = SnapshotFile(folder)

    @classmethod
    def load(cls, folder: Path, segments: Sequence[Segment], memory: ProducerMemory) -> "LogProducers":
        """From the snapshot, and from the batches behind it. Slow."""
        # In a thread: what other partitions remember must not change meanwhile, so it counts by itself until it is read.
        offset, states = load_producers(folder, ProducerMemory(memory.limit_bytes))
        if offset > segments[-1].next_offset or offset < segments[0].base_offset:
            offset, states = 0, ProducerStates(ProducerMemory(memory.limit_bytes))
        read_producers(segments, offset, states)
        states.use(memory)
        return cls(folder, states, memory, offset)

    def repeated(self, batches: Sequence[tuple[int, BatchHeader]], *, may_have_forgotten: bool) -> Sent | None:
        """The batch in the log that an idempotent producer sends again, None if it sends the next one [I21]."""
        if len(batches) > 1:
            if any(header.producer_id >= 0 for _, header in batches):
                raise InvalidRecord(f"{len(batches)} batches of an idempotent producer in one part; one at a time")
            return None
        return self.states.check(batches[0][1], may_have_forgotten=may_have_forgotten)

    def note(self, header: BatchHeader, first_offset: int) -> None:
        """A batch of a producer stands in the log."""
        self.states.note(header, first_offset, time.monotonic())

    def snapshot(self, offset: int) -> Snapshot:
        """What is known before ``offset``, the log's end; for ``save``."""
        return Snapshot(offset, self.states, self._file.version)

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot, unless the log was cut or closed meanwhile. Slow, and safe in a thread."""
        if self._file.write(snapshot):
            self.saved_up_to = snapshot.offset

    def expire(self, most: int) -> bool:
        """Forget producers that were silent for producer.id.expiration.ms; whether there may be more of them."""
        return self.states.expire(time.monotonic(), most)

    def last_batches_before(self, offset: int, segments: Sequence[Segment]) -> list[BatchHeader]:
        """What ``truncate`` needs of the log's segments, read before the log is cut: reading may fail, and then nothing is."""
        unknown = self.states.unknown_after(offset)
        return _last_batches(segments, unknown, offset) if unknown else []

    def truncate(self, offset: int, last_batches: list[BatchHeader]) -> None:
        """The log was cut at ``offset``; ``last_batches`` are those of ``last_batches_before``."""
        self._file.forget()
        self.saved_up_to = 0
        self.states.truncate(offset)
        for header in last_batches:
            self.note(header, header.base_offset)

    def clear(self) -> None:
        """The log was emptied."""
        self._file.forget()
        self.saved_up_to = 0
        self.states.close()
        self.states = ProducerStates(self._memory)

    def close(self) -> None:
        """The log is closed, or about to be deleted."""
        self._file.close()
        self.states.close()


def read_producers(segments: Iterable[Segment], from_offset: int, producers: ProducerStates) -> ProducerStates:
    """Add what the batches from ``from_offset`` on tell of their producers. Slow: it reads every header."""
    for segment in segments:
        if segment.next_offset <= from_offset:
            continue
        for batch in segment.walk(segment.position_of(max(from_offset, segment.base_offset))):
            header = read_fields(segment.read(batch.position, batch.position + HEADER_SIZE))
            if header.producer_id >= 0 and header.base_offset >= from_offset:
                producers.note(header, header.base_offset, time.monotonic())
    return producers


def _last_batches(segments: Sequence[Segment], producer_ids: set[int], before: int) -> list[BatchHeader]:
    """The last batch before an offset of each of these producers: backwards, and no further than it takes to find them all."""
    found: dict[int, BatchHeader] = {}
    for segment in reversed([segment for segment in segments if segment.base_offset < before]):
        end = segment.position_of(before)
        while end and len(found) < len(producer_ids):
            start = segment.batch_before(end - _STEP_BACK)
            newest: dict[int, BatchHeader] = {}
            for batch in segment.walk(start):
                if batch.position >= end:
                    break
                header = read_fields(segment.read(batch.position, batch.position + HEADER_SIZE))
                if header.producer_id in producer_ids:
                    newest[header.producer_id] = header
            found = newest | found
            end = start
    return sorted(found.values(), key=lambda header: header.base_offset)
