"""What becomes of a producer's batches: stored, tried again, or given up.

Here it is decided which errors are tried again, when, and under which sequence numbers.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.client.accumulator import Accumulator
from ottla.client.batches import ProducerBatch
from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.records import Receipt
from ottla.client.sent_request import SentRequest
from ottla.client.sequences import Sequences
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    MessageTooLarge,
    OttlaError,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    UnknownProducerId,
)
from ottla.wire.names import NO_LEADER
from ottla.wire.requests import ProducePartResult, ProduceResponse

FIRST_LOOK_S = 0.01
"""How soon to ask again who leads, the first time; a new leader is mostly found within a tenth of a second."""

UNNUMBERED = (OutOfOrderSequenceNumber, InvalidProducerEpoch, UnknownProducerId)
"""The broker does not have the batch and does not take it under its numbers."""


class Fates:
    """Decides what becomes of batches, and tells those who wait for them, or for the room that they took."""

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: Accumulator,
        sequences: Sequences | None,
        refresh: Callable[[], None],
    ) -> None:
        """``refresh`` is called when it should be asked who leads now."""
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._sequences = sequences
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
        if batch.done:  # its delivery time was over before the answer came
            return
        if part.error_code == 0:
            self._looks = None
            if self._config.receipts:
                batch.receipt = Receipt(part.leader, part.leader_epoch, part.isr, part.high_watermark)
            self.finish(batch, None, part.base_offset, part.append_time_ms)
        else:
            self._refused(batch, part)

    def _refused(self, batch: ProducerBatch, part: ProducePartResult) -> None:
        where = batch.where
        error = part.error(topic=where.topic, partition=where.partition)
        if isinstance(error, DuplicateSequenceNumber):
            self.finish(batch)  # it was stored, so long ago that the broker does not know where
        elif isinstance(error, MessageTooLarge) and len(batch) > 1 and not self.closed:
            Sequences.number_halves(batch, self._accumulator.split(batch))
        elif isinstance(error, UNNUMBERED) and self._sequences is not None and not self.closed:
            if not self._accumulator.has_older(batch):
                self._sequences.renumber(batch)
            self._try_again(batch, error, refresh=False)
        elif not error.retriable or self.closed:
            self.finish(batch, error)
        else:
            news = part.leader != NO_LEADER and self._cluster.learn_leader(
                where, part.leader, part.leader_epoch, part.topic_id
            )
            self._try_again(batch, error, refresh=error.refresh_metadata and not news)

    def lost(self, batches: list[ProducerBatch], error: OttlaError) -> None:
        """The request's fate is unknown: try all of it again."""
        for batch in batches:
            if batch.done:
                continue
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
        backoff_ms = min(self._config.retry_backoff_ms * 2**batch.attempts, self._config.retry_backoff_max_ms)
        batch.attempts += 1
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
            self.too_late(batch, "its leader could not be reached" if known else "the topic does not exist")

    def too_late(self, batch: ProducerBatch, why: str) -> None:
        """The delivery time of a batch is over."""
        where, limit_s = batch.where, self._config.delivery_timeout_ms / 1000
        text = f"not delivered to {where} within {limit_s:g} s: {why}; {self._cluster.tried()}"
        self.finish(batch, ClientTimeout(text, topic=where.topic, partition=where.partition))

    def finish(
        self, batch: ProducerBatch, error: OttlaError | None = None, base_offset: int = -1, append_time_ms: int = -1
    ) -> None:
        """A batch is done, for better or worse."""
        self._accumulator.release(batch)
        if error is not None and self._sequences is not None:
            self._sequences.given_up(batch)
        batch.finish(base_offset, append_time_ms, error)
        if self._room and not self._accumulator.full:
            self._tell_room()

    def _tell_room(self) -> None:
        room, self._room = self._room, []
        for waiter in room:
            if not waiter.done():
                waiter.set_result(None)
