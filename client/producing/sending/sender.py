"""What a producer's event loop does at once: takes batches from the accumulator, sends them to the leaders, takes the answers.

Nothing here waits; what takes a while is left to send_loop.py. All of it is compiled. An open batch is taken only
when its leader's connection has room for one more request, so that batches grow by themselves under load even without linger.
"""

import asyncio
import logging
import time
from collections import defaultdict
from functools import partial

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import ProducerBatch
from ottla.client.producing.sending.batch_completion import BatchCompletion
from ottla.client.producing.sending.in_flight_requests import InFlightRequests, SentRequest
from ottla.client.producing.sending.leaders import Background, Leaders
from ottla.client.producing.sending.sequences import Sequences
from ottla.net.channel import Channel
from ottla.net.exchange import Answer
from ottla.wire.batch import MAGIC_COLUMNS, MAGIC_KAFKA
from ottla.wire.errors import InvalidRecord, LocalProtocolError, NetworkException, OttlaError
from ottla.wire.messages import ACKS_NONE
from ottla.wire.names import RECORD_FORMAT, RECORD_FORMAT_KAFKA, TopicPartition
from ottla.wire.requests import ProducePart, ProduceRequest

logger = logging.getLogger(__name__)

TICK_S = 0.1
"""How often batches that wait for a leader are looked at for their delivery time."""

GRACE_S = 1.0
"""The broker itself gives up after request_timeout_ms; so much later we stop waiting for it."""

BATCHES_PER_REQUEST = 10
"""Batches of one partition that travel together when so many wait: most of a request's cost is its own, not theirs. With five
requests in flight there are no more of them than brokers remember of a producer."""


PARTS_MAX = 10_000
"""Batches in one request, over all partitions: what brokers take."""


