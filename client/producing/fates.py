"""What becomes of a producer's batches: stored, tried again, or given up.

Here it is decided which errors are tried again, when, and under which sequence numbers.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import Line, ProducerBatch
from ottla.client.producing.sent_request import SentRequest
from ottla.client.producing.sequences import Sequences
from ottla.client.records import Receipt
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
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
from ottla.wire.names import NO_LEADER
from ottla.wire.requests import ProducePartResult, ProduceResponse

FIRST_LOOK_S = 0.01
"""How soon to ask again who leads, the first time; a new leader is mostly found within a tenth of a second."""

UNNUMBERED = (OutOfOrderSequenceNumber, InvalidProducerEpoch, UnknownProducerId)
"""The broker does not take the batch under its numbers."""

NOT_WRITTEN = (UnknownTopicOrPartition, NotEnoughReplicas)
"""What a broker answers before it has written anything. Other errors that pass may come when it has."""


class Fates:
    """Decides what becomes of batches, and tells those who wait for them, or for the room that they took."""

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: Accumulator,
        refresh: Callable[[], None],
    ) -> None:
        """``refresh`` is called when it should be asked who leads now."""
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._refresh = refresh
        self._loop = asyncio.get_running_loop()
        self._looks: Iterator[float] | None = None
        self._room: list[asyncio.Future[None]] = []
        self.closed = False
        """Whether the producer is: then nothing is tried again."""

    def close(self) -> None:
        """Give up what waits to be sent."""
        self.closed = True
        closed = ClientClosed("the producer was closed before this record was sent")
        for batch in self._accumulator.close(ClientClosed("the producer is closed")):
            self.finish(batch, closed)
        self._tell_room()

    def room(self) -> asyncio.Future[None]:
        """Done when there is room for more records, or the producer is closed."""
        room = self._loop.create_future()
        self._room.append(room)
        return room

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, sent: SentRequest, answer: Answer | OttlaError) -> None:
        """A request was answered, or never will be."""
        if isinstance(answer, OttlaError):
            self.lost(sent.batches, answer)
            return
        parts = cast(ProduceResponse, answer.message).parts
        if len(parts) == len(sent.batches):
            for batch, part in zip(sent.batches, parts, strict=True):
                self._part_answered(batch, part)
        else:
            why = f"{sent.channel.address} answered {len(parts)} parts of {len(sent.batches)}"
            self.lost(sent.batches, RemoteProtocolError(why))

    def _part_answered(self, batch: ProducerBatch, part: ProducePartResult) -> None:
        Sequences.returns(batch)
        if batch.done:  # its delivery time was over before the answer came
            return
        if part.error_code == 0 and part.base_offset >= 0:
            self._looks = None
            if self._config.receipts:
                batch.receipt = Receipt(part.leader, part.leader_epoch, part.isr, part.high_watermark)
            self.finish(batch, None, part.base_offset, part.append_time_ms)
        elif part.error_code == 0:  # nothing but its place proves that it is stored
            self.finish(
                batch, RemoteProtocolError(f"the leader of {batch.where} acknowledged a batch and named no offset")
            )
        else:
            self._refused(batch, part)

    def _refused(self, batch: ProducerBatch, part: ProducePartResult) -> None:
        where = batch.where
        error = part.error(topic=where.topic, partition=where.partition)
        if isinstance(error, MessageTooLarge) and len(batch) > 1 and not self.closed:
            self.split(batch, error)
        elif isinstance(error, UNNUMBERED) and batch.line is not None and not self.closed:
            self._out_of_line(batch, batch.line, error)
        elif not error.retriable or self.closed:
            self.finish(batch, error)
        else:
            news = part.leader != NO_LEADER and self._cluster.learn_leader(
                where, part.leader, part.leader_epoch, part.topic_id
            )
            batch.unsure = batch.unsure or may_be_written(error, part)
            self._try_again(batch, error, refresh=error.refresh_metadata and not news)

    def _out_of_line(self, batch: ProducerBatch, line: Line, error: OttlaError) -> None:
        """The broker does not take a batch under its numbers."""
        if not Sequences.has_older(batch):  # else that one comes first, and then this one again
            line.spent = line.spent or isinstance(error, InvalidProducerEpoch)
            line.broken = line.dead = True
            for other in sorted(line.unfinished, key=_number):
                if not other.travels and other is not batch and not self._leave_line(other, error):
                    self._accumulator.take_out(other)
        self._try_again(batch, error, refresh=False)

    def _leave_line(self, batch: ProducerBatch, error: OttlaError) -> bool:
        """A batch of a dead line gets new numbers when it is sent again; False if it may be stored and so cannot be.

        Even where the broker does not have it, for one before it was given up: it may yet read what we sent before.
        """
        if batch.unsure:
            text = f"{error}; it was sent before, and whether that was stored is not known"
            self.finish(batch, type(error)(text, topic=batch.where.topic, partition=batch.where.partition))
            return False
        Sequences.leave(batch)
        return True

    def split(self, batch: ProducerBatch, error: OttlaError) -> None:
        """Send a batch in two halves instead, because of ``error``."""
        if batch.line is None or not batch.line.dead or self._leave_line(batch, error):
            self._accumulator.split(batch)

    def lost(self, batches: list[ProducerBatch], error: OttlaError, *, was_sent: bool = True) -> None:
        """The request's fate is unknown, unless it was never sent: try all of it again."""
        for batch in batches:
            Sequences.returns(batch)
            if batch.done:
                continue
            batch.unsure = batch.unsure or was_sent
            if self.closed or not (error.retriable or self._cluster.only_hung_up(error)):
                self.finish(batch, error)
            else:
                self._try_again(batch, error, refresh=True)

    # --- tried again -------------------------------------------------------------------------------------------------

    def _try_again(self, batch: ProducerBatch, error: OttlaError, *, refresh: bool) -> None:
        now = time.monotonic()
        if now >= batch.deadline:
            self.too_late(batch, str(error))
            return
        if batch.line is not None and batch.line.dead and not self._leave_line(batch, error):
            return
        backoff_ms = min(self._config.retry_backoff_ms * 2**batch.attempts, self._config.retry_backoff_max_ms)
        batch.attempts += 1
        batch.last_error = error
        batch.not_before = now + backoff_ms / 1000
        self._accumulator.put_back(batch)
        if refresh:
            self._refresh()

    def next_look_s(self) -> float:
        """How long to wait before asking again who leads: longer every time, until something is stored."""
        self._looks = self._looks or backoff(FIRST_LOOK_S, self._config.retry_backoff_ms / 1000)
        return next(self._looks)

    # --- done --------------------------------------------------------------------------------------------------------

    def give_up_expired(self) -> None:
        """Give up what still waits to be sent when its delivery time is over."""
        for batch in self._accumulator.expired(time.monotonic()):
            known = batch.where.topic in self._cluster.topics
            led = self._cluster.leader(batch.where) is not None
            lacking = "its leader could not be reached" if led else f"{batch.where} has no leader"
            unreached = lacking if known else "the topic does not exist"
            self.too_late(batch, str(batch.last_error or unreached))

    def too_late(self, batch: ProducerBatch, why: str) -> None:
        """The delivery time of a batch is over."""
        where, limit_s = batch.where, self._config.delivery_timeout_ms / 1000
        text = f"not delivered to {where} within {limit_s:g} s: {why}; {self._cluster.tried()}"
        self.finish(batch, ClientTimeout(text, topic=where.topic, partition=where.partition))

    def finish(
        self, batch: ProducerBatch, error: OttlaError | None = None, base_offset: int = -1, append_time_ms: int = -1
    ) -> None:
        """A batch is done, for better or worse."""
        Sequences.finished(batch, stored=error is None)
        batch.finish(base_offset, append_time_ms, error)
        self._accumulator.release(batch)  # last: until then it is known whom to tell, should any of this fail
        if self._room and not self._accumulator.full:
            self._tell_room()

    def _tell_room(self) -> None:
        room, self._room = self._room, []
        for waiter in room:
            if not waiter.done():
                waiter.set_result(None)


def may_be_written(error: OttlaError, part: ProducePartResult) -> bool:
    """Whether the broker may have written a batch that it refused.

    One that leads no more says so before it writes, and then names the topic, or while it waits for others, having written.
    """
    if isinstance(error, NotLeaderOrFollower):
        return not part.topic_id
    return not isinstance(error, NOT_WRITTEN)


def _number(batch: ProducerBatch) -> tuple[int, ...]:
    return batch.number
