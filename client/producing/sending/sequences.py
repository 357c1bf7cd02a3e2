"""The numbers by which brokers know a batch that comes again from the next one. Pure.

A producer has an id, and every batch of a partition carries that id, an epoch and the number of its first record: together they
are the partition's line (batches.py). A batch keeps its numbers for all its tries, for any of them may have been stored. When
one is given up, its line is broken: those numbered behind it would seem to come too early. Then

- nothing gets a number until all that have one of the broken line are done, or have lost it because the broker said that it
  does not take them. So what was sent later never overtakes what was sent before. Whatever was sent before and not answered
  keeps its number, and fails: under another it could be stored twice;
- a new line begins, at zero, under the next epoch. Brokers take nothing of an earlier epoch any more, so that what was given up
  and is still on its way somewhere never comes behind what was sent after it.

Other partitions have lines of their own and do not notice.
"""

from collections.abc import Container

from ottla.client.producing.batches import SEQUENCES, ProducerBatch, SequenceLine
from ottla.wire.names import TopicPartition

EPOCH_MAX = 2**15 - 1
"""A batch has two bytes for it; after the last one comes another producer id."""


class Sequences:
    """One producer's numbers."""

    def __init__(self) -> None:
        self._producer_id = -1
        self._epoch = -1
        self._lines: dict[TopicPartition, SequenceLine] = {}

    @property
    def ready(self) -> bool:
        """Whether there is an id for new lines."""
        return self._producer_id >= 0

    def begin(self, producer_id: int, epoch: int) -> None:
        """Be this producer in all lines that begin from now on."""
        self._producer_id, self._epoch = producer_id, epoch

    def may_number(self, where: TopicPartition) -> bool:
        """Whether a batch of this partition that has no number may get one now."""
        line = self._lines.get(where)
        if line is None:
            return self.ready
        if not line.broken:
            return True
        if line.unfinished:
            return False
        if not line.spent and line.epoch < EPOCH_MAX:
            return True
        if line.producer_id == self._producer_id:
            self._producer_id = -1  # one is asked for when nobody is ready
        return self.ready

    def number(self, batch: ProducerBatch) -> bool:
        """Give a batch its numbers, if it has none; False if it must wait for them."""
        if batch.line is not None:
            return True
        if not self.may_number(batch.where):
            return False
        line = self._lines.get(batch.where)
        if line is None or line.broken:
            line = self._lines[batch.where] = self._line_after(line)
        batch.line, batch.base_sequence = line, line.next_sequence
        line.next_sequence = (line.next_sequence + len(batch)) % SEQUENCES
        line.unfinished[batch] = None
        return True

    def _line_after(self, line: SequenceLine | None) -> SequenceLine:
        if line is None or line.spent or line.epoch >= EPOCH_MAX:
            return SequenceLine(self._producer_id, self._epoch)
        return SequenceLine(line.producer_id, line.epoch + 1)

    def may_go_to(self, leader: int, where: TopicPartition) -> bool:
        """Whether nothing of this partition is on its way to another broker.

        Else that would have to come again behind what goes to this one, where it is taken for too old to be known.
        """
        line = self._lines.get(where)
        return line is None or not line.in_flight or line.leader == leader

    @staticmethod
    def add_in_flight(batch: ProducerBatch, leader: int) -> None:
        """A batch is on its way."""
        batch.in_flight = True
        if batch.line is not None:
            batch.line.in_flight += 1
            batch.line.leader = leader

    @staticmethod
    def remove_in_flight(batch: ProducerBatch) -> None:
        """A batch was answered, or never will be."""
        if batch.in_flight:
            batch.in_flight = False
            if batch.line is not None:
                batch.line.in_flight -= 1

    @staticmethod
    def take_back(batch: ProducerBatch) -> None:
        """The batch that was numbered last is not sent now after all: the next one gets its numbers."""
        line = batch.line
        if line is not None:
            assert (batch.base_sequence + len(batch)) % SEQUENCES == line.next_sequence
            line.next_sequence = batch.base_sequence
            Sequences.leave(batch)

    @staticmethod
    def has_older(batch: ProducerBatch) -> bool:
        """Whether a batch of the same line that must come before this one is not done yet."""
        line = batch.line
        return line is not None and any(other.number < batch.number for other in line.unfinished)

    @staticmethod
    def leave(batch: ProducerBatch) -> None:
        """A batch has no number any more. Never while it is in flight: then nobody would wait for it."""
        line = batch.line
        if line is not None:
            line.unfinished.pop(batch, None)
            batch.line, batch.base_sequence = None, -1

    @staticmethod
    def finished(batch: ProducerBatch, *, stored: bool) -> None:
        """A batch will not be sent again. If it was not stored, those numbered behind it cannot follow it."""
        line = batch.line
        if line is not None:
            line.unfinished.pop(batch, None)
            line.broken = line.broken or not stored

    def mend(self, unfinished: Container[ProducerBatch]) -> None:
        """After a failure in the middle of something: no line waits for a batch that nobody sends any more."""
        for line in self._lines.values():
            for batch in list(line.unfinished):
                if batch not in unfinished:
                    line.unfinished.pop(batch, None)
                    line.broken = True
                elif line.dead and not batch.in_flight:
                    self.leave(batch)
