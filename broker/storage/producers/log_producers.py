"""The producers of one log: what its batches tell of them, and the file that saves reading all of it again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.broker.storage.producers.decision import Sent
from ottla.broker.storage.producers.snapshot import forget_producers, load_producers, save_producers
from ottla.broker.storage.producers.states import ProducerStates
from ottla.broker.storage.segments.segment import Segment
from ottla.wire.batch import HEADER_SIZE, BatchHeader, read_fields
from ottla.wire.errors import InvalidRecord

_STEP_BACK = 64 * 1024
"""How much of a log is read at once when it is read backwards; an index entry is never far."""


class LogProducers:
    """See the module. ``states`` is what is known now."""

    def __init__(self, folder: Path, states: ProducerStates) -> None:
        self._folder = folder
        self.states = states

    @classmethod
    def load(cls, folder: Path, segments: Sequence[Segment]) -> "LogProducers":
        """From the snapshot, and from the batches behind it. Slow."""
        offset, states = load_producers(folder)
        if offset > segments[-1].next_offset or offset < segments[0].base_offset:
            offset, states = 0, ProducerStates()
        return cls(folder, read_producers(segments, offset, states))

    def repeated(self, batches: Sequence[tuple[int, BatchHeader]], *, may_have_forgotten: bool) -> Sent | None:
        """The batch in the log that an idempotent producer sends again, None if it sends the next one [I21]."""
        if len(batches) > 1:
            if any(header.producer_id >= 0 for _, header in batches):
                raise InvalidRecord(f"{len(batches)} batches of an idempotent producer in one part; one at a time")
            return None
        return self.states.check(batches[0][1], may_have_forgotten=may_have_forgotten)

    def note(self, header: BatchHeader, first_offset: int) -> None:
        """A batch of a producer stands in the log."""
        self.states.note(header, first_offset)

    def save(self, offset: int) -> None:
        """Write down what is known before ``offset``, the log's end."""
        save_producers(self._folder, offset, self.states)

    def truncate(self, offset: int, segments: Sequence[Segment]) -> None:
        """The log was cut at ``offset``, and has these segments left."""
        forget_producers(self._folder)
        unknown = self.states.truncate(offset)
        for header in _last_batches(segments, unknown) if unknown else ():
            self.states.note(header, header.base_offset)

    def clear(self) -> None:
        """The log was emptied."""
        forget_producers(self._folder)
        self.states = ProducerStates()


def read_producers(segments: Iterable[Segment], from_offset: int, producers: ProducerStates) -> ProducerStates:
    """Add what the batches from ``from_offset`` on tell of their producers. Slow: it reads every header."""
    for segment in segments:
        if segment.next_offset <= from_offset:
            continue
        for batch in segment.walk(segment.position_of(max(from_offset, segment.base_offset))):
            header = read_fields(segment.read(batch.position, batch.position + HEADER_SIZE))
            if header.producer_id >= 0 and header.base_offset >= from_offset:
                producers.note(header, header.base_offset)
    return producers


def _last_batches(segments: Sequence[Segment], producer_ids: set[int]) -> list[BatchHeader]:
    """The last batch of each of these producers: from the end backwards, and no further than it takes to find them all."""
    found: dict[int, BatchHeader] = {}
    for segment in reversed(segments):
        end = segment.size
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
