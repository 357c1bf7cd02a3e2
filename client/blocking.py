"""The blocking twins: the same names as the asyncio clients', for code that has no event loop.

Each drives its asyncio twin on the process's loop thread. What is called for every record (send, poll) does its work in
the calling thread and does not wait for the other one.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from ottla.client.admin import DEFAULT_TIMEOUT_S, AsyncAdmin
from ottla.client.batches import Headers
from ottla.client.consumer import BATCHES_BYTES, AsyncConsumer
from ottla.client.delivery import ManyDelivery, RecordDelivery
from ottla.client.loop_thread import shared_loop_thread
from ottla.client.producer import AsyncProducer
from ottla.client.records import FetchedBatch, Record
from ottla.wire.errors import ClientClosed
from ottla.wire.names import TopicPartition
from ottla.wire.requests import MetadataResponse, TopicMetadata


class Producer:
    """Sends records.

    with Producer(bootstrap_servers="127.0.0.1:9092", acks="all") as producer:
        sent = producer.send("orders", b"value", key=b"k")
        where = sent.result(timeout=10)
    """

    def __init__(self, **options: Any) -> None:
        self._thread = shared_loop_thread()
        self._twin = self._thread.call(lambda: AsyncProducer(**options))
        self._outbox = self._twin.outbox
        self._accumulator = self._twin.outbox.accumulator
        self._wake = self._twin.send_loop.wake
        self._closed = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Producer":
        """From Kafka's own names: ``{"bootstrap.servers": ..., "linger.ms": 5}``."""
        return cls(**config)

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordDelivery:
        """Queue a record; waits only while the buffer is full or the topic is not known yet."""
        if self._closed or self._accumulator.full or not self._outbox.knows(topic):
            self._make_ready(topic)
        batch, index = self._outbox.add(topic, value, key, headers, partition, timestamp_ms)
        self._wake()
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

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is delivered or has failed."""
        self._thread.run(self._twin.flush(timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> int:
        """How many partitions a topic has."""
        return self._thread.run(self._twin.partitions_for(topic, timeout))

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued, then close. ``timeout`` bounds the delivery; what is left then fails."""
        self._closed = True
        self._thread.run(self._twin.close(timeout))

    def _make_ready(self, topic: str) -> None:
        self._thread.run(self._twin.ready(topic))


class Consumer:
    """Reads records.

    with Consumer("orders", bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
        for record in consumer: ...
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        self._thread = shared_loop_thread()
        self._data = threading.Event()
        self._twin = self._thread.call(lambda: AsyncConsumer(*topics, **options))
        self._inbox = self._twin.inbox
        self._inbox.on_data = self._data.set
        self._inbox.on_room = self._poke
        self._patience_s = self._twin.config.consumer_timeout_ms / 1000
        self._closed = False

    @classmethod
    def from_config(cls, topics: Iterable[str], config: Mapping[str, Any]) -> "Consumer":
        """From Kafka's own names: ``{"bootstrap.servers": ..., "auto.offset.reset": "earliest"}``."""
        return cls(*topics, **config)

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._thread.run(self._twin.close())
        self._data.set()

    # --- what to read ------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics and of no others."""
        self._thread.run(self._twin.subscribe(topics))

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions."""
        self._thread.run(self._twin.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        return self._thread.run(self._twin.assignment())

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on reading at ``offset``; before the partition is assigned, begin there."""
        self._thread.run(self._twin.seek(topic, partition, offset))

    def seek_to_beginning(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        self._thread.run(self._twin.seek_to_beginning(timeout))

    def seek_to_end(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        self._thread.run(self._twin.seek_to_end(timeout))

    def position(self, topic: str, partition: int, timeout: float = DEFAULT_TIMEOUT_S) -> int:
        """The offset of the record that comes next."""
        return self._thread.run(self._twin.position(topic, partition, timeout))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Fetch nothing more of these until ``resume``."""
        self._thread.run(self._twin.pause(*partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._thread.run(self._twin.resume(*partitions))

    # --- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0, max_records: int | None = None) -> list[Record]:
        """Records that have come, at most ``max_records``; waits up to ``timeout`` s for the first. Empty if none came."""
        if self._wait_for_data(timeout):
            return self._inbox.take_records(max_records or self._twin.config.max_poll_records)
        return []

    def poll_batches(self, timeout: float = 0.0) -> list[FetchedBatch]:
        """As ``poll``, whole batches with their columns: the fast way for much data."""
        if self._wait_for_data(timeout):
            return self._inbox.take_batches(BATCHES_BYTES)
        return []

    def __iter__(self) -> Iterator[Record]:
        longest_s = 3600.0
        while not self._closed:
            records = self.poll(min(self._patience_s, longest_s), max_records=10_000)
            yield from records
            if not records and self._patience_s < longest_s:
                return

    def _poke(self) -> None:
        self._thread.loop.call_soon_threadsafe(self._twin.poke)

    def _wait_for_data(self, timeout: float) -> bool:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._twin.check_begun()
        deadline = time.monotonic() + timeout
        while not self._inbox.has_data:
            self._data.clear()
            if self._inbox.has_data:  # it came between the two
                break
            left = deadline - time.monotonic()
            if left <= 0 or not self._data.wait(left):
                break
            if self._closed:
                raise ClientClosed("the consumer was closed")
        if not self._inbox.has_data and timeout > 0:
            self._twin.raise_trouble()
        return self._inbox.has_data

    # --- looking up --------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return self._thread.run(self._twin.beginning_offsets(partitions, timeout))

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return self._thread.run(self._twin.end_offsets(partitions, timeout))

    def offsets_for_times(
        self, times_ms: Mapping[tuple[str, int], int], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """The first offset at or after a time, with its timestamp; None where all records are older."""
        return self._thread.run(self._twin.offsets_for_times(times_ms, timeout))


class Admin:
    """Creates, describes and deletes topics; tells who is in the cluster.

    with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        admin.create_topic("orders", partitions=3)
    """

    def __init__(self, **options: Any) -> None:
        self._thread = shared_loop_thread()
        self._twin = self._thread.call(lambda: AsyncAdmin(**options))

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._thread.run(self._twin.close())

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        assignment: Iterable[Iterable[int]] | None = None,
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> str:
        """Create a topic and wait until every live broker knows it; gives back the topic's id."""
        return self._thread.run(
            self._twin.create_topic(
                name, partitions, replication_factor, config,
                assignment=assignment, validate_only=validate_only, timeout=timeout,
            )
        )  # fmt: skip

    def delete_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Delete a topic with all its records and wait until it is gone."""
        self._thread.run(self._twin.delete_topic(name, timeout=timeout))

    def list_topics(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> list[str]:
        """The names of all topics, sorted."""
        return self._thread.run(self._twin.list_topics(timeout=timeout))

    def describe_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicMetadata:
        """A topic's id, config overrides and partitions (leader, replicas, isr, leader_epoch)."""
        return self._thread.run(self._twin.describe_topic(name, timeout=timeout))

    def describe_cluster(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> MetadataResponse:
        """Cluster id, controller, brokers and all topics, as one broker knows them."""
        return self._thread.run(self._twin.describe_cluster(timeout=timeout))

    def earliest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The first offset that is still there, for each partition."""
        return self._thread.run(self._twin.earliest_offsets(name, timeout=timeout))

    def latest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The offset that the next committed record will get, for each partition."""
        return self._thread.run(self._twin.latest_offsets(name, timeout=timeout))