class Sender:
    """Sends what the accumulator holds, and takes the answers; what follows from them is batch_completion.py's."""

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: Accumulator,
        sequences: Sequences | None,
        background: Background,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._sequences = sequences
        self._background = background
        self._loop = asyncio.get_running_loop()
        self._acks = config.required_acks
        self._codec = config.codec
        self._linger_s = config.linger_ms / 1000
        self._request_timeout_s = config.request_timeout_ms / 1000 + GRACE_S
        self._woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._in_flight = InFlightRequests(self._loop, self._overdue)
        # Without numbers this alone keeps the order: one batch of a partition at a time, whatever becomes of it.
        self._one_by_one = sequences is None and config.max_in_flight_requests_per_connection == 1
        self._leaders = Leaders(config, cluster, self._in_flight, background)
        self.completion = BatchCompletion(config, cluster, accumulator, background.refresh_metadata)
        self.flushing = 0
        """How many wait for everything to be sent: then nothing lingers."""

    def wake(self) -> None:
        """There is something to send; from any thread."""
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._pump)
            except BaseException:
                self._woken = False
                raise

    def wake_here(self) -> None:
        """As ``wake``, on the event loop's own thread. With nothing on its way, what there is goes at once."""
        if self._woken:
            return
        if self._in_flight or self._linger_s:
            self._loop.call_soon(self._pump)
            self._woken = True
        else:
            self._pump()

    def stop(self) -> None:
        """Fail what is still waiting. What is in flight fails when its connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._in_flight.stop()
        try:
            self.completion.close()
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Something failed in the middle of a step: nobody may wait for ever for what the step had in its hands."""
        in_flight = {batch for sent in self._in_flight.all() for batch in sent.batches}
        why = (
            error if isinstance(error, OttlaError) else LocalProtocolError(f"the records could not be sent: {error!r}")
        )
        for batch in self._accumulator.unaccounted(in_flight):
            if batch.done:
                self._accumulator.release(batch)
                continue
            try:
                self.completion.finish(batch, why)
            except BaseException as another:
                error = another
                self._accumulator.release(batch)
        self._accumulator.finish_halved()
        if self._sequences is not None:
            self._sequences.mend(set(self._accumulator.unfinished()))
        if not self.completion.closed:
            self._loop.call_later(TICK_S, self._tick)
        if isinstance(error, Exception):
            logger.error("a step of the send loop failed", exc_info=error)
        else:
            self._loop.call_soon(_raise, error)  # it ends the event loop, but not in the middle of our work

    # --- sending -----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send all that can be sent now."""
        self._woken = False
        try:
            if not self.completion.closed and not self._accumulator.empty:
                self._send_all()
        except BaseException as error:
            self._failed(error)

    def _send_all(self) -> None:
        now = time.monotonic()  # not the loop's own clock, which uvloop moves by whole milliseconds
        if self._cluster.stale:
            self._background.refresh_metadata()
        linger_s = 0 if self.flushing else self._linger_s
        most = 1 if self._one_by_one else BATCHES_PER_REQUEST
        blocked = False
        while True:
            chosen: dict[int, list[ProducerBatch]] = defaultdict(list)
            on_their_way = self._on_their_way() if self._one_by_one else set()
            for where in self._accumulator.waiting():
                leader = self._leaders.with_room(where)
                if (
                    leader is None
                    or where in on_their_way
                    or (self._sequences is not None and not self._sequences.may_go_to(leader, where))
                ):
                    blocked = True
                    continue
                held = self._sequences is not None and not self._sequences.may_number(where)
                batches = self._accumulator.take(where, now, linger_s, most, numbered=held)
                if batches:
                    chosen[leader] += batches
            for leader, batches in chosen.items():
                self._send(leader, batches)
            if not chosen or self._accumulator.empty:
                break
        if self._sequences is not None and not self._sequences.ready:
            self._background.init_producer_id()
            blocked = True
        if not self._accumulator.empty:
            self._arm(now, blocked)

    def _on_their_way(self) -> set[TopicPartition]:
        return {batch.where for sent in self._in_flight.all() for batch in sent.batches}

    def _send(self, leader: int, batches: list[ProducerBatch]) -> None:
        """One request with batches of several partitions, or more where the size demands it."""
        channel = self._cluster.open_channel(leader)
        group: list[ProducerBatch] = []
        size = 0
        went_back: set[TopicPartition] = set()
        for batch in batches:
            if len(group) == PARTS_MAX or (group and size + batch.size > self._config.max_request_size):
                self._send_request(leader, channel, group, went_back)
                group, size = [], 0
            group.append(batch)
            size += batch.size
        self._send_request(leader, channel, group, went_back)

    def _encode(self, batch: ProducerBatch, went_back: set[TopicPartition]) -> bytearray | None:
        """The bytes of a batch; None if it is not sent now. Then none behind it in its partition is either."""
        numbered = batch.line is not None
        if batch.where in went_back or (self._sequences is not None and not self._sequences.number(batch)):
            went_back.add(batch.where)
            self._accumulator.put_back(batch)
            return None
        try:
            return batch.encode(self._codec, self._magic_for(batch.where.topic))
        except Exception as error:
            if not numbered:
                Sequences.take_back(batch)
            self._unsendable(batch, error, went_back)
            return None

    def _magic_for(self, topic: str) -> int:
        """The format that the topic's readers like best, as far as its settings are known here."""
        known = self._cluster.topics.get(topic)
        if known is not None and known.config.get(RECORD_FORMAT) == RECORD_FORMAT_KAFKA:
            return MAGIC_KAFKA
        return MAGIC_COLUMNS

    def _unsendable(self, batch: ProducerBatch, error: Exception, went_back: set[TopicPartition]) -> None:
        """A batch cannot be encoded: find the record that is to blame by halves, and fail that one alone."""
        known = error if isinstance(error, OttlaError) else InvalidRecord(f"the record cannot be encoded: {error!r}")
        if len(batch) > 1:
            self.completion.split(batch, known)
            went_back.add(batch.where)
            return
        if known is not error:
            logger.error("a record cannot be encoded partition=%s", batch.where, exc_info=error)
        self.completion.finish(batch, known)

    def _send_request(
        self, leader: int, channel: Channel | None, batches: list[ProducerBatch], went_back: set[TopicPartition]
    ) -> None:
        attachments: list[bytearray] = []
        sent: list[ProducerBatch] = []
        for batch in batches:
            encoded = self._encode(batch, went_back)
            if encoded is not None:
                attachments.append(encoded)
                sent.append(batch)
        if not sent:
            return
        parts = [ProducePart(b.where.topic, b.where.partition, len(a)) for b, a in zip(sent, attachments, strict=True)]
        request = ProduceRequest(self._acks, self._config.request_timeout_ms, parts, self._config.receipts)
        if channel is None or not channel.usable:
            self.completion.lost(sent, NetworkException(f"broker {leader} is gone"), was_sent=False)
        elif request.acks == ACKS_NONE:
            channel.send_unanswered(request, attachments)
            for batch in sent:
                self.completion.finish(batch)
            # No answer says that the broker keeps up: go on when the socket took the bytes.
            self._background.drain(channel, partial(self._drained, leader))
            self._in_flight.requests[leader] += 1
        else:
            self._call(
                channel,
                SentRequest(leader, channel, sent, time.monotonic(), self._request_timeout_s),
                request,
                attachments,
            )

    def _call(
        self, channel: Channel, in_flight: SentRequest, request: ProduceRequest, attachments: list[bytearray]
    ) -> None:
        try:
            self._in_flight.add(in_flight)
            for batch in in_flight.batches:
                Sequences.add_in_flight(batch, in_flight.leader)
            channel.call(request, partial(self._answered, in_flight), attachments)
        except BaseException:
            self._in_flight.remove(in_flight)
            for batch in in_flight.batches:
                Sequences.remove_in_flight(batch)
            raise

    # --- waiting for answers -----------------------------------------------------------------------------------------

    def _overdue(self, sent: SentRequest, now: float) -> None:
        """No answer yet: fail the batches whose delivery time is over, hang up when the request's is."""
        try:
            for batch in sent.batches:
                if not batch.done and batch.deadline <= now:
                    self.completion.too_late(batch, NetworkException(f"{sent.channel.address} did not answer"))
                    self.wake_here()  # others may have waited for its fate
            if now >= sent.until:
                self._background.disconnect(sent.channel)
            else:
                self._cluster.suspect(sent.channel.address)
                self._background.refresh_metadata()
        except BaseException as error:
            self._failed(error)

    def disconnect_replaced(self) -> None:
        """It was told who leads: wait no more for brokers that do not lead what they were sent. They may be paused for ever."""
        self._leaders.confirmed()
        for sent in self._in_flight.all():
            leaders = {self._cluster.leader(batch.where) for batch in sent.batches if not batch.done}
            if not leaders <= {None, sent.leader}:
                self._background.disconnect(sent.channel)

    def _drained(self, leader: int) -> None:
        self._in_flight.requests[leader] -= 1

    def _answered(self, sent: SentRequest, answer: Answer | OttlaError) -> None:
        try:
            if self._in_flight.remove(sent):
                self.completion.answered(sent, answer)
            self._pump()
        except BaseException as error:
            self._in_flight.remove(sent)
            for batch in sent.batches:
                Sequences.remove_in_flight(batch)
            self._failed(error)

    # --- coming back -------------------------------------------------------------------------------------------------

    def _arm(self, now: float, blocked: bool) -> None:
        """Come back when a linger or a retry's wait ends, or, while something has no leader, to look at its deadline."""
        due = self._accumulator.next_due(0 if self.flushing else self._linger_s)
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
        self._timer, self._timer_at = None, float("inf")
        try:
            self.completion.give_up_expired()
            self._pump()
        except BaseException as error:
            self._failed(error)


def _raise(error: BaseException) -> None:
    raise error
