"""What a partition remembers of its idempotent producers, so that a batch that is sent twice is stored once. Pure.

For each producer id: its epoch and its last batches, as many as a producer may have in flight. All of it follows from
the headers of the batches in the log, so every replica knows it, and a new leader too. What a replica has evicted it knows as
well, so that whichever replica leads, it recognizes a repetition or refuses the batch.
"""

from collections import OrderedDict
from itertools import islice
from typing import Final

from ottla.broker.storage.producers.decision import Entry, Sent, batches_of, decide, entry_with, last_offset, packed
from ottla.broker.storage.producers.evicted import EvictedProducers
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import OttlaError

ENTRY_BYTES = 350
"""What one producer takes in memory, about, beside its batches."""

NOBODY: Final[tuple[int, Entry | None]] = (-1, None)


class ProducerStates:
    """Of one partition."""

    def __init__(self, memory: ProducerMemory | None = None) -> None:
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._expired: OrderedDict[int, Entry] = OrderedDict()
        """Those that were silent for long: only that they were there is remembered."""
        self._evicted = EvictedProducers()
        self._memory = ProducerMemory() if memory is None else memory
        self.has_expired = False
        """Whether producers were wholly forgotten because they were silent for very long."""
        self.size = 0
        self.closed = False
        self._memory.add(self)

    def __len__(self) -> int:
        """How many producers are known."""
        return len(self._entries)

    def __bool__(self) -> bool:
        """Whether anything is known of producers, also of those that are forgotten."""
        return bool(self._entries) or bool(self._expired) or bool(self._evicted) or self.has_expired

    def use(self, memory: ProducerMemory) -> None:
        """Count as part of this memory from now on: what was loaded in a thread had one of its own."""
        self._memory.remove(self)
        self._memory, self.closed = memory, False
        memory.add(self)

    def close(self) -> None:
        """The log is closed: this takes no more memory of the broker."""
        if not self.closed:
            self._memory.remove(self)

    def check(self, header: BatchHeader, *, may_have_forgotten: bool) -> Sent | None:
        """The batch that this one repeats, None if it is the next; raises if it is neither."""
        known = self._entries.get(header.producer_id) or self._expired.get(header.producer_id)
        decision = decide(
            known,
            header,
            may_have_forgotten=may_have_forgotten or self.has_expired,
            may_be_evicted=known is None and self._evicted.may_include(header.producer_id, header.producer_epoch),
        )
        if decision is not None and isinstance(decision, OttlaError):
            raise decision
        return decision

    def note(self, header: BatchHeader, first_offset: int, now_s: float = 0.0) -> None:
        """A batch of a producer stands in the log."""
        entries, producer_id = self._entries, header.producer_id
        known = entries.get(producer_id)
        entry = entries[producer_id] = entry_with(known, header, first_offset, now_s)
        if known is not None:
            entries.move_to_end(producer_id)
        elif self._expired:
            self._forget_expired(producer_id)
        grown = _size(entry) - (0 if known is None else _size(known))
        if grown:
            self._grow(grown)
            if self._memory.used_bytes > self._memory.limit_bytes:
                self._memory.make_room()

    def unknown_after(self, offset: int) -> set[int]:
        """The producers of which nothing is remembered once the log is cut at ``offset``, but that may have sent more.

        Their last batch is to be looked for in the log. It is enough: of what a producer may send again, nothing is older than
        the window, and all that was remembered is cut.
        """
        unknown = set()
        for producer_id, entry in self._entries.items():
            if last_offset(entry) >= offset:
                batches = batches_of(entry)
                # An epoch makes those before it forgotten.
                if batches[0].last_offset >= offset and (batches[0].first_sequence != 0 or entry.epoch > 0):
                    unknown.add(producer_id)
        return unknown

    def truncate(self, offset: int) -> None:
        """Forget batches at or past ``offset``."""
        for producer_id, entry in list(self._entries.items()):
            if last_offset(entry) < offset:
                continue
            batches = batches_of(entry)
            kept = [sent for sent in batches if sent.last_offset < offset]
            if kept:
                self._entries[producer_id] = left = Entry(entry.epoch, packed(kept), entry.last_used_s)
                self._grow(_size(left) - _size(entry))
                continue
            del self._entries[producer_id]
            self._grow(-_size(entry))

    # --- who is forgotten ------------------------------------------------------------------------------------------------

    def oldest_s(self) -> float | None:
        for entry in (*islice(self._expired.values(), 1), *islice(self._entries.values(), 1)):
            return entry.last_used_s
        return None

    def evict_oldest(self) -> bool:
        if self._expired:
            producer_id, entry = next(iter(self._expired.items()))
            self._forget_expired(producer_id)
            # Its last batch may be a named write [I29] that is tried again: without a trace of it, sequence 0 would be stored.
            self._evicted.add(producer_id, entry.epoch, entry.last_used_s)
            self.has_expired = True
            return False
        producer_id, entry = self._entries.popitem(last=False)
        self._grow(-_size(entry))
        self._evicted.add(producer_id, entry.epoch, entry.last_used_s)
        return True

    def expire(self, now_s: float, most: int) -> bool:
        """Forget what was not used for long, ``most`` producers at once. Whether there may be more of them."""
        before_s, forget_before_s = now_s - self._memory.expiration_s, now_s - self._memory.forget_s
        self._evicted.expire(forget_before_s)
        for _ in range(most):
            producer_id, entry = next(iter(self._expired.items()), NOBODY)
            if entry is not None and entry.last_used_s < forget_before_s:
                self._forget_expired(producer_id)
                self.has_expired = True
                continue
            producer_id, entry = next(iter(self._entries.items()), NOBODY)
            if entry is None or entry.last_used_s >= before_s:
                return False
            del self._entries[producer_id]
            self._grow(-_size(entry))
            self._add_expired(producer_id, entry.epoch, entry.last_used_s)
        return True

    def _add_expired(self, producer_id: int, epoch: int, last_used_s: float) -> None:
        self._expired[producer_id] = Entry(epoch, b"", last_used_s)
        self._grow(ENTRY_BYTES)

    def _forget_expired(self, producer_id: int) -> None:
        if self._expired.pop(producer_id, None) is not None:
            self._grow(-ENTRY_BYTES)

    # --- as it is told ---------------------------------------------------------------------------------------------------

    def latest(self, most: int) -> list[tuple[int, Entry]]:
        """The producers that are active, the one that wrote last first, ``most`` of them."""
        return list(islice(reversed(self._entries.items()), most))

    # --- as it is saved --------------------------------------------------------------------------------------------------

    def dump(self) -> list[tuple[int, int, list[Sent]]]:
        return [(producer_id, entry.epoch, batches_of(entry)) for producer_id, entry in self._entries.items()]

    def entries(self) -> list[tuple[int, Entry]]:
        """A copy, the producer that was silent for longest first; those that have expired have no batches."""
        return [*self._expired.items(), *self._entries.items()]

    def evicted(self, now_s: float) -> list[tuple[int, int, float, bool]]:
        return self._evicted.dump(now_s)

    def restore(self, producer_id: int, entry: Entry) -> None:
        """Add a producer behind those that are known."""
        if entry.packed:
            self._entries[producer_id] = entry
        else:
            self._expired[producer_id] = entry
        self._grow(_size(entry))

    def restore_evicted(self, dumped: list[tuple[int, int, float, bool]], now_s: float) -> None:
        self._evicted.restore(dumped, now_s)

    def _grow(self, by: int) -> None:
        self.size += by
        self._memory.change(by)


def _size(entry: Entry) -> int:
    return ENTRY_BYTES + len(entry.packed)
