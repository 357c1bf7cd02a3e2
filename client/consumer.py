"""The asyncio consumer. It reads the partitions it is told, or all of its topics'; groups come later."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig, build
from ottla.client.fetch_loop import FetchLoop
from ottla.client.inbox import Inbox
from ottla.client.offsets import list_offsets
from ottla.client.records import FetchedBatch, Record
from ottla.client.subscription import UNKNOWN, Subscription
from ottla.wire.errors import ClientClosed, ClientTimeout, ConfigError
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

DEFAULT_TIMEOUT_S = 30.0
BATCHES_BYTES = 4 * 1024 * 1024
"""About how much one poll_batches gives."""


class AsyncConsumer:
    """Reads records.

    async with AsyncConsumer("orders", bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
        async for record in consumer: ...
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        self.config = build(ConsumerConfig, options)
        self._cluster = Cluster(self.config)
        self._subscription = Subscription(topics)
        self._data = asyncio.Event()
        self.inbox = Inbox(self.config, on_room=self.poke, on_data=self._data.set)
        self._fetch_loop = FetchLoop(self.config, self._cluster, self._subscription, self.inbox)
        self._closed = False
        if topics:
            self._fetch_loop.start()
        self._started = bool(topics)

    async def __aenter__(self) -> "AsyncConsumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._data.set()
            await self._fetch_loop.stop()
            await self._cluster.close()

    # --- what to read ------------------------------------------------------------------------------------------------

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics and of no others."""
        self._subscription.topics = list(dict.fromkeys(topics))
        self._subscription.by_hand = False
        self._begin()

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions."""
        self._subscription.by_hand = True
        self._subscription.assign(TopicPartition(*where) for where in partitions)
        self._begin()

    async def assignment(self) -> set[TopicPartition]:
        return set(self._subscription.assigned)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on reading at ``offset``; before the partition is assigned, begin there."""
        self._subscription.seek(TopicPartition(topic, partition), offset)
        self._fetch_loop.poke()

    async def seek_to_beginning(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        await self._seek_all(EARLIEST, timeout)

    async def seek_to_end(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        await self._seek_all(LATEST, timeout)

    async def position(self, topic: str, partition: int, timeout: float = DEFAULT_TIMEOUT_S) -> int:
        """The offset of the record that comes next."""
        state = self._subscription.assigned.get(TopicPartition(topic, partition))
        if state is None or state.position == UNKNOWN:
            await self._positioned(timeout)
        return self._subscription.state(TopicPartition(topic, partition)).position

    async def pause(self, *partitions: tuple[str, int]) -> None:
        """Fetch nothing more of these until ``resume``."""
        for where in partitions:
            self._subscription.state(TopicPartition(*where)).paused = True

    async def resume(self, *partitions: tuple[str, int]) -> None:
        for where in partitions:
            self._subscription.state(TopicPartition(*where)).paused = False
        self._fetch_loop.poke()

    # --- reading -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 0.0, max_records: int | None = None) -> list[Record]:
        """Records that have come, at most ``max_records``; waits up to ``timeout`` s for the first. Empty if none came."""
        if await self._wait_for_data(timeout):
            return self.inbox.take_records(max_records or self.config.max_poll_records)
        return []

    async def poll_batches(self, timeout: float = 0.0) -> list[FetchedBatch]:
        """As ``poll``, whole batches with their columns: the fast way for much data."""
        if await self._wait_for_data(timeout):
            return self.inbox.take_batches(BATCHES_BYTES)
        return []

    async def __aiter__(self) -> AsyncIterator[Record]:
        patience_s = self.config.consumer_timeout_ms / 1000
        while True:
            records = await self.poll(min(patience_s, 3600.0), max_records=10_000)
            for record in records:
                yield record
            if not records and patience_s < 3600.0:
                return

    async def _wait_for_data(self, timeout: float) -> bool:
        self.check_begun()
        deadline = time.monotonic() + timeout
        if not self.inbox.has_data:
            await asyncio.sleep(0)
        while not self.inbox.has_data:
            self._data.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await self._data.wait()
            except TimeoutError:
                break
            if self._closed:
                raise ClientClosed("the consumer was closed")
        if not self.inbox.has_data and timeout > 0:
            self.raise_trouble()
        return self.inbox.has_data

    def check_begun(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if not self._started:
            raise ConfigError("the consumer was given nothing to read", hint="name topics, subscribe() or assign()")

    def raise_trouble(self) -> None:
        """Nothing came in time: if reading has not even begun, say why."""
        trouble = self.inbox.trouble
        if trouble is not None and not self._fetch_loop.ready:
            raise trouble

    # --- looking up --------------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return {k: v[0] for k, v in (await self._lookup(dict.fromkeys(partitions, EARLIEST), timeout)).items()}

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return {k: v[0] for k, v in (await self._lookup(dict.fromkeys(partitions, LATEST), timeout)).items()}

    async def offsets_for_times(
        self, times_ms: Mapping[tuple[str, int], int], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """The first offset at or after a time, with its timestamp; None where all records are older."""
        found = await self._lookup(times_ms, timeout)
        return {where: pair if pair[0] >= 0 else None for where, pair in found.items()}

    async def _lookup(
        self, wanted: Mapping[tuple[str, int], int], timeout: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        for topic, _ in wanted:
            await self._cluster.topic(topic, timeout)
        return await list_offsets(
            self._cluster, {TopicPartition(*where): time for where, time in wanted.items()}, timeout
        )

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._started:
            self._started = True
            self._fetch_loop.start()
        self._fetch_loop.poke()

    def poke(self) -> None:
        self._fetch_loop.poke()

    async def _positioned(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._fetch_loop.positioned()
        except TimeoutError:
            self.raise_trouble()
            raise ClientTimeout(f"no position within {timeout:g} s; {self._cluster.tried()}") from None

    async def _seek_all(self, to: int, timeout: float) -> None:
        await self._positioned(timeout)
        found = await list_offsets(self._cluster, dict.fromkeys(self._subscription.assigned, to), timeout)
        for where, (offset, _) in found.items():
            self._subscription.seek(where, offset)
        self._fetch_loop.poke()
