"""The blocking twins: the same names as the asyncio clients', for code that has no event loop.

Each drives its asyncio twin on the process's loop thread. What is called for every record (send, poll) does its work in
the calling thread and does not wait for the other one.
"""

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from ottla.client.admin import DEFAULT_TIMEOUT_S, AsyncAdmin
from ottla.client.batches import Headers
from ottla.client.consumer import BATCHES_BYTES, LONG_S, AsyncConsumer
from ottla.client.delivery import ManyDelivery, RecordDelivery
from ottla.client.loop_thread import forked_error, refuse_on_loop_thread, shared_loop_thread
from ottla.client.producer import AsyncProducer
from ottla.client.records import FetchedBatch, Record
from ottla.wire.errors import ClientClosed, OttlaError
from ottla.wire.names import TopicPartition
from ottla.wire.requests import MetadataResponse, TopicMetadata

R = TypeVar("R")


class Producer:
    """Sends records.

    with Producer(bootstrap_servers="127.0.0.1:9092", acks="all") as producer:
        sent = producer.send("orders", b"value", key=b"k")
        where = sent.result(timeout=10)
    """

    _closed = True  # until it is made

    def __init__(self, **options: Any) -> None:
        self._thread = shared_loop_thread()
        self._twin = self._thread.call(lambda: AsyncProducer(**options))
        self._outbox = self._twin.outbox
        self._accumulator = self._twin.outbox.accumulator
        self._send_plain = self._outbox.send_plain
        self._wake = self._accumulator.on_sealed = self._outbox.on_opened = self._twin.send_loop.wake
        self._closed = False
        self._thread.clients.add(self)

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
        if key is None and headers is None and partition is None and timestamp_ms is None and not self._closed:
            sent = self._send_plain(topic, value)
            if sent is not None:
                return sent
        if self._closed or self._accumulator.full or not self._outbox.knows(topic):
            self._make_ready(topic)
        batch, index = self._outbox.add(topic, value, key, headers, partition, timestamp_ms)
        if index == 0:  # the send loop knows of a batch that has records already
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
        if not self._thread.lost:  # a forked child has nothing to close: the connections are its parent's
            self._thread.run(self._twin.close(timeout))

    def close_at_exit(self, timeout: float) -> bool:
        forgotten = not self._closed
        self.close(timeout)  # which may be under way in another thread, too
        return forgotten

    def __del__(self) -> None:
        if not self._closed and not self._thread.lost:
            self._thread.leave(self._twin.close)  # what was sent is delivered all the same
            warnings.warn("a producer that nobody has any more was not closed", ResourceWarning, 2, source=self)

    def forked(self, why: OttlaError) -> None:
        self._closed = True
        self._accumulator.abandon(why)

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
        self._taking = threading.Lock()
        self._closed = False
        self._thread.clients.add(self)

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
        self._data.set()
        if not self._thread.lost:
            self._thread.run(self._twin.close())

    def close_at_exit(self, timeout: float) -> bool:
        self.close()
        return False  # no record is lost by it

    def forked(self, why: OttlaError) -> None:
        self._closed = True

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
        most = self._twin.poll_limit(max_records)
        return self._first(lambda: self._inbox.take_records(most), timeout)

    def poll_batches(self, timeout: float = 0.0) -> list[FetchedBatch]:
        """As ``poll``, whole batches with their columns: the fast way for much data."""
        return self._first(lambda: self._inbox.take_batches(BATCHES_BYTES), timeout)

    def __iter__(self) -> Iterator[Record]:
        while not self._closed:
            try:
                chunk = self._first(self._inbox.chunk, self._patience_s)
            except ClientClosed:
                return
            if chunk is None:
                return
            yield from chunk

    def _poke(self) -> None:
        self._thread.loop.call_soon_threadsafe(self._twin.poke)

    def _first(self, take: Callable[[], R], timeout: float) -> R:
        """What ``take`` finds, waiting until it finds something; what it gives for nothing when time is over."""
        deadline = time.monotonic() + timeout
        while True:
            if self._closed:
                raise forked_error() if self._thread.lost else ClientClosed("the consumer is closed")
            self._twin.check_open()
            self._data.clear()
            with self._taking:
                if taken := take():
                    return taken
            left = deadline - time.monotonic()
            if left <= 0:
                break
            refuse_on_loop_thread()
            if not self._closed:
                self._data.wait(min(left, LONG_S))
        if timeout > 0:
            self._twin.raise_trouble()
        return taken

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
        self._thread.clients.add(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Admin":
        """From Kafka's own names: ``{"bootstrap.servers": ...}``."""
        return cls(**config)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._thread.lost:
            self._thread.run(self._twin.close())

    def close_at_exit(self, timeout: float) -> bool:
        self.close()
        return False  # no record is lost by it

    def forked(self, why: OttlaError) -> None:
        """Nothing to do: whatever is asked of it from now on is refused by the loop thread."""

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

    def add_partitions(self, name: str, count: int, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Let a topic have ``count`` partitions, more than it has. Keys may go to other partitions from then on."""
        self._thread.run(self._twin.add_partitions(name, count, timeout=timeout))

    def alter_topic_config(self, name: str, config: Mapping[str, str], *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Replace a topic's settings by these."""
        self._thread.run(self._twin.alter_topic_config(name, config, timeout=timeout))

    def reassign(
        self, name: str, partition: int, replicas: Iterable[int], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Begin to move a partition to other brokers, the preferred leader first; describe_topic shows when it is done."""
        self._thread.run(self._twin.reassign(name, partition, replicas, timeout=timeout))

    def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Give leadership back to preferred leaders; ``unclean``: see ``AsyncAdmin.elect_leaders``, it loses records."""
        self._thread.run(self._twin.elect_leaders(partitions, unclean=unclean, timeout=timeout))

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
