"""The blocking Producer."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Unpack, cast

from ottla.client.config import OnDelivery, ProducerConfig
from ottla.client.loop_thread import shared_loop_thread
from ottla.client.options import ProducerOptions, documented
from ottla.client.producing.batches import Headers
from ottla.client.producing.delivery import ManyDelivery, RecordDelivery, tell_one
from ottla.client.producing.producer import LEAVING_S, AsyncProducer
from ottla.wire.errors import ClientTimeout, OttlaError


@documented(ProducerConfig)
class Producer:
    """Sends records.

    with Producer(bootstrap_servers="127.0.0.1:9092", acks="all") as producer:
        sent = producer.send("orders", b"value", key=b"k")
        where = sent.result(timeout=10)
    """

    _closed = True  # until it is made

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._thread = shared_loop_thread()
        self._twin = self._thread.call(lambda: AsyncProducer(**options))
        self._outbox = self._twin._outbox
        self._accumulator = self._twin._outbox.accumulator
        # Replaced when the producer is closed: the way of nearly every record need not look whether it is.
        self._send_plain: Callable[[str, object], RecordDelivery | None] = self._outbox.send_plain
        self._wake = self._accumulator.on_sealed = self._outbox.on_opened = self._twin._send_loop.wake
        self._closed = False
        self._thread.clients.add(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Producer":
        """From Kafka's own names: ``{"bootstrap.servers": ..., "linger.ms": 5}``."""
        return cls(**cast(Any, config))

    def __repr__(self) -> str:
        return f"<Producer at {self._twin._cluster.servers()}{' (closed)' if self._closed else ''}>"

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close(LEAVING_S)
        except ClientTimeout:
            pass  # what was not delivered is told in the log; what is raised already comes first

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordDelivery:
        """Queue a record; waits only while the buffer is full or the topic is not known yet.

        ``on_delivery(error, metadata)`` is called when it is delivered (error is None) or failed, on the client's thread.
        """
        if key is None and headers is None and partition is None and timestamp_ms is None and on_delivery is None:
            sent = self._send_plain(topic, value)
            if sent is not None:
                return sent
        if self._closed or self._accumulator.full or not self._outbox.knows(topic):
            self._make_ready(topic)
        batch, index = self._outbox.add(topic, value, key, headers, partition, timestamp_ms)
        if index == 0:  # the send loop knows of a batch that has records already
            self._wake()
        if on_delivery is not None:
            batch.when_done(partial(tell_one, batch, index, on_delivery))
        return RecordDelivery(batch, index)

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> ManyDelivery:
        """Queue a list of values at once: many times faster than one by one."""
        if self._closed or self._accumulator.full or not self._outbox.knows(topic):
            self._make_ready(topic)
        count, pieces = self._outbox.add_many(topic, values, keys, partition, timestamp_ms)
        self._wake()
        return ManyDelivery(count, pieces)

    def flush(self, timeout: float | None = None) -> int:
        """Wait until everything sent so far is delivered or has failed; gives how many have failed since the last flush."""
        return self._thread.run(self._twin.flush(timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> int:
        """How many partitions a topic has."""
        return self._thread.run(self._twin.partitions_for(topic, timeout))

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued, then close. ``timeout`` bounds the delivery; what is left then fails."""
        self._closed = True
        self._send_plain = _not_plainly
        if not self._thread.lost:  # a forked child has nothing to close: the connections are its parent's
            self._thread.run(self._twin.close(timeout))

    def _close_at_exit(self, timeout: float) -> bool:
        forgotten = not self._closed
        self.close(timeout)  # which may be under way in another thread, too
        return forgotten

    def __del__(self) -> None:
        if not self._closed and not self._thread.lost:
            self._thread.close_unowned(self._twin.close)  # what was sent is delivered all the same
            warnings.warn("a producer that nobody has any more was not closed", ResourceWarning, 2, source=self)

    def _forked(self, why: OttlaError) -> None:
        self._closed = True
        self._send_plain = _not_plainly
        self._accumulator.abandon(why)

    def _make_ready(self, topic: str) -> None:
        self._thread.run(self._twin._ready(topic))


def _not_plainly(topic: str, value: object) -> None:
    """A producer that is closed sends nothing; what it says instead is said elsewhere."""
