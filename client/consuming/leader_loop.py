"""Fetching from one leader: a request that waits there for news, and what becomes of its answer.

What changes while a request waits (a seek, a partition that came to this leader, the end of a backoff) is told by a second one
behind it: the broker answers the first at once. So nothing that is newly wanted waits for fetch_max_wait_ms.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol, cast

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.connections import FETCH_LANE
from ottla.client.consuming.fetch_session import Changes, FetchSession
from ottla.client.consuming.fetched import unpack, unreadable
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.subscription import Assigned, Subscription
from ottla.net.channel import Channel
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.net.timer import Timer
from ottla.wire.errors import ClientTimeout, CorruptMessage, FetchSessionIdNotFound, OffsetOutOfRange, OttlaError
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

EMPTY_FETCH_S = 0.01
"""How long to wait before asking again where a broker that need not wait (fetch_max_wait_ms) had nothing."""

FETCH_SLACK_S = 5.0
"""How much longer than its max wait a fetch may take before the broker counts as gone."""

UNDER_WAY_MAX = 2
"""A request that waits, and one behind it that ends the wait."""


TIMER_SLACK_S = 0.001
"""A timer may come a moment before its time."""


class Owner(Protocol):
    """The fetch loop, as those that it owns need it."""

    def metadata_seen(self) -> None:
        """The cluster's metadata may be newer than what was looked at: others may lead by now."""

    def leaders_changed(self) -> None:
        """Whoever leads now must be asked."""

    def look_again(self) -> None:
        """Something is wrong that newer metadata may explain."""


class _UnderWay(NamedTuple):
    changes: Changes
    answer: "asyncio.Future[Answer]"


