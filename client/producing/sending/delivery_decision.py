"""What becomes of a batch when its answer comes, or never will. Pure: it looks at the batch, and changes nothing.

batch_completion.py carries the verdict out. What is tried again keeps its sequence numbers, for any of its tries may have been
stored (sequences.py). It gets new ones only where the broker takes none of its line any more, and it cannot have been stored.
"""

from dataclasses import dataclass
from typing import Final, Union

from ottla.client.producing.batches import ProducerBatch
from ottla.client.producing.sending.sequences import Sequences
from ottla.wire.errors import (
    InvalidProducerEpoch,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OttlaError,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import ProducePartResult

NUMBERS_REFUSED = (OutOfOrderSequenceNumber, InvalidProducerEpoch, UnknownProducerId)
"""The broker does not take the batch under its numbers."""

NOT_WRITTEN = (UnknownTopicOrPartition, NotEnoughReplicas)
"""What a broker answers before it has written anything. Other errors that pass may come when it has."""


@dataclass(frozen=True)
class Stored:
    """The answer names its offset."""


@dataclass(frozen=True)
class Retry:
    """Send it again after a while; ``refresh``: ask meanwhile who leads."""

    error: OttlaError
    refresh: bool = False
    may_be_stored: bool = False
    """Whether one of its tries may have been stored already."""
    new_numbers: bool = False


@dataclass(frozen=True)
class Split:
    """Send two halves of it instead."""

    new_numbers: bool = False


@dataclass(frozen=True)
class GiveUp:
    """Fail it with this error."""

    error: OttlaError


@dataclass(frozen=True)
class TimedOut:
    """Fail it, because its delivery time is over; ``error`` is what kept it from being delivered in time."""

    error: OttlaError


@dataclass(frozen=True)
class RetireLine:
    """The broker takes nothing more under the numbers of its line: first retire that, ``then`` see to the batch."""

    error: OttlaError
    then: "Verdict"

    @property
    def new_producer_id(self) -> bool:
        """Whether another epoch of the same producer will not do."""
        return isinstance(self.error, InvalidProducerEpoch)


Verdict = Union[Stored, Retry, Split, GiveUp, TimedOut, RetireLine]  # noqa: UP007  # it names itself

STORED: Final = Stored()
"""The one that is given for nearly every batch is not made anew for each."""


def after_answer(batch: ProducerBatch, part: ProducePartResult, closed: bool, now: float) -> Verdict:
    """The leader answered; ``closed``: the producer is, and nothing is tried again."""
    if part.error_code:
        error = part.error(topic=batch.where.topic, partition=batch.where.partition)
        return after_refusal(batch, error, may_be_written(error, part.topic_id), closed, now)
    if part.base_offset >= 0:
        return STORED
    # Nothing but its offset proves that it is stored.
    return GiveUp(RemoteProtocolError(f"the leader of {batch.where} acknowledged a batch and named no offset"))


def after_refusal(batch: ProducerBatch, error: OttlaError, written: bool, closed: bool, now: float) -> Verdict:
    """The leader refused the batch; ``written``: it may have written it all the same."""
    if isinstance(error, MessageTooLarge) and len(batch) > 1 and not closed:
        return in_halves(batch, error)
    if isinstance(error, NUMBERS_REFUSED) and batch.line is not None and not closed:
        if Sequences.has_older(batch):  # that one comes first, and then this one again
            return _again(batch, error, now, False, batch.may_be_stored, batch.line.dead)
        return RetireLine(error, _again(batch, error, now, False, batch.may_be_stored, True))
    if closed or not error.retriable:
        return GiveUp(error)
    return _again(batch, error, now, error.refresh_metadata, batch.may_be_stored or written, _line_is_dead(batch))


def after_loss(
    batch: ProducerBatch, error: OttlaError, was_sent: bool, hung_up: bool, closed: bool, now: float
) -> Verdict:
    """No answer will come; ``hung_up``: only because we ourselves gave up the connection."""
    if closed or not (error.retriable or hung_up):
        return GiveUp(error)
    return _again(batch, error, now, True, batch.may_be_stored or was_sent, _line_is_dead(batch))


def in_halves(batch: ProducerBatch, error: OttlaError) -> Verdict:
    """A batch is not taken whole."""
    if not _line_is_dead(batch):
        return Split()
    return in_retired_line(batch, error) or Split(new_numbers=True)


def in_retired_line(batch: ProducerBatch, error: OttlaError) -> GiveUp | None:
    """A batch of a line that was retired because of ``error``: None if it may get new numbers; not if it may be stored.

    Even where the broker does not have it, for one before it was given up: it may yet read what we sent before.
    """
    return GiveUp(_perhaps_stored(batch, error)) if batch.may_be_stored else None


def may_be_written(error: OttlaError, topic_id: str) -> bool:
    """Whether the broker may have written a batch that it refused.

    One that leads no more says so before it writes, and then names the topic, or while it waits for others, having written.
    """
    if isinstance(error, NotLeaderOrFollower):
        return not topic_id
    return not isinstance(error, NOT_WRITTEN)


def _again(
    batch: ProducerBatch, error: OttlaError, now: float, refresh: bool, may_be_stored: bool, line_is_dead: bool
) -> Verdict:
    if now >= batch.deadline:
        return TimedOut(error)
    if line_is_dead and may_be_stored:
        return GiveUp(_perhaps_stored(batch, error))
    return Retry(error, refresh, may_be_stored, new_numbers=line_is_dead)


def _line_is_dead(batch: ProducerBatch) -> bool:
    return batch.line is not None and batch.line.dead


def _perhaps_stored(batch: ProducerBatch, error: OttlaError) -> OttlaError:
    text = f"{error}; it was sent before, and whether that was stored is not known"
    return type(error)(text, topic=batch.where.topic, partition=batch.where.partition)
