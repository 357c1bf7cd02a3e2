"""The asyncio producer."""

import asyncio
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Unpack, cast

from ottla.client.cluster import Cluster
from ottla.client.config import OnDelivery, ProducerConfig, build
from ottla.client.options import ProducerOptions, documented
from ottla.client.producing.batches import Headers
from ottla.client.producing.delivery import AsyncManyDelivery, AsyncRecordDelivery, tell_one
from ottla.client.producing.outbox import Outbox
from ottla.client.producing.sending.send_loop import SendLoop
from ottla.client.records import RecordMetadata
from ottla.wire.errors import ClientClosed, ClientTimeout

FAIR_SHARE = 256
"""After so many sends in a row the event loop gets a turn, or nothing would leave before the buffer is full."""

LEAVING_S = 2.0
"""How long a ``with`` that is left by an exception waits for what is still to be delivered."""


@documented(ProducerConfig)
class AsyncProducer:
    """Sends records. ``await send()`` waits for room only; what it gives back can be awaited for the delivery.

    async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
        sent = await producer.send("orders", b"value")
        where = await sent
    """

    _closed = True  # until it is made

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._config = build(ProducerConfig, options)
        self._cluster = Cluster(self._config)
        self._outbox = Outbox(self._config, self._cluster)
        self._send_loop = SendLoop(self._config, self._cluster, self._outbox.accumulator)
        self._outbox.accumulator.on_sealed = self._send_loop.wake_here
        self._turns = 0
        self._failures_told = 0
        self._all_closed = asyncio.Event()
        self._closed = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "AsyncProducer":
        """From Kafka's own names: ``{"bootstrap.servers": ..., "linger.ms": 5}``."""
        return cls(**cast(Any, config))

    def __repr__(self) -> str:
        return f"<AsyncProducer at {self._cluster.servers()}{' (closed)' if self._closed else ''}>"

    def __del__(self) -> None:
        if not self._closed:
            self._send_loop.abandon()  # which takes no lock here: whoever holds one may collect garbage
            warnings.warn("an AsyncProducer that nobody has any more was not closed", ResourceWarning, 2, source=self)

    async def __aenter__(self) -> "AsyncProducer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        try:
            await self.close(LEAVING_S)
        except ClientTimeout:
            pass  # what was not delivered is told in the log; what is raised already comes first

    async def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncRecordDelivery:
        """Queue a record; waits only while the buffer is full or the topic is not known yet.

        ``on_delivery(error, metadata)`` is called when it is delivered (error is None) or has failed.
        """
        await self._ready(topic)
        batch, index = self._outbox.add(topic, value, key, headers, partition, timestamp_ms)
        if index == 0:
            self._send_loop.wake_here()
        if on_delivery is not None:
            batch.when_done(partial(tell_one, batch, index, on_delivery))
        return AsyncRecordDelivery(batch, index)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> AsyncManyDelivery:
        """Queue a list of values at once: many times faster than one by one."""
        await self._ready(topic)
        count, pieces = self._outbox.add_many(topic, values, keys, partition, timestamp_ms)
        self._send_loop.wake_here()
        return AsyncManyDelivery(count, pieces)

    async def send_and_wait(self, topic: str, value: Any, **how: Any) -> RecordMetadata:
        """Send a record and wait until it is delivered."""
        return await (await self.send(topic, value, **how))

    async def flush(self, timeout: float | None = None) -> int:
        """Wait until everything sent so far is delivered or has failed; gives how many have failed since the last flush."""
        try:
            async with asyncio.timeout(timeout):
                await self._send_loop.flush()
        except TimeoutError:
            text = f"not everything was delivered within {timeout:g} s"
            raise ClientTimeout(self._send_loop.with_last_error(text)) from None
        self._send_loop.tell_failures()
        failed = self._send_loop.failed_records
        self._failures_told, before = failed, self._failures_told
        return failed - before

    async def partitions_for(self, topic: str, timeout: float | None = None) -> int:
        """How many partitions a topic has."""
        wait_s = self._config.max_block_ms / 1000 if timeout is None else timeout
        return len((await self._cluster.topic(plain_name(topic), wait_s)).partitions)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued, then close. ``timeout`` bounds the delivery; what is left then fails."""
        if self._closed:
            await self._wait_closed(timeout)
            return
        self._closed = True
        try:
            await self.flush(timeout)
        finally:
            try:
                self._send_loop.stop()
                await self._cluster.close()
            finally:
                self._send_loop.tell_failures()
                self._all_closed.set()

    async def _wait_closed(self, timeout: float | None) -> None:
        """Somebody else closes it: be done when they are."""
        try:
            async with asyncio.timeout(timeout):
                await self._all_closed.wait()
        except TimeoutError:
            text = f"not everything was delivered within {timeout:g} s"
            raise ClientTimeout(self._send_loop.with_last_error(text)) from None

    async def _ready(self, topic: str) -> None:
        """Wait until the topic is known and there is room for a record."""
        if self._closed:
            raise ClientClosed("the producer is closed")
        if not self._outbox.knows(topic):
            await self._cluster.topic(plain_name(topic), self._config.max_block_ms / 1000)
        self._turns += 1
        if self._turns >= FAIR_SHARE:
            self._turns = 0
            await asyncio.sleep(0)
        if self._outbox.accumulator.full:
            try:
                async with asyncio.timeout(self._config.max_block_ms / 1000):
                    await self._send_loop.wait_for_room()
            except TimeoutError:
                text = f"no room to send for {self._config.max_block_ms / 1000:g} s"
                raise ClientTimeout(self._send_loop.with_last_error(text), topic=topic) from None


def plain_name(topic: object) -> str:
    """A topic's name as it can be sent: numpy's str_ and others of its kind as what they are made of."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic's name must be a str, not {topic!r}")
    return str.__str__(topic)
