"""Following: one connection to each leader, one fetch for all partitions that it leads for us, again and again."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from ottla.broker.peers import Identity, connect_as_broker
from ottla.broker.replication.followed import FETCH_WAIT_MS, FollowedPartitions, Pause
from ottla.broker.replication.partition import Partition
from ottla.broker.storage.flush_loop import Flusher
from ottla.net.channel import Channel
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import ClientTimeout, OttlaError
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

FETCH_SLACK_S = 2.0
FIRST_RETRY_S, LAST_RETRY_S = 0.01, 0.5

FLUSH_PATIENCE_S = 0.1
"""How long all partitions of a leader wait while some are flushed; after that only those wait that are not on disk."""


class Fetchers:
    """Who is followed. ``update`` may be called as often as one likes."""

    def __init__(
        self,
        identity: Callable[[], Identity],
        endpoint: Callable[[int], BrokerEndpoint | None],
        flusher: Flusher,
        held: Callable[[], bool] = lambda: False,
    ) -> None:
        """``held``: nobody may be followed at the moment; when that ends, ``update`` is to be called for all."""
        self._held = held
        self._identity = identity
        self._endpoint = endpoint
        self._flusher = flusher
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._followed: dict[TopicPartition, int] = {}

    def update(self, partition: Partition) -> None:
        """Follow the partition's leader, if it has one and it is not this broker."""
        leader = partition.leader
        known = self._followed.get(partition.where)
        wanted = leader if leader >= 0 and not partition.is_leader and not self._held() else None
        if known is not None and known != wanted:
            self._fetchers[known].drop(partition)
            del self._followed[partition.where]
        if wanted is not None:
            if wanted not in self._fetchers:
                self._fetchers[wanted] = ReplicaFetcher(wanted, self._identity, self._endpoint, self._flusher)
            self._fetchers[wanted].add(partition)
            self._followed[partition.where] = wanted

    def update_all(self, partitions: Iterable[Partition]) -> None:
        """``held`` is over, or has begun."""
        for partition in partitions:
            self.update(partition)

    def follows(self, leader: int) -> bool:
        return leader in self._fetchers and self._fetchers[leader].follows_any

    def is_cut_off(self, leader: int) -> bool:
        """Whether this broker follows another and has lost its connection to it: perhaps it is gone."""
        return self.follows(leader) and self._fetchers[leader].cut_off

    def unreachable_leaders(self, silence_max_s: float) -> list[int]:
        """The leaders that this broker is to follow and that have not answered a fetch for so long."""
        now = time.monotonic()
        return sorted(i for i, fetcher in self._fetchers.items() if fetcher.silent_s(now) >= silence_max_s)

    async def stop(self) -> None:
        for fetcher in self._fetchers.values():
            await fetcher.stop()


class ReplicaFetcher:
    """Fetches from one leader. Owns a task from the first partition on."""

    def __init__(
        self,
        leader: int,
        identity: Callable[[], Identity],
        endpoint: Callable[[int], BrokerEndpoint | None],
        flusher: Flusher,
    ) -> None:
        self._leader = leader
        self._flusher = flusher
        self._identity = identity
        self._endpoint = endpoint
        self._followed = FollowedPartitions(leader, identity)
        self._changed = asyncio.Event()
        self._channel: Channel | None = None
        self._pause: Pause | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing_since: float | None = None

    def add(self, partition: Partition) -> None:
        if not self.follows_any:
            self._failing_since = None  # what failed before was over when there was nothing to follow any more
        self._followed.add(partition)
        if self.cut_off:
            self._channel = None  # whatever broke before: the controller says that it leads
        self._changed.set()
        self._end_wait()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetch from broker {self._leader}")

    def drop(self, partition: Partition) -> None:
        self._followed.drop(partition)

    @property
    def follows_any(self) -> bool:
        return len(self._followed) > 0

    @property
    def cut_off(self) -> bool:
        """Whether the connection broke since the controller last said that there is something to follow there."""
        return self._channel is not None and not self._channel.usable

    def silent_s(self, now: float) -> float:
        """For how long the leader has answered no fetch although this broker is to follow it; 0 if no fetch failed."""
        if self._failing_since is None or not self.follows_any:
            return 0.0
        return now - max(self._failing_since, self._followed.answered_at)

    def _end_wait(self) -> None:
        """If a fetch waits at the leader that knows nothing of what is new, have it answered."""
        if self._channel is not None and self._channel.usable and self._channel.in_flight == 1:
            self._channel.send(self._followed.end_of_wait()).add_done_callback(self._wait_ended)

    def _wait_ended(self, answer: "asyncio.Future[Answer]") -> None:
        """Nothing was asked, so nothing is done with the answer; that it may be an error is no news."""
        if not answer.cancelled() and answer.exception() is None and self._followed.any_to_name:
            self._end_wait()  # what came meanwhile

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._pause is not None:
            self._pause.cancel()
        if self._channel is not None:
            await self._channel.close()

    async def _run(self) -> None:
        waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while True:
            self._changed.clear()
            if not self._followed.any_due:
                try:
                    async with asyncio.timeout(self._followed.next_retry_s()):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            try:
                await self._follow()
                waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
                self._failing_since = None
            except OttlaError as error:
                if self._failing_since is None:
                    patience_s = FETCH_WAIT_MS / 1000 + FETCH_SLACK_S
                    self._failing_since = max(self._followed.asked_at, time.monotonic() - patience_s)
                logger.info("replica fetch failed leader=%d error=%s", self._leader, error)
                await asyncio.sleep(next(waits))
            except Exception:
                logger.exception("replica fetch failed leader=%d", self._leader)
                await asyncio.sleep(LAST_RETRY_S)

    async def _follow(self) -> None:
        """Fetch, each time as soon as the answer before is there, until nothing is due or something is in the way."""
        channel = await self._connected()
        self._pause = pause = asyncio.get_running_loop().create_future()
        self._followed.ask(channel, pause)
        while not pause.done():
            await asyncio.wait([pause], timeout=FETCH_SLACK_S / 2)
            if not pause.done() and time.monotonic() - self._followed.asked_at > FETCH_WAIT_MS / 1000 + FETCH_SLACK_S:
                pause.cancel()
                await channel.close()
                raise ClientTimeout(f"{channel.address} did not answer a fetch", broker=channel.address)
        await self._flush(pause.result())

    async def _flush(self, unsafe: list[Partition]) -> None:
        """The next fetch tells the leader what this broker has: for durable logs, only what is on disk [I26]."""
        flushes = {asyncio.ensure_future(self._flushed(partition)): partition for partition in unsafe}
        if flushes:
            _, late = await asyncio.wait(flushes, timeout=FLUSH_PATIENCE_S)
            for flush in late:
                self._followed.park(flushes[flush])
                flush.add_done_callback(partial(self._flushed_late, flushes[flush]))

    async def _flushed(self, partition: Partition) -> None:
        try:
            await self._flusher.durable(partition.log, partition.log.log_end_offset)
        except OttlaError as error:
            self._followed.delay(partition, error)  # it alone: the others are on disk

    def _flushed_late(self, partition: Partition, flush: "asyncio.Future[None]") -> None:
        if self._followed.follows(partition):
            self.add(partition)

    async def _connected(self) -> Channel:
        if self._channel is None or not self._channel.usable:
            endpoint = self._endpoint(self._leader)
            if endpoint is None:
                raise OttlaError(f"broker {self._leader} is not live")
            self._channel = await connect_as_broker(self._identity(), endpoint, borrow=True)  # see FollowedPartitions
        return self._channel
