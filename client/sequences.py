"""The numbers by which brokers know a batch that comes again from the next one. Pure.

A producer has an id, and every batch of a partition carries that id and the number of its first record. A batch keeps its
numbers for all its tries. When one is given up, those behind it would seem to come too early: then a new id is needed,
and whatever was not stored yet begins anew at zero.
"""

from collections.abc import Iterable

from ottla.client.batches import ProducerBatch
from ottla.wire.names import TopicPartition

SEQUENCES = 2**31
"""Sequence numbers go round after this many."""


class Sequences:
    """One producer's numbers. Without an id (``ready`` is false) nothing may be sent."""

    def __init__(self) -> None:
        self._producer_id = -1
        self._epoch = -1
        self._next: dict[TopicPartition, int] = {}

    @property
    def ready(self) -> bool:
        return self._producer_id >= 0

    def begin(self, producer_id: int, epoch: int) -> None:
        """Be this producer from now on; what has no number yet is counted from zero."""
        self._producer_id, self._epoch = producer_id, epoch
        self._next.clear()

    def given_up(self, batch: ProducerBatch) -> None:
        """A batch will not be sent again. Those numbered behind it cannot follow it: nothing more goes under this id."""
        if batch.producer_id == self._producer_id:
            self._producer_id = -1

    def renumber(self, batch: ProducerBatch) -> None:
        """The broker refused a batch because one before it is missing for good: it begins anew, under another id."""
        self.given_up(batch)
        batch.producer_id = -1

    def number(self, batch: ProducerBatch) -> None:
        """Give a batch its numbers, if it has none. It keeps them for every try, for the first may have been stored."""
        if batch.producer_id >= 0:
            return
        first = self._next.get(batch.where, 0)
        batch.producer_id, batch.producer_epoch, batch.base_sequence = self._producer_id, self._epoch, first
        self._next[batch.where] = (first + len(batch)) % SEQUENCES

    @staticmethod
    def number_halves(batch: ProducerBatch, halves: Iterable[ProducerBatch]) -> None:
        """The halves of a batch that was refused share its numbers: none of them was used."""
        first = batch.base_sequence
        for half in halves:
            half.producer_id, half.producer_epoch, half.base_sequence = batch.producer_id, batch.producer_epoch, first
            first = (first + len(half)) % SEQUENCES