class LeaderLoop:
    """One broker, as long as it leads something that is read. ``run`` is a task of the fetch loop."""

    def __init__(
        self,
        leader: int,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: Subscription,
        inbox: Inbox,
        owner: Owner,
    ) -> None:
        self._leader = leader
        self._config = config
        self._cluster = cluster
        self._subscription = subscription
        self._inbox = inbox
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._session = FetchSession(self._part)
        self._channel: Channel | None = None
        self._under_way: deque[_UnderWay] = deque()
        self._first = True
        self._woken = asyncio.Event()
        self._timer: Timer | None = None
        self._amend_scheduled = False
        self._read_at = -1  # the version of the metadata by which it is known what is read here
        self._all_may_have_changed = True

    def poke(self) -> None:
        """Anything may have changed: look at all partitions."""
        self._all_may_have_changed = True
        self.wake()

    def wake(self) -> None:
        """There may be something to ask for: room, or a partition whose backoff is over."""
        self._woken.set()
        if self._under_way and not self._amend_scheduled:
            self._amend_scheduled = True
            self._loop.call_soon(self._amend)

    async def run(self) -> None:
        waits = None
        while self._look():
            self._woken.clear()
            try:
                something = await self._fetch()
            except FetchSessionIdNotFound as error:
                logger.info("all is named anew to a broker broker=%d why=%s", self._leader, error)
                self._begin_anew()
            except Exception as error:
                if not isinstance(error, OttlaError):
                    logger.exception("the fetch loop failed broker=%d", self._leader)
                elif waits is None:
                    logger.info("fetching is interrupted broker=%d error=%s", self._leader, error)
                self._begin_anew()
                waits = waits or self._new_backoff()
                self._owner.look_again()
                await asyncio.sleep(next(waits))
            else:
                if something is None:
                    await self._wait(self._until_due())
                    continue
                if waits is not None:
                    logger.info("fetching goes on broker=%d", self._leader)
                waits = None
                if not something and self._config.fetch_max_wait_ms / 1000 < EMPTY_FETCH_S:
                    await self._wait(EMPTY_FETCH_S)
        self._begin_anew()
        self._owner.leaders_changed()  # nobody else may look for them for minutes

    def _new_backoff(self) -> Iterator[float]:
        return backoff(self._config.retry_backoff_ms / 1000, self._config.retry_backoff_max_ms / 1000)

    def _until_due(self) -> float:
        """How long to wait until the next partition may be asked for, at most; without room, until there is some."""
        longest = self._config.retry_backoff_max_ms / 1000
        now = time.monotonic()
        due = self._session.next_due(now) if self._inbox.room else None
        return longest if due is None else min(due - now + TIMER_SLACK_S, longest)

    async def _wait(self, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    # --- asking ----------------------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """See what is read from this leader, if that may have changed; whether it is anything."""
        version = self._cluster.version
        if version != self._read_at:
            self._owner.metadata_seen()
        if version != self._read_at or self._all_may_have_changed:
            self._read_at, self._all_may_have_changed = version, False
            leader_of, leader = self._cluster.leader, self._leader
            self._session.read(
                {where: state for where, state in self._subscription.assigned.items() if leader_of(where) == leader}
            )
        return bool(self._session)

    def _part(self, state: Assigned) -> FetchPart:
        """What to ask for. The epoch keeps a leader that was replaced from answering, the id a topic of the same name."""
        where, limit = state.where, self._config.max_partition_fetch_bytes
        epoch = self._cluster.leader_epoch(where)
        return FetchPart(where.topic, where.partition, state.fetch_offset, limit, epoch, topic_id=state.topic_id)

    async def _fetch(self) -> bool | None:
        """Ask, unless a request is under way, and take the next answer: whether it had anything. None: there is no need."""
        config = self._config
        if not self._under_way:
            if not self._inbox.room:
                return None
            channel = await self._cluster.channel(self._leader, FETCH_LANE)
            if channel is not self._channel:
                self._channel, self._first = channel, True
                self._session.forget()
            changes = self._session.changes(time.monotonic())
            if not (self._session.waits_for_something or changes.dropped):
                return None
            self._send(channel, changes)
        changes, answer = self._under_way[0]
        try:
            async with asyncio.timeout(config.fetch_max_wait_ms / 1000 + FETCH_SLACK_S):
                answered = await answer
        except TimeoutError:
            assert self._channel is not None
            address = self._channel.address
            await self._channel.close()  # answers come in order: behind this one nothing else would come either
            raise ClientTimeout(f"{address} did not answer a fetch in time", broker=address) from None
        self._under_way.popleft()
        return self._take(changes, answered)

    def _send(self, channel: Channel, changes: Changes) -> None:
        config = self._config
        # The first tells at once whether the broker keeps what it is told: only then can another one end a wait.
        waits = self._session.waits_for_something and not self._first
        self._first = False
        request = FetchRequest(
            config.fetch_max_wait_ms if waits else 0,
            config.fetch_min_bytes,
            min(config.fetch_max_bytes, self._inbox.room),
            changes.parts,
            since_last=changes.since_last,
            dropped=changes.drops,
            keep=not changes.since_last,
        )
        self._under_way.append(_UnderWay(changes, channel.send(request)))
        self._wake_when_due()

    def _amend(self) -> None:
        """Something has changed while a request waits: tell the broker."""
        self._amend_scheduled = False
        channel = self._channel
        if channel is None or not 0 < len(self._under_way) < UNDER_WAY_MAX or not self._session.kept:
            return
        if self._inbox.room and channel.usable:
            self._look()
            changes = self._session.changes(time.monotonic())
            if changes.named or changes.dropped:
                self._send(channel, changes)

    def _begin_anew(self) -> None:
        """Whatever is under way, and whatever the broker keeps, counts no more."""
        self._under_way.clear()
        self._channel = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- answers ---------------------------------------------------------------------------------------------------------

    def _take(self, changes: Changes, answer: Answer) -> bool:
        """Take what a request was answered with; whether that was anything."""
        session, response = self._session, cast(FetchResponse, answer.message)
        refused: list[TopicPartition] = []
        something = False
        session.kept = response.kept
        for part, records in zip(response.parts, answer.attachments, strict=True):
            where = TopicPartition(part.topic, part.partition)
            something = something or bool(part.error_code or records)
            named = session.answered(where, changes.number)
            # Invariant: an answer counts only for the position that was asked for. When the leader changes, fetches of one
            # partition may be under way to two brokers: the second answer would give again what the first one gave.
            if named is None or named.stale:
                continue
            if part.error_code:
                refused.append(where)
                self._part_failed(named.state, part)
            elif records and not self._received(named.state, records):
                refused.append(where)
        if self._inbox.has_failures:
            for state in changes.readable(refused):
                self._inbox.not_refused(state)
        if not response.kept:
            session.forget()
        return something

    def _received(self, state: Assigned, records: memoryview) -> bool:
        """Take the batches up to the first that cannot be read; whether all of them can."""
        batches, error = unpack(state.where, records, state.fetch_offset, verify=self._config.check_crcs)
        if batches:
            self._inbox.put(state, batches)
            state.fetch_offset = batches[-1].next_offset
        if error is not None:
            self._give_up(state, error)
        else:
            self._inbox.recovered(state)
        return error is None

    def _part_failed(self, state: Assigned, part: FetchPartResult) -> None:
        error = part.error(topic=state.where.topic, partition=state.where.partition)
        if isinstance(error, CorruptMessage):  # the broker cannot read what is there, nor say where it ends
            error = unreadable(state.where, state.fetch_offset, state.fetch_offset + 1, error)
        if isinstance(error, OffsetOutOfRange) and self._config.auto_offset_reset != "none":
            self._out_of_range(state, part)
        elif not error.retriable:
            self._give_up(state, error)
        else:
            hint = part.leader, part.leader_epoch, part.topic_id
            if part.leader != NO_LEADER and self._cluster.learn_leader(state.where, *hint):
                self._owner.leaders_changed()
            else:
                self._hold(state, self._config.retry_backoff_ms / 1000)
                self._owner.look_again()

    def _out_of_range(self, state: Assigned, part: FetchPartResult) -> None:
        """Begin anew where auto_offset_reset says, but not before the caller has had what was fetched in time."""
        if self._inbox.holds(state):
            self._hold(state, self._config.retry_backoff_ms / 1000)
            return
        if state.has_read and state.fetch_offset >= part.log_start_offset:
            # Records that were read are lost. To begin anew would give others again: that is for the caller to choose.
            text = f"{state.where} ends before offset {state.fetch_offset}, up to which it was read: records were lost"
            where, hint = state.where, "seek to where reading shall go on"
            self._give_up(state, OffsetOutOfRange(text, topic=where.topic, partition=where.partition, hint=hint))
            return
        logger.warning("an offset is not in the log any more partition=%s offset=%d", state.where, state.fetch_offset)
        state.lose_position()
        self._owner.look_again()

    def _give_up(self, state: Assigned, error: OttlaError) -> None:
        """The caller must hear of it, after what came before. It is tried again all the same: another leader may have it."""
        self._hold(state, self._config.retry_backoff_max_ms / 1000)
        self._inbox.fail(state, error)

    def _hold(self, state: Assigned, seconds: float) -> None:
        """Do not ask for a partition for a while."""
        state.not_before = time.monotonic() + seconds
        self._wake_in(seconds)

    def _wake_in(self, seconds: float) -> None:
        """One timer for all that are held: after a broker has died there may be thousands."""
        when = self._loop.time() + seconds + TIMER_SLACK_S
        if self._timer is not None:
            if self._timer.when <= when:
                return
            self._timer.cancel()
        self._timer = Timer(when, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self.wake()
        self._wake_when_due()

    def _wake_when_due(self) -> None:
        now = time.monotonic()
        due = self._session.next_due(now)
        if due is not None:
            self._wake_in(due - now)
