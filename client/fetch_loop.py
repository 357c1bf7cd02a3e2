"""The tasks behind a consumer: one that knows what to read and where it is led, and one for each leader that fetches."""

import asyncio
import logging
import time
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.inbox import Inbox
from ottla.client.offsets import list_offsets
from ottla.client.subscription import UNKNOWN, Assigned, Subscription
from ottla.wire.errors import OffsetOutOfRange, OttlaError
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.wire.records import split_batches
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

PREPARE_TIMEOUT_S = 5.0
FETCH_SLACK_S = 5.0
"""How much longer than its max wait a fetch may take before the broker counts as gone."""


class FetchLoop:
    """Keeps the inbox filled with what the subscription asks for."""

    def __init__(self, config: ConsumerConfig, cluster: Cluster, subscription: Subscription, inbox: Inbox) -> None:
        self._config = config
        self._cluster = cluster
        self._subscription = subscription
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._positioned = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._fetchers: dict[int, asyncio.Task[None]] = {}
        self._wakers: dict[int, asyncio.Event] = {}
        self._refresh_wanted = False

    def start(self) -> None:
        self._main = self._loop.create_task(self._run())

    async def stop(self) -> None:
        tasks = [task for task in (self._main, *self._fetchers.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def poke(self) -> None:
        """Something that decides what to fetch has changed; on the event loop's thread."""
        self._changed.set()
        for waker in self._wakers.values():
            waker.set()

    async def positioned(self) -> None:
        """Wait until every assigned partition has a position."""
        while any(state.position == UNKNOWN for state in self._subscription.assigned.values()) or not self.ready:
            self._positioned.clear()
            await self._positioned.wait()

    ready = False
    """Whether reading has begun: topics, leaders and positions were known once."""

    # --- what to read --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        config = self._config
        while True:
            try:
                await self._prepare()
                self._inbox.trouble = None
                self.ready = True
                self._positioned.set()
                wait_s = config.metadata_max_age_ms / 1000
            except OttlaError as error:
                if not error.retriable:
                    self._inbox.fail(error)
                self._inbox.trouble = error
                wait_s = config.retry_backoff_max_ms / 1000 if self.ready else config.retry_backoff_ms / 1000
            self._keep_fetchers()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
                    self._changed.clear()
            except TimeoutError:
                self._refresh_wanted = True

    async def _prepare(self) -> None:
        """Learn the partitions of the topics, who leads them, and where to begin."""
        subscription = self._subscription
        if self._refresh_wanted or self._cluster.stale:
            self._cluster.watched.update(subscription.topics, (where.topic for where in subscription.assigned))
            await self._cluster.refresh()
            self._refresh_wanted = False
        if not subscription.by_hand:
            first_time = not self.ready
            places = []
            for topic in subscription.topics:
                metadata = await self._cluster.topic(topic, PREPARE_TIMEOUT_S)
                places += [TopicPartition(topic, partition.partition) for partition in metadata.partitions]
            new = subscription.assign(places)
            if (
                not first_time
            ):  # partitions that were added later are read from their beginning, or records would be missed
                await self._reset(new, EARLIEST)
        else:
            for topic in {where.topic for where in subscription.assigned}:
                await self._cluster.topic(topic, PREPARE_TIMEOUT_S)
        await self._reset(list(subscription.assigned.values()), self._reset_to())

    def _reset_to(self) -> int | None:
        return {"earliest": EARLIEST, "latest": LATEST, "none": None}[self._config.auto_offset_reset]

    async def _reset(self, states: list[Assigned], to: int | None) -> None:
        """Give those without a position one."""
        lost = {state.where: state for state in states if state.position == UNKNOWN}
        if not lost:
            return
        if to is None:
            where = next(iter(lost))
            raise OffsetOutOfRange(
                f"{where} has no position and auto_offset_reset is 'none'", topic=where.topic, partition=where.partition
            )
        generations = {where: state.generation for where, state in lost.items()}
        found = await list_offsets(self._cluster, dict.fromkeys(lost, to), PREPARE_TIMEOUT_S)
        for where, (offset, _) in found.items():
            if lost[where].generation == generations[where]:
                lost[where].seek(offset)

    # --- fetching ------------------------------------------------------------------------------------------------------

    def _keep_fetchers(self) -> None:
        """One task per leader; a task ends by itself when its broker leads nothing for us any more."""
        for where in self._subscription.assigned:
            leader = self._cluster.leader(where)
            if leader is not None and (leader not in self._fetchers or self._fetchers[leader].done()):
                self._wakers[leader] = asyncio.Event()
                self._fetchers[leader] = self._loop.create_task(self._fetch_from(leader))
        for waker in self._wakers.values():
            waker.set()

    async def _fetch_from(self, leader: int) -> None:
        waker = self._wakers[leader]
        while any(self._cluster.leader(where) == leader for where in self._subscription.assigned):
            waker.clear()
            states = self._due(leader)
            if not states:
                try:
                    async with asyncio.timeout(self._config.retry_backoff_max_ms / 1000):
                        await waker.wait()
                except TimeoutError:
                    pass
                continue
            try:
                await self._fetch(leader, states)
            except OttlaError as error:
                logger.info("a fetch failed broker=%d error=%s", leader, error)
                await asyncio.sleep(self._config.retry_backoff_ms / 1000)
                self._look_again()
            except Exception:
                logger.exception("the fetch loop failed broker=%d", leader)
                await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)

    def _due(self, leader: int) -> list[Assigned]:
        if not self._inbox.has_room:
            return []
        now = time.monotonic()
        return [
            state
            for state in self._subscription.assigned.values()
            if state.fetch_offset != UNKNOWN
            and not state.paused
            and state.not_before <= now
            and self._cluster.leader(state.where) == leader
        ]

    async def _fetch(self, leader: int, states: list[Assigned]) -> None:
        config = self._config
        parts = [
            FetchPart(state.where.topic, state.where.partition, state.fetch_offset, config.max_partition_fetch_bytes)
            for state in states
        ]
        asked = [(state, state.generation) for state in states]
        channel = await self._cluster.channel(leader)
        request = FetchRequest(config.fetch_max_wait_ms, config.fetch_min_bytes, config.fetch_max_bytes, parts)
        answer = await channel.request(request, config.fetch_max_wait_ms / 1000 + FETCH_SLACK_S)
        response = cast(FetchResponse, answer.message)
        for (state, generation), part, records in zip(asked, response.parts, answer.attachments, strict=True):
            if state.generation != generation:
                continue
            if part.error_code:
                self._part_failed(state, part)
            else:
                state.high_watermark = part.high_watermark
                self._received(state, records)
        # The next caller of this connection must not read these buffers: batches hold views of the answer's own memory.

    def _received(self, state: Assigned, records: memoryview) -> None:
        if not records:
            return
        batches = split_batches(records, verify=self._config.check_crcs)
        if batches:
            state.fetch_offset = batches[-1].next_offset
            self._inbox.put(state, state.generation, batches)

    def _part_failed(self, state: Assigned, part: FetchPartResult) -> None:
        error = part.error(topic=state.where.topic, partition=state.where.partition)
        if isinstance(error, OffsetOutOfRange) and self._config.auto_offset_reset != "none":
            logger.warning(
                "an offset is not in the log any more partition=%s offset=%d", state.where, state.fetch_offset
            )
            state.seek(UNKNOWN)
            self._changed.set()
        elif error.retriable:
            state.not_before = time.monotonic() + self._config.retry_backoff_ms / 1000
            if part.leader == NO_LEADER or not self._cluster.learn_leader(state.where, part.leader, part.leader_epoch):
                self._look_again()
            else:
                self._changed.set()
        else:
            state.seek(state.position)
            state.not_before = time.monotonic() + self._config.retry_backoff_max_ms / 1000
            self._inbox.fail(error)

    def _look_again(self) -> None:
        self._refresh_wanted = True
        self._changed.set()
