"""The blocking Consumer."""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, cast

from ottla.client.config import ConsumerConfig
from ottla.client.consuming.consumer import BATCHES_BYTES, DEFAULT_TIMEOUT_S, LONG_S, AsyncConsumer
from ottla.client.consuming.group_reading import GroupReading, Offsets, as_offsets
from ottla.client.consuming.places import Place
from ottla.client.groups.commits import OffsetAndMetadata
from ottla.client.groups.hand_over import RebalanceListener
from ottla.client.loop_thread import forked_error, refuse_on_loop_thread, shared_loop_thread
from ottla.client.offsets import Lag, ask_lag
from ottla.client.options import ConsumerOptions, documented
from ottla.client.records import FetchedBatch, K, Record, V
from ottla.wire.errors import ClientClosed, ConfigError, OttlaError
from ottla.wire.names import TopicPartition

R = TypeVar("R")


@documented(ConsumerConfig)
class Consumer(Generic[K, V]):
    """Reads records.

    with Consumer("orders", bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
        for record in consumer: ...
    """

    _closed = True  # until it is made

    def __init__(
        self,
        *topics: str,
        key_deserializer: Callable[[Any], K] | None = None,
        value_deserializer: Callable[[Any], V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        given: Any = {**options, "key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        self._thread = shared_loop_thread()
        self._data = threading.Event()
        self._twin = self._thread.call(lambda: AsyncConsumer(*topics, **given))
        self._twin._blocking = True
        self._inbox = self._twin._inbox
        self._inbox.on_data = self._data.set
        # Invariant: nothing that runs on the loop thread refers to self, so that a consumer that nobody has is noticed.
        self._inbox.on_room = partial(_call_there, self._thread.loop, self._inbox.on_room)
        self._patience_s = self._twin._config.consumer_timeout_ms / 1000
        self._taking = threading.RLock()
        self._in_listener = False
        self._closed = False
        self._thread.clients.add(self)

    @classmethod
    def from_config(cls, topics: Iterable[str], config: Mapping[str, Any]) -> "Consumer":
        """From Kafka's own names: ``{"bootstrap.servers": ..., "auto.offset.reset": "earliest"}``."""
        return cls(*topics, **cast(Any, config))

    def __enter__(self) -> "Consumer[K, V]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Consumer of {self._twin._reads()}{' (closed)' if self._closed else ''}>"

    def close(self) -> None:
        """Stop reading. A member of a group commits what it was given, if it does so by itself, and leaves."""
        group = self._twin._group
        try:
            if group is not None and not self._closed and not self._thread.lost:
                revoked = group.last_revocation()
                if revoked is not None:
                    revoked(group.owned())
        finally:  # whatever the listener does
            self._closed = True
            self._data.set()
            if not self._thread.lost:
                self._end()

    def _end(self) -> None:
        try:
            self._thread.run(self._twin.close())
        except BaseException:
            self._thread.close_unowned(self._twin.close)  # Ctrl-C, say: the rest is done though nobody waits for it
            raise

    def _close_at_exit(self, timeout: float) -> bool:
        self.close()
        return False  # no record is lost by it

    def __del__(self) -> None:
        if not self._closed and not self._thread.lost:
            self._thread.close_unowned(self._twin.close)
            warnings.warn("a consumer that nobody has any more was not closed", ResourceWarning, 2, source=self)

    def _forked(self, why: OttlaError) -> None:
        self._closed = True

    # --- what to read ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | object | None = None,
    ) -> None:
        """Read these topics and no others: all their partitions or, in a group, this member's share of them.

        In a group: ``pattern``, a regular expression, takes all topics that it is found in. ``listener`` may have
        ``on_partitions_assigned``, ``on_partitions_revoked`` and ``on_partitions_lost``: called in your thread while you poll.
        """
        self._thread.run(self._twin.subscribe(topics, pattern=pattern, listener=listener))

    def assign(self, partitions: Iterable[Place]) -> None:
        """Read exactly these partitions."""
        self._thread.run(self._twin.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        return self._thread.run(self._twin.assignment())

    @property
    def generation(self) -> int:
        """Of the group, as this member knows it; -1 while it is in none."""
        return self._twin.generation

    def seek(self, topic: str | Place, partition: int | None = None, offset: int | None = None) -> None:
        """Go on reading at ``offset``; before the partition is assigned, begin there. Or ``seek(TopicPartition, offset)``."""
        self._thread.run(self._twin.seek(topic, partition, offset))

    def seek_to_beginning(self, *partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Read these from their beginning; all that are assigned, if none is named."""
        self._thread.run(self._twin.seek_to_beginning(*partitions, timeout=timeout))

    def seek_to_end(self, *partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Read only what comes from now on of these; of all that are assigned, if none is named."""
        self._thread.run(self._twin.seek_to_end(*partitions, timeout=timeout))

    def position(self, topic: str | Place, partition: int | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> int:
        """The offset of the record that comes next; of a TopicPartition, or of a topic's partition."""
        return self._thread.run(self._twin.position(topic, partition, timeout))

    def pause(self, *partitions: Place | Iterable[Place]) -> None:
        """Fetch nothing more of these until ``resume``."""
        self._thread.run(self._twin.pause(*partitions))

    def resume(self, *partitions: Place | Iterable[Place]) -> None:
        self._thread.run(self._twin.resume(*partitions))

    # --- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = 0.0, max_records: int | None = None) -> list[Record[K, V]]:
        """Records that have come, at most ``max_records``; waits up to ``timeout`` s for the first. Empty if none came.

        Without a timeout (None) it waits until one comes.
        """
        most = self._twin._poll_limit(max_records)
        return self._first(lambda: self._inbox.take_records(most), timeout)

    def poll_batches(self, timeout: float | None = 0.0) -> list[FetchedBatch]:
        """As ``poll``, whole batches with their columns: the fast way for much data."""
        return self._first(lambda: self._inbox.take_batches(BATCHES_BYTES), timeout)

    def __iter__(self) -> Iterator[Record[K, V]]:
        while not self._closed:
            try:
                chunk = self._first(self._twin.next_chunk, self._patience_s)
            except ClientClosed:
                return
            if chunk is None:
                return
            yield from chunk

    def _first(self, take: Callable[[], R], timeout: float | None) -> R:
        """What ``take`` finds, waiting until it finds something; what it gives for nothing when time is over."""
        timeout = float("inf") if timeout is None else timeout
        deadline = time.monotonic() + timeout
        while True:
            if self._closed:
                raise forked_error() if self._thread.lost else ClientClosed("the consumer is closed")
            self._twin._check_open()
            self._data.clear()
            with self._taking:
                if self._twin._group is not None:
                    self._group_polls(self._twin._group)
                if taken := take():
                    return taken
            left = deadline - time.monotonic()
            if left <= 0:
                break
            refuse_on_loop_thread()
            if not self._closed:
                with self._twin._waiting():
                    self._data.wait(min(left, LONG_S))
        if timeout > 0:
            self._twin._raise_trouble()
        return taken

    def _group_polls(self, group: GroupReading) -> None:
        """What the group wants of a reader comes before more records: in the caller's thread, as its listener expects."""
        if self._in_listener:
            raise ConfigError("a rebalance listener cannot poll", hint="it may seek, commit and look at positions")
        group.polls()
        while (step := group.steps.next) is not None:
            self._in_listener = True
            try:
                if group.commits_before(step):
                    self._thread.run(group.commit_revoked(step, group.positions()))
                call = step.listener_call(group.listener)
                if call is not None:
                    call(set(step.partitions))
            except Exception:  # whatever the listener does, the group goes on
                self._thread.run(group.finish(step))
                raise
            else:  # whoever was interrupted, by Ctrl-C say, has not done what it must: the next poll takes this step
                self._thread.run(group.finish(step))
            finally:
                self._in_listener = False
        if offsets := group.due_offsets():
            self._thread.loop.call_soon_threadsafe(group.commit_soon, offsets)

    # --- what was read, in a group -------------------------------------------------------------------------------------

    def commit(self, what: Record | Offsets | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Commit everything that was given so far; or up to a record; or ``{TopicPartition(...): next offset}``.

        Raises IllegalGeneration, or another error of its kind, if the group has gone on without this member.
        """
        group = self._twin._require_group()
        offsets = group.positions(known_too=True) if what is None else as_offsets(what)
        self._thread.run(group.commit(offsets, timeout))

    def commit_async(self, what: Record | Offsets | None = None) -> None:
        """As ``commit``, without waiting; what cannot be committed is told in the log."""
        group = self._twin._require_group()
        offsets = group.positions(known_too=True) if what is None else as_offsets(what)
        self._thread.loop.call_soon_threadsafe(group.commit_soon, offsets)

    def committed(
        self, partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these, or of one."""
        return self._thread.run(self._twin.committed(partitions, timeout))

    def lag(self, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, Lag]:
        """How far reading is behind, of each partition that is being read: in records, and in seconds.

        That is how many records are yet to be given, and how old the first of them is.
        """
        return self._thread.run(ask_lag(self._twin._cluster, self._twin._positions(), timeout))

    # --- looking up --------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return self._thread.run(self._twin.beginning_offsets(partitions, timeout))

    def end_offsets(
        self, partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return self._thread.run(self._twin.end_offsets(partitions, timeout))

    def offsets_for_times(
        self, times_ms: Mapping[tuple[str, int], int], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """The first offset at or after a time, with its timestamp; None where all records are older."""
        return self._thread.run(self._twin.offsets_for_times(times_ms, timeout))


def _call_there(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(callback)
