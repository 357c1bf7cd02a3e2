"""The asyncio consumer. It reads the partitions it is told, all of its topics', or those that its group gives it."""

import asyncio
import re
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import isawaitable
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, cast

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig, build, require
from ottla.client.consuming.fetch_loop import FetchLoop
from ottla.client.consuming.group_reading import GroupReading, Offsets, as_offsets
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.offset_lookups import OffsetLookups
from ottla.client.consuming.places import Place, check_topics, place_and_offset, place_of, places_of
from ottla.client.consuming.subscription import UNKNOWN, Subscription
from ottla.client.groups.commits import OffsetAndMetadata
from ottla.client.groups.hand_over import RebalanceListener
from ottla.client.offsets import list_offsets
from ottla.client.options import ConsumerOptions, documented
from ottla.client.records import FetchedBatch, K, Record, V
from ottla.wire.errors import ClientClosed, ClientTimeout, ConfigError
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

R = TypeVar("R")

DEFAULT_TIMEOUT_S = 30.0
LONG_S = 3600.0
"""For ever is waited for in pieces that every clock can count."""

BATCHES_BYTES = 4 * 1024 * 1024
"""About how much one poll_batches gives."""


@documented(ConsumerConfig)
class AsyncConsumer(OffsetLookups, Generic[K, V]):
    """Reads records.

    async with AsyncConsumer("orders", bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
        async for record in consumer: ...
    """

    _ended = True  # until it is made

    def __init__(
        self,
        *topics: str,
        key_deserializer: Callable[[Any], K] | None = None,
        value_deserializer: Callable[[Any], V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        given = {**options, "key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        self._config = build(ConsumerConfig, given)
        check_topics(topics)
        self._cluster = Cluster(self._config)
        self._subscription = Subscription(topics)
        self._data = asyncio.Event()
        self._inbox = Inbox(self._config, on_data=self._data.set)
        self._fetch_loop = FetchLoop(self._config, self._cluster, self._subscription, self._inbox)
        # Invariant: nothing that runs refers to the consumer itself, so that one that nobody has any more is noticed.
        self._inbox.on_room = self._fetch_loop.room_again
        self._group: GroupReading | None = None
        self._blocking = False
        """Whether a blocking consumer stands in front, in whose thread listeners are called."""
        self._stepping = asyncio.Lock()
        self._in_listener: asyncio.Task[Any] | None = None
        if self._config.group_id:
            self._group = GroupReading(self._config, self._cluster, self._subscription, self._inbox, self._fetch_loop)
        self._closed = self._ended = False
        self._ending = asyncio.Lock()
        if topics and self._group is not None:
            self._group.subscribe(self._subscription.topics, None, None)
        if topics:
            self._fetch_loop.start()

    @classmethod
    def from_config(cls, topics: Iterable[str], config: Mapping[str, Any]) -> "AsyncConsumer":
        """From Kafka's own names: ``{"bootstrap.servers": ..., "auto.offset.reset": "earliest"}``."""
        return cls(*topics, **cast(Any, config))

    def __del__(self) -> None:
        if not self._ended:
            if self._group is not None:
                self._group.abandon()
            self._fetch_loop.abandon()
            warnings.warn("an AsyncConsumer that nobody has any more was not closed", ResourceWarning, 2, source=self)

    async def __aenter__(self) -> "AsyncConsumer[K, V]":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncConsumer of {self._reads()}{' (closed)' if self._closed else ''}>"

    def _reads(self) -> str:
        group = f", in group {self._config.group_id}" if self._config.group_id else ""
        reads = ", ".join(map(str, self._subscription.assigned)) or ", ".join(self._subscription.topics)
        return f"{reads or 'nothing yet'} at {self._cluster.servers()}{group}"

    async def close(self) -> None:
        """Stop reading. A member of a group commits what it was given, if it does so by itself, and leaves.

        If it is cancelled, nothing is read any more and the group is not told: another ``close()`` does the rest.
        """
        async with self._ending:
            try:
                if not self._closed:
                    await self._hear_of_the_end()
            finally:  # whatever the listener does
                self._closed = True
                self._data.set()
                if not self._ended:
                    await self._end()

    async def _end(self) -> None:
        try:
            if self._group is not None:
                await self._group.close(self._group.positions())
            await self._fetch_loop.stop()
            await self._cluster.close()
        except asyncio.CancelledError:
            # Invariant: a member that nobody reads with does not live on; its session ends if nobody closes it again.
            if self._group is not None:
                self._group.member.cancel()
            self._fetch_loop.cancel()
            raise
        self._ended = True

    async def _hear_of_the_end(self) -> None:
        call = self._group.last_revocation() if self._group is not None and not self._blocking else None
        result = call(self._group.owned()) if call is not None and self._group is not None else None
        if isawaitable(result):
            await result

    # --- what to read ------------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | object | None = None,
    ) -> None:
        """Read these topics and no others: all their partitions or, in a group, this member's share of them.

        In a group: ``pattern``, a regular expression, takes all topics that it is found in. ``listener`` may have
        ``on_partitions_assigned``, ``on_partitions_revoked`` and ``on_partitions_lost``, plain or async, called while polling.
        """
        topics = [topics] if pattern is not None and isinstance(topics, str) else topics
        if self._group is None:
            if pattern is not None or listener is not None:
                raise ConfigError("a pattern or a listener is for members of a group", hint="give group_id")
            self._subscription.subscribe(topics)
        else:
            wanted = Subscription(topics).topics
            self._group.subscribe(wanted, re.compile(pattern) if pattern is not None else None, listener)
        self._look_again()

    async def assign(self, partitions: Iterable[Place]) -> None:
        """Read exactly these partitions; with a ``group_id``, from what was committed."""
        wanted = places_of(partitions)
        if self._group is not None:
            if self._group.shares:
                raise ConfigError("the group says what this consumer reads", hint="subscribe() or assign(), not both")
            new = [where for where in wanted if where not in self._subscription.assigned]
            found = await self._group.member.commits.committed(new, DEFAULT_TIMEOUT_S)
            for where, committed in found.items():
                self._subscription.seek_first(where, committed.offset)
        self._subscription.assign(wanted)
        self._look_again()

    async def assignment(self) -> set[TopicPartition]:
        return set(self._subscription.assigned)

    @property
    def generation(self) -> int:
        """Of the group, as this member knows it; -1 while it is in none."""
        return self._group.member.generation if self._group is not None else -1

    async def seek(self, topic: str | Place, partition: int | None = None, offset: int | None = None) -> None:
        """Go on reading at ``offset``; before the partition is assigned, begin there. Or ``seek(TopicPartition, offset)``."""
        where, to = place_and_offset(topic, partition, offset)
        if self._group is not None:
            self._group.check_heard(where)
        self._subscription.seek(where, to)
        self._look_again(start=False)

    async def seek_to_beginning(self, *partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Read these from their beginning; all that are assigned, if none is named."""
        await self._seek_all(EARLIEST, places_of(partitions), timeout)

    async def seek_to_end(self, *partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Read only what comes from now on of these; of all that are assigned, if none is named."""
        await self._seek_all(LATEST, places_of(partitions), timeout)

    async def position(
        self, topic: str | Place, partition: int | None = None, timeout: float = DEFAULT_TIMEOUT_S
    ) -> int:
        """The offset of the record that comes next; of a TopicPartition, or of a topic's partition."""
        where = place_of(topic, partition)

        def known() -> bool:
            state = self._subscription.assigned.get(where)
            return self._assignment_known() if state is None else state.fetch_offset != UNKNOWN

        await self._prepared(known, timeout, f"no position of {where}")
        return self._inbox.position(self._subscription.state(where))

    async def pause(self, *partitions: Place | Iterable[Place]) -> None:
        """Give and fetch nothing more of these until ``resume``."""
        for where in places_of(partitions):
            self._inbox.position(self._subscription.state(where))
            self._subscription.pause(where)
        self._look_again(start=False)

    async def resume(self, *partitions: Place | Iterable[Place]) -> None:
        for where in places_of(partitions):
            self._subscription.resume(where)
        self._look_again(start=False)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = 0.0, max_records: int | None = None) -> list[Record[K, V]]:
        """Records that have come, at most ``max_records``; waits up to ``timeout`` s for the first. Empty if none came.

        Without a timeout (None) it waits until one comes.
        """
        most = self._poll_limit(max_records)
        return await self._first(lambda: self._inbox.take_records(most), timeout) or []

    async def poll_batches(self, timeout: float | None = 0.0) -> list[FetchedBatch]:
        """As ``poll``, whole batches with their columns: the fast way for much data."""
        return await self._first(lambda: self._inbox.take_batches(BATCHES_BYTES), timeout) or []

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        patience_s = self._config.consumer_timeout_ms / 1000
        while not self._closed:
            try:
                chunk = await self._first(self.next_chunk, patience_s)
            except ClientClosed:
                return
            if chunk is None:
                return
            for record in chunk:
                yield record

    def next_chunk(self) -> Iterator[Record[K, V]] | None:
        """For loops: what is at hand of a batch; for a member no more than a poll gives, then its group may want something."""
        return self._inbox.chunk(self._config.max_poll_records if self._group is not None else None)

    async def _first(self, take: Callable[[], R], timeout: float | None) -> R:
        """What ``take`` finds, waiting until it finds something; what it gives for nothing when time is over."""
        timeout = float("inf") if timeout is None else timeout
        deadline = time.monotonic() + timeout
        while True:
            self._check_open()
            self._data.clear()
            if self._group is not None:
                await self._group_polls(self._group)
            if taken := take():
                return taken
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(min(left, LONG_S)):
                    with self._waiting():
                        await self._data.wait()
            except TimeoutError:
                pass
        if timeout > 0:
            self._raise_trouble()
        else:
            await asyncio.sleep(0)  # a loop that only ever looks must not keep records from coming
        return taken

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Whoever waits for records polls, however long it waits."""
        if self._group is None:
            yield
            return
        member = self._group.member
        member.polling = True
        try:
            yield
        finally:
            member.polled_at, member.polling = time.monotonic(), False

    async def _group_polls(self, group: GroupReading) -> None:
        """What the group wants of a reader comes before more records."""
        if self._in_listener is asyncio.current_task():
            raise ConfigError("a rebalance listener cannot poll", hint="it may seek, commit and look at positions")
        group.polls()
        async with self._stepping:  # two tasks may poll: each step is taken once
            while (step := group.steps.next) is not None:
                self._in_listener = asyncio.current_task()
                try:
                    if group.commits_before(step):
                        await group.commit_revoked(step, group.positions())
                    call = step.listener_call(group.listener)
                    result = call(set(step.partitions)) if call is not None else None
                    if isawaitable(result):
                        await result
                except Exception:  # whatever the listener does, the group goes on
                    await group.finish(step)
                    raise
                else:  # whoever was cancelled has not done what it must: the next poll takes this step
                    await group.finish(step)
                finally:
                    self._in_listener = None
        if offsets := group.due_offsets():
            group.commit_soon(offsets)

    def _poll_limit(self, max_records: int | None) -> int:
        if max_records is None:
            return self._config.max_poll_records
        require(max_records > 0, "max_records", max_records, "1 or more")
        return max_records

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if not self._fetch_loop.started:
            raise ConfigError("the consumer was given nothing to read", hint="name topics, subscribe() or assign()")

    def _raise_trouble(self) -> None:
        """Nothing came in time: if there is nothing that could be read, say why."""
        trouble = self._inbox.trouble or (self._group.trouble if self._group is not None else None)
        if trouble is not None and not self._subscription.readable:
            text = self._cluster.with_tried(str(trouble))
            raise type(trouble)(text, topic=trouble.topic, partition=trouble.partition)

    # --- what was read, in a group ---------------------------------------------------------------------------------------

    async def commit(self, what: Record | Offsets | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Commit everything that was given so far; or up to a record; or ``{TopicPartition(...): next offset}``.

        Raises IllegalGeneration, or another error of its kind, if the group has gone on without this member.
        """
        group = self._require_group()
        await group.commit(group.positions(known_too=True) if what is None else as_offsets(what), timeout)

    async def committed(
        self, partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these, or of one."""
        wanted = places_of([partitions])
        found = await self._require_group().member.commits.committed(wanted, timeout)
        return {where: found.get(where) for where in wanted}

    def _require_group(self) -> GroupReading:
        if self._group is None:
            raise ConfigError("this consumer is in no group", hint="give group_id")
        return self._group

    # --- inside ------------------------------------------------------------------------------------------------------

    def _look_again(self, *, start: bool = True) -> None:
        """What to read, or from where, is not what it was: what was at hand and what was wrong may be so no more."""
        self._inbox.trouble = None
        self._inbox.drop_stale()
        if start:
            self._fetch_loop.start()
        else:
            self._fetch_loop.poke()

    def _assignment_known(self) -> bool:
        return self._subscription.by_hand or bool(self._subscription.assigned)

    async def _prepared(self, enough: Callable[[], bool], timeout: float, what: str) -> None:
        self._check_open()
        try:
            async with asyncio.timeout(timeout) as timer:
                await self._fetch_loop.prepared(enough)
        except TimeoutError:
            if not timer.expired():
                raise
            self._raise_trouble()
            raise ClientTimeout(self._cluster.with_tried(f"{what} within {timeout:g} s")) from None

    async def _seek_all(self, to: int, partitions: list[TopicPartition], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        await self._prepared(self._assignment_known, timeout, "no partitions are known")
        wanted: dict[TopicPartition, int] = dict.fromkeys(partitions or self._subscription.assigned, to)
        for topic in {where.topic for where in wanted}:
            await self._cluster.topic(topic, deadline - time.monotonic())
        found = await list_offsets(self._cluster, wanted, deadline - time.monotonic())
        for where, (offset, _) in found.items():
            self._subscription.seek(where, offset)
        self._look_again(start=False)
