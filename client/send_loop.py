"""The task behind a producer: takes batches from the accumulator, sends them to the partitions' leaders, hears the answers.

Everything here runs on the event loop. ``wake`` may be called from any thread. An open batch is taken only when its
leader's connection has room for one more request, so that batches grow by themselves under load even without linger.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine
from functools import partial
from typing import Any, cast

from ottla.client.batches import Accumulator, ProducerBatch
from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.net.channel import Answer, Channel
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    MessageTooLarge,
    NetworkException,
    OttlaError,
    UnknownServerError,
)
from ottla.wire.messages import ACKS_NONE
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.wire.requests import ProducePart, ProducePartResult, ProduceRequest, ProduceResponse

logger = logging.getLogger(__name__)

TICK_S = 0.1
"""How often batches that wait for a leader are looked at for their delivery time."""


class SendLoop:
    """Sends what the accumulator holds. ``on_room`` is called when bytes were freed."""

    def __init__(self, config: ProducerConfig, cluster: Cluster, accumulator: Accumulator) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._loop = asyncio.get_running_loop()
        self._linger_s = config.linger_ms / 1000
        self._woken = False
        self._flushing = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._in_flight: Counter[int] = Counter()
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._unfinished = 0
        self._room: list[asyncio.Future[None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self._closed = False

    # --- for the producer --------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to send; from any thread."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._pump)

    def wake_here(self) -> None:
        """As ``wake``, on the event loop's own thread, where it costs less."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._pump)

    async def wait_for_room(self) -> None:
        while self._accumulator.full and not self._closed:
            room = self._loop.create_future()
            self._room.append(room)
            self.wake_here()
            await room

    async def flush(self) -> None:
        """Send what there is without lingering, and wait until all of it is done."""
        self._flushing += 1
        try:
            while self._unfinished or self._accumulator.pending_bytes:
                idle = self._loop.create_future()
                self._idle.append(idle)
                self.wake_here()
                await idle
        finally:
            self._flushing -= 1

    def stop(self) -> None:
        """Fail what is still waiting."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        for batch in self._accumulator.expired(float("inf")):
            self._finish(batch, error=ClientClosed("the producer was closed before this record was sent"))

    # --- sending -----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send all that can be sent now."""
        self._woken = False
        if self._closed:
            return
        now = time.monotonic()  # not the loop's own clock, which uvloop moves by whole milliseconds
        blocked = False
        while True:
            chosen: dict[int, list[ProducerBatch]] = defaultdict(list)
            for where in self._accumulator.waiting():
                leader = self._leader_with_room(where)
                if leader is None:
                    blocked = True
                    continue
                batch = self._accumulator.take(where, now, 0 if self._flushing else self._linger_s)
                if batch is not None:
                    chosen[leader].append(batch)
            for leader, batches in chosen.items():
                self._send(leader, batches)
            if not chosen:
                break
        self._arm(now, blocked)

    def _leader_with_room(self, where: TopicPartition) -> int | None:
        """The leader of a partition if its connection stands and can take one more request."""
        leader = self._cluster.leader(where)
        if leader is None or self._cluster.stale:
            self._start(("refresh",), self._refresh())
            if leader is None:
                return None
        if self._in_flight[leader] >= self._config.max_in_flight_requests_per_connection:
            return None
        if self._cluster.open_channel(leader) is None:
            self._start(("connect", leader), self._connect(leader))
            return None
        return leader

    def _send(self, leader: int, batches: list[ProducerBatch]) -> None:
        """One request with a batch of each of several partitions, or more where the size demands it."""
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
        self._unfinished += len(batches)
        for batch in batches:
            try:
                attachments.append(batch.encode(self._config.codec))
                sent.append(batch)
            except OttlaError as error:
                self._fail(batch, error)
        if not sent:
            return
        parts = [ProducePart(b.where.topic, b.where.partition, len(a)) for b, a in zip(sent, attachments, strict=True)]
        request = ProduceRequest(self._config.required_acks, self._config.request_timeout_ms, parts)
        if channel is None or not channel.usable:
            self._lost(sent, NetworkException(f"broker {leader} is gone"))
        elif request.acks == ACKS_NONE:
            channel.send_unanswered(request, attachments)
            for batch in sent:
                self._succeed(batch, -1, -1)
        else:
            self._in_flight[leader] += 1
            answer = channel.send(request, attachments)
            # The broker itself gives up after request_timeout_ms; a little later we stop waiting for it.
            patience = self._loop.call_later(self._config.request_timeout_ms / 1000 + 1, self._gave_up, channel)
            answer.add_done_callback(partial(self._answered, leader, sent, patience))

    def _gave_up(self, channel: Channel) -> None:
        self._start(("close", channel), channel.close())

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answered(
        self, leader: int, batches: list[ProducerBatch], patience: asyncio.TimerHandle, answer: asyncio.Future[Answer]
    ) -> None:
        patience.cancel()
        self._in_flight[leader] -= 1
        if answer.cancelled():
            self._lost(batches, ClientClosed())
        elif (error := answer.exception()) is not None:
            self._lost(batches, error if isinstance(error, OttlaError) else UnknownServerError(str(error)))
        else:
            response = cast(ProduceResponse, answer.result().message)
            for batch, part in zip(batches, response.parts, strict=True):
                self._part_answered(batch, part)
        self._pump()

    def _part_answered(self, batch: ProducerBatch, part: ProducePartResult) -> None:
        if part.error_code == 0:
            self._succeed(batch, part.base_offset, part.append_time_ms)
            return
        where = batch.where
        error = part.error(topic=where.topic, partition=where.partition)
        if isinstance(error, MessageTooLarge) and len(batch) > 1:
            self._unfinished -= 1
            for half in batch.split():
                self._accumulator.put_back(half)
        elif not error.retriable or self._closed:
            self._fail(batch, error)
        else:
            news = part.leader != NO_LEADER and self._cluster.learn_leader(where, part.leader, part.leader_epoch)
            self._try_again(batch, error, refresh=error.refresh_metadata and not news)

    def _lost(self, batches: list[ProducerBatch], error: OttlaError) -> None:
        """The request's fate is unknown: try all of it again."""
        for batch in batches:
            if self._closed or not error.retriable:
                self._fail(batch, error)
            else:
                self._try_again(batch, error, refresh=True)

    def _try_again(self, batch: ProducerBatch, error: OttlaError, *, refresh: bool) -> None:
        now = time.monotonic()
        if now >= batch.deadline:
            why = f"not delivered to {batch.where} within {self._config.delivery_timeout_ms / 1000:g} s: {error}"
            self._fail(batch, ClientTimeout(why, topic=batch.where.topic))
            return
        self._unfinished -= 1
        batch.not_before = now + self._config.retry_backoff_ms / 1000
        self._accumulator.put_back(batch)
        if refresh:
            self._start(("refresh",), self._refresh())

    def _succeed(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        self._unfinished -= 1
        self._finish(batch, base_offset, append_time_ms)

    def _fail(self, batch: ProducerBatch, error: OttlaError) -> None:
        self._unfinished -= 1
        self._finish(batch, error=error)

    def _finish(
        self, batch: ProducerBatch, base_offset: int = -1, append_time_ms: int = -1, error: OttlaError | None = None
    ) -> None:
        self._accumulator.release(batch.size)
        batch.finish(base_offset, append_time_ms, error)
        if self._room and not self._accumulator.full:
            self._tell(self._room)
        if self._idle and not self._unfinished and not self._accumulator.pending_bytes:
            self._tell(self._idle)

    @staticmethod
    def _tell(waiters: list[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    # --- what takes time ---------------------------------------------------------------------------------------------

    def _arm(self, now: float, blocked: bool) -> None:
        """Come back when a linger or a retry's wait ends, or, while something has no leader, to look at its deadline."""
        due = self._accumulator.next_due(0 if self._flushing else self._linger_s)
        if due is None:
            return
        wait = max(due - now, 0.0) if due > now else TICK_S
        if blocked:
            wait = min(wait, TICK_S)
        at = now + wait
        if self._timer is not None and self._timer_at <= at and self._timer_at > now:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(wait, self._tick)

    def _tick(self) -> None:
        for batch in self._accumulator.expired(time.monotonic()):
            why = f"{batch.where} had no leader for {self._config.delivery_timeout_ms / 1000:g} s; {self._cluster.tried()}"
            self._finish(batch, error=ClientTimeout(why, topic=batch.where.topic))
        self._timer, self._timer_at = None, float("inf")
        self._pump()

    def _start(self, key: object, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the pump, one of a kind at a time; then pump again."""
        if key in self._tasks or self._closed:
            work.close()
            return
        task = self._tasks[key] = self._loop.create_task(work)

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.pop(key, None)
            if not task.cancelled() and task.exception() is not None and not isinstance(task.exception(), OttlaError):
                logger.error("the send loop failed", exc_info=task.exception())
            self.wake_here()

        task.add_done_callback(ended)

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except OttlaError:
            await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)
        else:
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)

    async def _connect(self, leader: int) -> None:
        try:
            await self._cluster.channel(leader)
        except OttlaError:
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            await self._refresh()
