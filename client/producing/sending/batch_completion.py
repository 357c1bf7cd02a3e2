"""Carries out what is decided of a producer's batches: stored, tried again, or given up; and tells those who wait for them."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import ProducerBatch, SequenceLine
from ottla.client.producing.delivery import tell_each
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
from ottla.client.producing.undelivered import Untold
from ottla.client.records import Receipt
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    LeaderNotAvailable,
    NetworkException,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    OttlaError,
    RemoteProtocolError,
    UnknownTopicOrPartition,
)
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.wire.requests import ProducePartResult, ProduceResponse

TOO_FEW = (NotEnoughReplicas, NotEnoughReplicasAfterAppend)
"""What a leader refuses for as long as too few replicas are in sync: told as it is, however long it was tried."""

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
        self._last_errors: dict[TopicPartition, OttlaError] = {}
        """Why a partition's batches had to be sent again, until one is stored: others may wait behind them."""
        self.untold = Untold(self._loop)
        self.failed_records = 0
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
            if self._last_errors:
                self._last_errors.pop(batch.where, None)
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
            self.too_late(batch, verdict.error)
        elif isinstance(verdict, GiveUp):
            self.finish(batch, verdict.error)

    def _put_back(self, batch: ProducerBatch, verdict: Retry) -> None:
        backoff_ms = min(self._config.retry_backoff_ms * 2**batch.attempts, self._config.retry_backoff_max_ms)
        batch.attempts += 1
        batch.last_error = self._last_errors[batch.where] = verdict.error
        batch.may_be_stored = verdict.may_be_stored
        batch.not_before = time.monotonic() + backoff_ms / 1000
        self._accumulator.put_back(batch)

    def _retire(self, line: SequenceLine, because: ProducerBatch, verdict: RetireLine) -> None:
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
            self.too_late(batch, batch.last_error or self._last_errors.get(batch.where) or self._unreached(batch.where))

    def _unreached(self, where: TopicPartition) -> OttlaError:
        """Why a batch was never even sent."""
        if where.topic not in self._cluster.topics:
            return UnknownTopicOrPartition("the topic does not exist")
        if self._cluster.leader(where) is None:
            return LeaderNotAvailable(f"{where} has no leader")
        return NetworkException("its leader could not be reached")

    def with_last_error(self, text: str) -> str:
        """A sentence on what took too long, with what went wrong last."""
        last = next(reversed(self._last_errors.values()), None)
        return self._cluster.with_tried(text if last is None else f"{text}: {last}")

    def too_late(self, batch: ProducerBatch, why: OttlaError) -> None:
        """The delivery time of a batch is over; ``why`` is what kept it from being delivered in time."""
        where, limit_s = batch.where, self._config.delivery_timeout_ms / 1000
        text = f"not delivered to {where} within {limit_s:g} s: {why}"
        if isinstance(why, TOO_FEW):  # nothing is wrong with whom we asked, and waiting longer is not the remedy
            kind: type[OttlaError] = type(why)
        else:
            kind, text = ClientTimeout, self._cluster.with_tried(text)
        self.finish(batch, kind(text, topic=where.topic, partition=where.partition))

    def finish(
        self, batch: ProducerBatch, error: OttlaError | None = None, base_offset: int = -1, append_time_ms: int = -1
    ) -> None:
        """A batch is done, for better or worse."""
        Sequences.finished(batch, stored=error is None)
        on_delivery = self._config.on_delivery
        if error is not None:
            self.failed_records += len(batch)
            if on_delivery is None:
                batch.failed = self.untold.failed(batch.where.topic, len(batch), error)
        batch.finish(base_offset, append_time_ms, error)
        self._accumulator.release(batch)  # last: until then it is known whom to tell, should any of this fail
        if self._room and not self._accumulator.full:
            self._tell_room()
        if on_delivery is not None:
            tell_each(batch, on_delivery)

    def _tell_room(self) -> None:
        room, self._room = self._room, []
        for waiter in room:
            if not waiter.done():
                waiter.set_result(None)


def _number(batch: ProducerBatch) -> tuple[int, ...]:
    return batch.number
