"""What a partition remembers of its idempotent producers, so that a batch that is sent twice is stored once. Pure.

For each producer id: its epoch and its last batches, as many as a producer may have in flight. All of it follows from
the headers of the batches in the log, so every replica knows it, and a new leader too.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ottla.broker.storage.producers.decision import Entry, Sent, decide, entry_with
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import OttlaError

PRODUCERS_MAX = 10_000
"""Producers remembered of each partition; the one that was silent for longest is forgotten first."""


class ProducerStates:
    """Of one partition."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, header: BatchHeader, *, may_have_forgotten: bool) -> Sent | None:
        """The batch that this one repeats, None if it is the next; raises if it is neither."""
        decision = decide(self._entries.get(header.producer_id), header, may_have_forgotten=may_have_forgotten)
        if decision is not None and isinstance(decision, OttlaError):
            raise decision
        return decision

    def note(self, header: BatchHeader, first_offset: int) -> None:
        """A batch of a producer stands in the log."""
        entries, producer_id = self._entries, header.producer_id
        entries[producer_id] = entry_with(entries.get(producer_id), header, first_offset)
        entries.move_to_end(producer_id)
        if len(entries) > PRODUCERS_MAX:
            entries.popitem(last=False)

    def truncate(self, offset: int) -> set[int]:
        """Forget batches at or past ``offset``. Gives the producers that may have sent others before, which are forgotten too.

        Their last batch is to be looked for in the log. It is enough: of what a producer may send again, nothing is older than
        the window, and all that was remembered is cut.
        """
        unknown = set()
        for producer_id, entry in list(self._entries.items()):
            kept = tuple(sent for sent in entry.batches if sent.last_offset < offset)
            if len(kept) == len(entry.batches):
                continue
            if kept:
                self._entries[producer_id] = Entry(entry.epoch, kept)
                continue
            del self._entries[producer_id]
            if entry.batches[0].first_sequence != 0 or entry.epoch > 0:  # an epoch makes those before it forgotten
                unknown.add(producer_id)
        return unknown

    def dump(self) -> list[tuple[int, int, list[Sent]]]:
        return [(producer_id, entry.epoch, list(entry.batches)) for producer_id, entry in self._entries.items()]

    def restore(self, dumped: Iterable[tuple[int, int, Sequence[tuple[int, int, int, int]]]]) -> None:
        self._entries = OrderedDict(
            (producer_id, Entry(epoch, tuple(Sent(*sent) for sent in batches)))
            for producer_id, epoch, batches in dumped
        )
