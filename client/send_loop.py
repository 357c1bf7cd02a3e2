"""The task behind a producer: takes batches from the accumulator, sends them to the partitions' leaders, hears the answers.

Everything here runs on the event loop. ``wake`` may be called from any thread. An open batch is taken only when its
leader's connection has room for one more request, so that batches grow by themselves under load even without linger.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import cast

from ottla.client.accumulator import Accumulator
from ottla.client.batches import ProducerBatch
from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.errands_loop import Errands
from ottla.client.records import Receipt
from ottla.client.sent_request import SentRequest, Travelling
from ottla.client.sequences import Sequences
from ottla.net.channel import Answer, Channel
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidRecord,
    MessageTooLarge,
    NetworkException,
    OttlaError,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    UnknownProducerId,
)
from ottla.wire.messages import ACKS_NONE
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.wire.requests import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePart,
    ProducePartResult,
    ProduceRequest,
    ProduceResponse,
)

logger = logging.getLogger(__name__)

TICK_S = 0.1
"""How often batches that wait for a leader are looked at for their delivery time."""

GRACE_S = 1.0
"""The broker itself gives up after request_timeout_ms; so much later we stop waiting for it."""


BATCHES_PER_REQUEST = 5
"""Batches of one partition that travel together when so many wait: most of a request's cost is its own, not theirs. With five
requests in flight there are no more of them than brokers remember of a producer."""

FIRST_LOOK_S = 0.01
"""How soon to ask again who leads, the first time; a new leader is mostly found within a tenth of a second."""

UNNUMBERED = (OutOfOrderSequenceNumber, InvalidProducerEpoch, UnknownProducerId)
"""The broker does not have the batch and does not take it under its numbers."""


class SendLoop:
    """Sends what the accumulator holds, and tells the batches what became of them."""

    def __init__(self, config: ProducerConfig, cluster: Cluster, accumulator: Accumulator) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._loop = asyncio.get_running_loop()
        self._acks = config.required_acks
        self._codec = config.codec
        self._linger_s = config.linger_ms / 1000
        self._request_timeout_s = config.request_timeout_ms / 1000 + GRACE_S
        self._woken = False
        self._flushing = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._errands = Errands(self.wake_here)
        self._travelling = Travelling(self._loop, self._overdue)
        self._looks: Iterator[float] | None = None
        self._room: list[asyncio.Future[None]] = []
        self._sequences = Sequences() if config.idempotent else None
        self._closed = False

    # --- for the producer --------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to send; from any thread."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._pump)

    def wake_here(self) -> None:
        """As ``wake``, on the event loop's own thread. With nothing on its way, what there is goes at once."""
        if self._woken:
            return
        self._woken = True
        if self._travelling or self._linger_s:
            self._loop.call_soon(self._pump)
        else:
            self._pump()

    async def wait_for_room(self) -> None:
        while self._accumulator.full and not self._closed:
            room = self._loop.create_future()
            self._room.append(room)
            self.wake_here()
            await room

    async def flush(self) -> None:
        """Send what there is now without lingering, and wait until all of it is done; what is added later may wait."""
        self._flushing += 1
        self.wake_here()
        try:
            for batch in self._accumulator.unfinished():
                if not batch.done:
                    done: asyncio.Future[None] = self._loop.create_future()
                    batch.when_done(partial(_settle, done))
                    await done
        finally:
            self._flushing -= 1

    def stop(self) -> None:
        """Fail what is still waiting. What travels fails when its connection is closed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._travelling.stop()
        self._errands.stop()
        closed = ClientClosed("the producer was closed before this record was sent")
        for batch in self._accumulator.close(ClientClosed("the producer is closed")):
            self._finish(batch, error=closed)
        self._tell_room()

    # --- sending -----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send all that can be sent now."""
        self._woken = False
        if self._closed or self._accumulator.empty:
            return
        now = time.monotonic()  # not the loop's own clock, which uvloop moves by whole milliseconds
        if self._cluster.stale:
            self._errands.run("refresh", self._refresh)
        linger_s = 0 if self._flushing else self._linger_s
        blocked = self._sequences is not None and not self._sequences.ready and bool(self._accumulator.waiting())
        if blocked:
            self._errands.run("producer id", self._init_producer_id)
        while not blocked:
            chosen: dict[int, list[ProducerBatch]] = defaultdict(list)
            for where in self._accumulator.waiting():
                leader = self._leader_with_room(where)
                if leader is None:
                    blocked = True
                    continue
                batches = self._accumulator.take(where, now, linger_s, BATCHES_PER_REQUEST)
                if batches:
                    chosen[leader] += batches
            for leader, batches in chosen.items():
                self._send(leader, batches)
            if not chosen or self._accumulator.empty:
                break
        if not self._accumulator.empty:
            self._arm(now, blocked)

    def _leader_with_room(self, where: TopicPartition) -> int | None:
        """The leader of a partition if its connection stands and can take one more request."""
        leader = self._cluster.leader(where)
        if leader is None:
            self._errands.run("refresh", self._refresh)
            return None
        if self._travelling.requests[leader] >= self._config.max_in_flight_requests_per_connection:
            return None
        if self._cluster.open_channel(leader) is None:
            self._errands.run(("connect", leader), partial(self._connect, leader))
            return None
        return leader

    def _send(self, leader: int, batches: list[ProducerBatch]) -> None:
        """One request with batches of several partitions, or more where the size demands it."""
        channel = self._cluster.open_channel(leader)
        group: list[ProducerBatch] = []
        size = 0
        for batch in batches:
            if group and size + batch.size > self._config.max_request_size:
                self._send_request(leader, channel, group)
                group, size = [], 0
            group.append(batch)
            size += batch.size
        self._send_request(leader, channel, group)

    def _send_request(self, leader: int, channel: Channel | None, batches: list[ProducerBatch]) -> None:
        attachments: list[bytearray] = []
        sent: list[ProducerBatch] = []
        for batch in batches:
            if self._sequences is not None:
                self._sequences.number(batch)
            try:
                attachments.append(batch.encode(self._codec))
                sent.append(batch)
            except OttlaError as error:
                self._finish(batch, error=error)
            except Exception as error:  # whatever it is, nobody may wait for this batch for ever
                logger.exception("a batch could not be encoded partition=%s", batch.where)
                self._finish(batch, error=InvalidRecord(f"the batch could not be encoded: {error!r}"))
        if not sent:
            return
        parts = [ProducePart(b.where.topic, b.where.partition, len(a)) for b, a in zip(sent, attachments, strict=True)]
        request = ProduceRequest(self._acks, self._config.request_timeout_ms, parts, self._config.receipts)
        if channel is None or not channel.usable:
            self._lost(sent, NetworkException(f"broker {leader} is gone"))
        elif request.acks == ACKS_NONE:
            channel.send_unanswered(request, attachments)
            for batch in sent:
                self._finish(batch)
            # No answer says that the broker keeps up: go on when the socket took the bytes.
            self._travelling.requests[leader] += 1
            self._errands.run(("drain", leader, object()), partial(self._drain, leader, channel))
        else:
            travelling = SentRequest(leader, channel, sent, time.monotonic(), self._request_timeout_s)
            self._travelling.add(travelling)
            channel.call(request, partial(self._answered, travelling), attachments)

    # --- waiting for answers -----------------------------------------------------------------------------------------

    def _overdue(self, sent: SentRequest, now: float) -> None:
        """No answer yet: fail the batches whose delivery time is over, hang up when the request's is."""
        for batch in sent.batches:
            if not batch.done and batch.deadline <= now:
                self._finish(batch, error=self._too_late(batch, f"{sent.channel.address} did not answer"))
        if now >= sent.until:
            self._hang_up(sent)
        else:
            self._cluster.suspect(sent.channel.address)
            self._errands.run("refresh", self._refresh)

    def _leave_replaced(self) -> None:
        """Wait no more for brokers that do not lead any longer what they were sent: they may be paused for ever."""
        for sent in self._travelling.all():
            leaders = {self._cluster.leader(batch.where) for batch in sent.batches if not batch.done}
            if not leaders <= {None, sent.leader}:
                self._hang_up(sent)

    def _hang_up(self, sent: SentRequest) -> None:
        self._errands.run(("close", sent.channel), sent.channel.close)

    def _answered(self, sent: SentRequest, answer: Answer | OttlaError) -> None:
        self._travelling.remove(sent)
        if isinstance(answer, OttlaError):
            self._lost(sent.batches, answer)
        else:
            parts = cast(ProduceResponse, answer.message).parts
            if len(parts) == len(sent.batches):
                for batch, part in zip(sent.batches, parts, strict=True):
                    self._part_answered(batch, part)
            else:
                why = f"{sent.channel.address} answered {len(parts)} parts of {len(sent.batches)}"
                self._lost(sent.batches, RemoteProtocolError(why))
        self._pump()

    def _part_answered(self, batch: ProducerBatch, part: ProducePartResult) -> None:
        if batch.done:  # its delivery time was over before the answer came
            return
        if part.error_code == 0:
            self._looks = None
            if self._config.receipts:
                batch.receipt = Receipt(part.leader, part.leader_epoch, part.isr, part.high_watermark)
            self._finish(batch, part.base_offset, part.append_time_ms)
            return
        where = batch.where
        error = part.error(topic=where.topic, partition=where.partition)
        if isinstance(error, DuplicateSequenceNumber):
            self._finish(batch)  # it was stored, so long ago that the broker does not know where
        elif isinstance(error, MessageTooLarge) and len(batch) > 1 and not self._closed:
            Sequences.number_halves(batch, self._accumulator.split(batch))
        elif isinstance(error, UNNUMBERED) and self._sequences is not None and not self._closed:
            if not self._accumulator.has_older(batch):
                self._sequences.renumber(batch)
            self._try_again(batch, error, refresh=False)
        elif not error.retriable or self._closed:
            self._finish(batch, error=error)
        else:
            news = part.leader != NO_LEADER and self._cluster.learn_leader(where, part.leader, part.leader_epoch)
            self._try_again(batch, error, refresh=error.refresh_metadata and not news)

    def _lost(self, batches: list[ProducerBatch], error: OttlaError) -> None:
        """The request's fate is unknown: try all of it again."""
        for batch in batches:
            if batch.done:
                continue
            if self._closed or not (error.retriable or self._cluster.only_hung_up(error)):
                self._finish(batch, error=error)
            else:
                self._try_again(batch, error, refresh=True)

    def _try_again(self, batch: ProducerBatch, error: OttlaError, *, refresh: bool) -> None:
        now = time.monotonic()
        if now >= batch.deadline:
            self._finish(batch, error=self._too_late(batch, str(error)))
            return
        backoff_ms = min(self._config.retry_backoff_ms * 2**batch.attempts, self._config.retry_backoff_max_ms)
        batch.attempts += 1
        batch.not_before = now + backoff_ms / 1000
        self._accumulator.put_back(batch)
        if refresh:
            self._errands.run("refresh", self._refresh)

    def _too_late(self, batch: ProducerBatch, why: str) -> ClientTimeout:
        where, limit_s = batch.where, self._config.delivery_timeout_ms / 1000
        text = f"not delivered to {where} within {limit_s:g} s: {why}; {self._cluster.tried()}"
        return ClientTimeout(text, topic=where.topic, partition=where.partition)

    def _finish(
        self, batch: ProducerBatch, base_offset: int = -1, append_time_ms: int = -1, error: OttlaError | None = None
    ) -> None:
        self._accumulator.release(batch)
        if error is not None and self._sequences is not None:
            self._sequences.given_up(batch)
        batch.finish(base_offset, append_time_ms, error)
        if self._room and not self._accumulator.full:
            self._tell_room()

    def _tell_room(self) -> None:
        room, self._room = self._room, []
        for waiter in room:
            _settle(waiter)

    # --- what takes time ---------------------------------------------------------------------------------------------

    def _arm(self, now: float, blocked: bool) -> None:
        """Come back when a linger or a retry's wait ends, or, while something has no leader, to look at its deadline."""
        due = self._accumulator.next_due(0 if self._flushing else self._linger_s)
        if due is None:
            return
        wait = due - now if due > now else TICK_S
        if blocked:
            wait = min(wait, TICK_S)
        at = now + wait
        if self._timer is not None and now < self._timer_at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(wait, self._tick)

    def _tick(self) -> None:
        for batch in self._accumulator.expired(time.monotonic()):
            known = batch.where.topic in self._cluster.topics
            why = "its leader could not be reached" if known else "the topic does not exist"
            self._finish(batch, error=self._too_late(batch, why))
        self._timer, self._timer_at = None, float("inf")
        self._pump()

    async def _init_producer_id(self) -> None:
        assert self._sequences is not None
        try:
            answer = await self._cluster.ask_any(InitProducerIdRequest(), InitProducerIdResponse)
        except OttlaError:
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            raise
        self._sequences.begin(answer.producer_id, answer.producer_epoch)

    async def _refresh(self) -> None:
        known = {where: self._cluster.leader(where) for where in self._accumulator.waiting()}
        try:
            await self._cluster.refresh()
        except OttlaError:
            await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)
            return
        for where, leader in known.items():
            if self._cluster.leader(where) not in (None, leader):
                self._accumulator.hurry(where)  # a new leader: whatever waited for the old one may go now
        self._leave_replaced()
        self.wake_here()
        self._looks = self._looks or backoff(FIRST_LOOK_S, self._config.retry_backoff_ms / 1000)
        await asyncio.sleep(next(self._looks))

    async def _connect(self, leader: int) -> None:
        try:
            await self._cluster.channel(leader)
        except OttlaError:
            await self._refresh()  # which waits a little, too

    async def _drain(self, leader: int, channel: Channel) -> None:
        try:
            await channel.writable()
        finally:
            self._travelling.requests[leader] -= 1


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
