"""The tasks behind a consumer: one that knows what to read and where it is led, and one for each leader that fetches."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.connections import FETCH_LANE
from ottla.client.consuming.fetched import unpack
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.position_loop import PositionLoop
from ottla.client.consuming.subscription import UNKNOWN, Assigned, Subscription
from ottla.net.retry import backoff
from ottla.wire.errors import ClientTimeout, LeaderNotAvailable, OffsetOutOfRange, OttlaError, RemoteProtocolError
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import NO_LEADER
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

EMPTY_FETCH_S = 0.01
"""How long to wait before asking again where a broker that need not wait (fetch_max_wait_ms) had nothing."""

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
        self._attempted = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._fetchers: dict[int, asyncio.Task[None]] = {}
        self._wakers: dict[int, asyncio.Event] = {}
        reset_to = {"earliest": EARLIEST, "latest": LATEST, "none": None}[config.auto_offset_reset]
        self._positions = PositionLoop(cluster, reset_to, self._positions_found)
        self._refresh_wanted = False
        self._turn = 0
        self._metadata_version = -1  # the version of the metadata by which the fetchers were chosen

    @property
    def started(self) -> bool:
        return self._main is not None

    def start(self) -> None:
        """Begin, or look again at what to read."""
        if self._main is None:
            self._main = self._loop.create_task(self._run())
        self.poke()

    async def stop(self) -> None:
        await asyncio.gather(*self._cancel_all(), return_exceptions=True)

    def poke(self) -> None:
        """Something that decides what to fetch has changed; on the event loop's thread."""
        self._changed.set()
        for waker in self._wakers.values():
            waker.set()

    def abandon(self) -> None:
        """Nobody has the consumer any more: end, and close its connections. From any thread, and without waiting."""
        self.call_there(self._cancel)

    def call_there(self, callback: Callable[[], None]) -> None:
        """On the event loop, soon; from any thread."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            pass  # the event loop is closed, and with it all that ran there

    def _cancel(self) -> None:
        self._cancel_all()
        self._cluster.abort()

    def _cancel_all(self) -> list[asyncio.Task[None]]:
        tasks = [task for task in (self._main, *self._fetchers.values()) if task is not None]
        for task in tasks:
            task.cancel()
        return tasks + self._positions.cancel()

    async def prepared(self, enough: Callable[[], bool]) -> None:
        """Wait until ``enough()`` is known of what is read; raises what makes waiting useless."""
        while not enough():
            if self._inbox.trouble is not None and not self._inbox.trouble.retriable:
                raise self._inbox.trouble
            self._attempted.clear()
            await self._attempted.wait()

    # --- what to read --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        waits = self._new_backoff()
        while True:
            self._changed.clear()
            try:
                if await self._prepare():
                    self._inbox.trouble = None
                    waits = self._new_backoff()
                wait_s = self._config.metadata_max_age_ms / 1000
            except OttlaError as error:
                self._held_up(error)
                wait_s = next(waits)
            except Exception:
                logger.exception("the fetch loop failed")
                wait_s = next(waits)
            self._attempted.set()
            self._keep_fetchers()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                self._refresh_wanted = True

    def _new_backoff(self) -> Iterator[float]:
        return backoff(self._config.retry_backoff_ms / 1000, self._config.retry_backoff_max_ms / 1000)

    def _held_up(self, error: OttlaError) -> None:
        if str(error) != str(self._inbox.trouble):
            logger.warning("something cannot be read error=%s", error)
        self._inbox.trouble = error
        if not error.retriable:
            self._inbox.on_data()

    async def _prepare(self) -> bool:
        """Learn the partitions of the topics, who leads them, and where to begin; whether all of that is known."""
        subscription, cluster = self._subscription, self._cluster
        topics = subscription.wanted_topics()
        cluster.watched.update(topics)
        if self._refresh_wanted or cluster.stale or any(topic not in cluster.topics for topic in topics):
            self._refresh_wanted = False
            try:
                await cluster.refresh()
            except OttlaError:
                self._refresh_wanted = True
                raise
        seen = {name: (topic.topic_id, len(topic.partitions)) for name, topic in cluster.topics.items()}
        if subscription.by_hand:
            subscription.recreated(seen)
            missing = [topic for topic in topics if topic not in cluster.topics]
        else:
            missing = subscription.topics_seen(seen)
        nowhere = [state for state in subscription.assigned.values() if state.fetch_offset == UNKNOWN]
        positioned = await self._position(nowhere)
        for topic in missing:
            cluster.raise_if_missing(topic)
        for where in subscription.assigned:
            if cluster.leader(where) is None:  # a broker that has just come back may not know of the leader yet
                self._refresh_wanted = True
                text = f"{where} has no leader that is known"
                raise LeaderNotAvailable(text, topic=where.topic, partition=where.partition)
        return positioned

    async def _position(self, states: list[Assigned]) -> bool:
        """Have positions asked for; whether all that can be had are there. A silent leader keeps nobody else waiting."""
        self._positions.ask([state for state in states if self._positions.can_ask(state)])
        await self._positions.wait(self._changed)
        try:
            self._positions.raise_failure()
        except OttlaError:
            self._refresh_wanted = True
            raise
        for state in states:
            if not self._positions.can_ask(state) and state.fetch_offset == UNKNOWN:
                text = f"{state.where} has no position and auto_offset_reset is 'none'"
                raise OffsetOutOfRange(text, topic=state.where.topic, partition=state.where.partition)
        if any(state.fetch_offset == UNKNOWN for state in self._subscription.assigned.values()):
            self._changed.set()  # it came to be while its leader was asked something else: go round once more
            return False
        return True

    def _positions_found(self) -> None:
        self._attempted.set()
        self._keep_fetchers()

    # --- fetching ------------------------------------------------------------------------------------------------------

    def _keep_fetchers(self) -> None:
        """One task per leader; a task ends by itself when its broker leads nothing for us any more."""
        self._metadata_version = self._cluster.version
        for where in self._subscription.assigned:
            leader = self._cluster.leader(where)
            if leader is not None and (leader not in self._fetchers or self._fetchers[leader].done()):
                self._wakers[leader] = asyncio.Event()
                self._fetchers[leader] = self._loop.create_task(self._fetch_from(leader))
        for waker in self._wakers.values():
            waker.set()

    async def _fetch_from(self, leader: int) -> None:
        waker = self._wakers[leader]
        waits = None
        while any(self._cluster.leader(where) == leader for where in self._subscription.assigned):
            if self._cluster.version != self._metadata_version:
                self._keep_fetchers()  # somebody else asked, and heard of other leaders
            waker.clear()
            states = self._due(leader)
            if not states:
                await self._wait(waker)
                continue
            try:
                something = await self._fetch(leader, states)
            except Exception as error:
                if not isinstance(error, OttlaError):
                    logger.exception("the fetch loop failed broker=%d", leader)
                elif waits is None:
                    logger.info("fetching is interrupted broker=%d error=%s", leader, error)
                waits = waits or self._new_backoff()
                self._look_again()
                await asyncio.sleep(next(waits))
            else:
                if waits is not None:
                    logger.info("fetching goes on broker=%d", leader)
                waits = None
                if not something and self._config.fetch_max_wait_ms / 1000 < EMPTY_FETCH_S:
                    await self._woken(waker, EMPTY_FETCH_S)
        self._changed.set()  # whoever leads now must be asked, and nobody else may look for that for minutes

    def _due(self, leader: int) -> list[Assigned]:
        """The partitions to fetch now, each time beginning with another: the first of a request is served best."""
        if not self._inbox.room:
            return []
        now = time.monotonic()
        due = [
            state
            for state in self._subscription.assigned.values()
            if state.fetch_offset != UNKNOWN
            and not state.paused
            and state.not_before <= now
            and self._cluster.leader(state.where) == leader
        ]
        self._turn += 1
        first = self._turn % len(due) if due else 0
        return due[first:] + due[:first]

    async def _wait(self, waker: asyncio.Event) -> None:
        """Until something changes, or the next partition's wait is over."""
        now = time.monotonic()
        waits = [state.not_before - now for state in self._subscription.assigned.values() if state.not_before > now]
        await self._woken(waker, min(waits, default=self._config.retry_backoff_max_ms / 1000))

    async def _woken(self, waker: asyncio.Event, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await waker.wait()
        except TimeoutError:
            pass

    async def _fetch(self, leader: int, states: list[Assigned]) -> bool:
        """Ask a leader once; whether it had anything to say."""
        config = self._config
        parts = [self._part(state) for state in states]
        asked = [(state, state.position_version, state.fetch_offset) for state in states]
        channel = await self._cluster.channel(leader, FETCH_LANE)
        most = min(config.fetch_max_bytes, self._inbox.room)
        request = FetchRequest(config.fetch_max_wait_ms, config.fetch_min_bytes, most, parts)
        try:
            answer = await channel.request(request, config.fetch_max_wait_ms / 1000 + FETCH_SLACK_S)
        except ClientTimeout:
            await channel.close()  # answers come in order: behind this one nothing else would come either
            raise
        results = cast(FetchResponse, answer.message).parts
        if len(results) != len(asked):
            raise RemoteProtocolError(f"{channel.address} answered {len(results)} parts of {len(asked)}")
        for (state, position_version, offset), part, records in zip(asked, results, answer.attachments, strict=True):
            # Invariant: an answer counts only for the position that was asked for. When the leader changes, fetches of one
            # partition may be under way to two brokers: the second answer would give again what the first one gave.
            if state.position_version != position_version or state.fetch_offset != offset:
                continue
            if part.error_code:
                self._part_failed(state, part)
            elif records:
                self._received(state, records)
            else:
                self._inbox.recovered(state)
        return any(part.error_code for part in results) or any(len(records) for records in answer.attachments)

    def _part(self, state: Assigned) -> FetchPart:
        """What to ask for. The epoch keeps a leader that was replaced from answering, the id a topic of the same name."""
        where, limit = state.where, self._config.max_partition_fetch_bytes
        epoch = self._cluster.leader_epoch(where)
        return FetchPart(where.topic, where.partition, state.fetch_offset, limit, epoch, topic_id=state.topic_id)

    def _received(self, state: Assigned, records: memoryview) -> None:
        batches, error = unpack(state.where, records, state.fetch_offset, verify=self._config.check_crcs)
        if batches:
            self._inbox.put(state, batches)
            state.fetch_offset = batches[-1].next_offset
        if error is not None:
            self._give_up(state, error)
        else:
            self._inbox.recovered(state)

    def _part_failed(self, state: Assigned, part: FetchPartResult) -> None:
        error = part.error(topic=state.where.topic, partition=state.where.partition)
        if isinstance(error, OffsetOutOfRange) and self._config.auto_offset_reset != "none":
            self._out_of_range(state, part)
        elif not error.retriable:
            self._give_up(state, error)
        else:
            hint = part.leader, part.leader_epoch, part.topic_id
            if part.leader != NO_LEADER and self._cluster.learn_leader(state.where, *hint):
                self._changed.set()
            else:
                state.not_before = time.monotonic() + self._config.retry_backoff_ms / 1000
                self._look_again()

    def _out_of_range(self, state: Assigned, part: FetchPartResult) -> None:
        """Begin anew where auto_offset_reset says, but not before the caller has had what was fetched in time."""
        if self._inbox.holds(state):
            state.not_before = time.monotonic() + self._config.retry_backoff_ms / 1000
            return
        if state.has_read and state.fetch_offset >= part.log_start_offset:
            # Records that were read are lost. To begin anew would give others again: that is for the caller to choose.
            text = f"{state.where} ends before offset {state.fetch_offset}, up to which it was read: records were lost"
            where, hint = state.where, "seek to where reading shall go on"
            self._give_up(state, OffsetOutOfRange(text, topic=where.topic, partition=where.partition, hint=hint))
            return
        logger.warning("an offset is not in the log any more partition=%s offset=%d", state.where, state.fetch_offset)
        state.lose_position()
        self._look_again()

    def _give_up(self, state: Assigned, error: OttlaError) -> None:
        """The caller must hear of it, after what came before; it is tried again all the same."""
        state.not_before = time.monotonic() + self._config.retry_backoff_max_ms / 1000
        self._inbox.fail(state, error)

    def _look_again(self) -> None:
        self._refresh_wanted = True
        self._changed.set()
