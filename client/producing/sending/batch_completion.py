"""Carries out what is decided of a producer's batches: stored, tried again, or given up; and tells those who wait for them."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import Line, ProducerBatch
from ottla.client.producing.sending.delivery_decision import (
    STORED,
    GiveUp,
    RetireLine,
    Retry,
    Split,
    TimedOut,
    Verdict,
    after_answer,
    after_loss,
    in_halves,
    in_retired_line,
)
from ottla.client.producing.sending.in_flight_requests import SentRequest
from ottla.client.producing.sending.sequences import Sequences
from ottla.client.records import Receipt
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import ClientClosed, ClientTimeout, OttlaError, RemoteProtocolError
from ottla.wire.names import NO_LEADER
from ottla.wire.requests import ProducePartResult, ProduceResponse

FIRST_REFRESH_S = 0.01
"""How soon to ask again who leads, the first time; a new leader is mostly found within a tenth of a second."""


class BatchCompletion:
    """Sees to it that every batch is done in the end, and tells those who wait for it, or for the room that it took."""

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
        self._refresh_waits: Iterator[float] | None = None
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
            now = time.monotonic()
            for batch, part in zip(sent.batches, parts, strict=True):
                self._part_answered(batch, part, now)
        else:
            why = f"{sent.channel.address} answered {len(parts)} parts of {len(sent.batches)}"
            self.lost(sent.batches, RemoteProtocolError(why))

    def _part_answered(self, batch: ProducerBatch, part: ProducePartResult, now: float) -> None:
        Sequences.remove_in_flight(batch)
        if batch.done:  # its delivery time was over before the answer came
            return
        verdict = after_answer(batch, part, self.closed, now)
        if verdict is STORED:
            self._refresh_waits = None
            if self._config.receipts:
                batch.receipt = Receipt(part.leader, part.leader_epoch, part.isr, part.high_watermark)
            self.finish(batch, None, part.base_offset, part.append_time_ms)
        else:
            # Whatever becomes of this batch: others go to whom the broker named instead of itself, if it did.
            news = part.leader != NO_LEADER and self._cluster.learn_leader(
                batch.where, part.leader, part.leader_epoch, part.topic_id
            )
            self._carry_out(batch, verdict, leader_is_news=news)

    def lost(self, batches: list[ProducerBatch], error: OttlaError, *, was_sent: bool = True) -> None:
        """The request's fate is unknown, unless it was never sent: try all of it again."""
        hung_up, now = self._cluster.only_hung_up(error), time.monotonic()
        for batch in batches:
            Sequences.remove_in_flight(batch)
            if not batch.done:
                self._carry_out(batch, after_loss(batch, error, was_sent, hung_up, self.closed, now))

    def split(self, batch: ProducerBatch, error: OttlaError) -> None:
        """Send a batch in two halves instead, because of ``error``."""
        self._carry_out(batch, in_halves(batch, error))

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def _carry_out(self, batch: ProducerBatch, verdict: Verdict, *, leader_is_news: bool = False) -> None:
        if isinstance(verdict, RetireLine):
            if batch.line is not None:
                self._retire(batch.line, batch, verdict)
            verdict = verdict.then
        if isinstance(verdict, Retry):
            if verdict.new_numbers:
                Sequences.leave(batch)
            self._put_back(batch, verdict)
            if verdict.refresh and not leader_is_news:
                self._refresh()
        elif isinstance(verdict, Split):
            if verdict.new_numbers:
                Sequences.leave(batch)
            self._accumulator.split(batch)
        elif isinstance(verdict, TimedOut):
            self.too_late(batch, str(verdict.error))
        elif isinstance(verdict, GiveUp):
            self.finish(batch, verdict.error)

    def _put_back(self, batch: ProducerBatch, verdict: Retry) -> None:
        backoff_ms = min(self._config.retry_backoff_ms * 2**batch.attempts, self._config.retry_backoff_max_ms)
        batch.attempts += 1
        batch.last_error = verdict.error
        batch.may_be_stored = verdict.may_be_stored
        batch.not_before = time.monotonic() + backoff_ms / 1000
        self._accumulator.put_back(batch)

    def _retire(self, line: Line, because: ProducerBatch, verdict: RetireLine) -> None:
        """Whatever waits with numbers of a line that the broker takes no more loses them, or fails."""
        line.spent = line.spent or verdict.new_producer_id
        line.broken = line.dead = True
        for batch in sorted(line.unfinished, key=_number):
            if batch.in_flight or batch is because:
                continue
            failed = in_retired_line(batch, verdict.error)
            if failed is None:
                Sequences.leave(batch)
            else:
                self.finish(batch, failed.error)
                self._accumulator.take_out(batch)

    def next_refresh_s(self) -> float:
        """How long to wait before asking again who leads: longer every time, until something is stored."""
        self._refresh_waits = self._refresh_waits or backoff(FIRST_REFRESH_S, self._config.retry_backoff_ms / 1000)
        return next(self._refresh_waits)

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


def _number(batch: ProducerBatch) -> tuple[int, ...]:
    return batch.number
