"""The blocking Consumer."""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from ottla.client.consuming.consumer import BATCHES_BYTES, DEFAULT_TIMEOUT_S, LONG_S, AsyncConsumer
from ottla.client.loop_thread import forked_error, refuse_on_loop_thread, shared_loop_thread
from ottla.client.records import FetchedBatch, Record
from ottla.wire.errors import ClientClosed, OttlaError
from ottla.wire.names import TopicPartition

R = TypeVar("R")


class Consumer:
    """Reads records.

    with Consumer("orders", bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
        for record in consumer: ...
    """

    _closed = True  # until it is made

    def __init__(self, *topics: str, **options: Any) -> None:
        self._thread = shared_loop_thread()
        self._data = threading.Event()
        self._twin = self._thread.call(lambda: AsyncConsumer(*topics, **options))
        self._inbox = self._twin.inbox
        self._inbox.on_data = self._data.set
        # Invariant: nothing that runs on the loop thread refers to self, so that a consumer that nobody has is noticed.
        self._inbox.on_room = partial(_call_there, self._thread.loop, self._inbox.on_room)
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

    def __del__(self) -> None:
        if not self._closed and not self._thread.lost:
            self._thread.close_unowned(self._twin.close)
            warnings.warn("a consumer that nobody has any more was not closed", ResourceWarning, 2, source=self)

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


def _call_there(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(callback)
