"""The tasks behind a consumer: one that knows what to read and where it is led, and one for each leader (leader_loop)."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.leader_loop import LeaderLoop
from ottla.client.consuming.position_loop import PositionLoop
from ottla.client.consuming.subscription import UNKNOWN, Assigned, Subscription
from ottla.net.retry import backoff
from ottla.wire.errors import LeaderNotAvailable, OffsetOutOfRange, OttlaError
from ottla.wire.messages import EARLIEST, LATEST

logger = logging.getLogger(__name__)


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
        self._fetchers: dict[int, LeaderLoop] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        reset_to = {"earliest": EARLIEST, "latest": LATEST, "none": None}[config.auto_offset_reset]
        self._positions = PositionLoop(cluster, reset_to, self._positions_found)
        self._refresh_wanted = False
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
        await asyncio.gather(*self.cancel(), return_exceptions=True)

    def poke(self) -> None:
        """Something that decides what to fetch has changed; on the event loop's thread."""
        self._changed.set()
        for fetcher in self._fetchers.values():
            fetcher.poke()

    def room_again(self) -> None:
        """The inbox takes more; on the event loop's thread."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

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
        self.cancel()
        self._cluster.abort()

    def cancel(self) -> list[asyncio.Task[None]]:
        """Fetch no more; what must be waited for until all has ended. On the event loop's thread."""
        tasks = [task for task in (self._main, *self._tasks.values()) if task is not None]
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
        """One for each leader; it ends by itself when its broker leads nothing for us any more."""
        self._metadata_version = self._cluster.version
        leaders = {self._cluster.leader(where) for where in self._subscription.assigned}
        for leader in leaders:
            if leader is not None and (leader not in self._tasks or self._tasks[leader].done()):
                fetcher = self._fetchers[leader] = LeaderLoop(
                    leader, self._config, self._cluster, self._subscription, self._inbox, self
                )
                self._tasks[leader] = self._loop.create_task(fetcher.run())
        for fetcher in self._fetchers.values():
            fetcher.poke()

    # --- for those that fetch (leader_loop.Owner) ------------------------------------------------------------------------

    def metadata_seen(self) -> None:
        if self._cluster.version != self._metadata_version:
            self._keep_fetchers()  # somebody else asked, and heard of other leaders

    def leaders_changed(self) -> None:
        self._changed.set()

    def look_again(self) -> None:
        self._refresh_wanted = True
        self._changed.set()
