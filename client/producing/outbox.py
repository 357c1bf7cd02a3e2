"""What both producers share: turning what a user sends into records of a partition, in the caller's own thread."""

import itertools
import operator
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig, Serializer
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import Headers, ProducerBatch
from ottla.client.producing.delivery import RecordDelivery
from ottla.client.producing.partitioner import Picker, RoundRobin, Sticky, choose_partition, partitions_for_keys
from ottla.client.producing.record_lists import RecordList
from ottla.wire.batch import NO_TIMESTAMP
from ottla.wire.errors import InvalidTimestamp, UnknownTopicOrPartition
from ottla.wire.names import TopicPartition
from ottla.wire.requests import TopicMetadata

TIMESTAMP_MAX = 2**62
"""Differences of any two must fit into 64 bits, wherever they meet in a batch."""

Piece = tuple[Sequence[int], ProducerBatch]


class Route:
    """A topic's partitions as the partitioner wants them; made anew when the metadata is new."""

    __slots__ = ("_last_opened", "available", "metadata", "only", "partitions", "picker")

    def __init__(self, metadata: TopicMetadata, picker: Picker) -> None:
        self.metadata = metadata
        self.picker = picker
        self.partitions = [TopicPartition(metadata.name, partition.partition) for partition in metadata.partitions]
        led = [partition.partition for partition in metadata.partitions if partition.leader >= 0]
        self.available = led or [partition.partition for partition in metadata.partitions]
        self.only = self.partitions[self.available[0]] if len(self.available) == 1 else None
        """The partition of every record without a key, if there is no choice."""
        self._last_opened = -1

    def batch_opened(self, partition: int) -> None:
        """Tell the picker when a partition's batch is full: the one that opens another of the same partition."""
        if partition == self._last_opened:
            self.picker.next_batch()
        self._last_opened = partition


class Outbox:
    """Puts records into the accumulator. Knows a topic only once its metadata has come: ``knows`` first."""

    def __init__(self, config: ProducerConfig, cluster: Cluster) -> None:
        self._config = config
        self._cluster = cluster
        self._serialize_key = config.key_serializer
        self._serialize_value = config.value_serializer
        self._routes: dict[str, Route] = {}
        self._plain = config.key_serializer is None and config.value_serializer is None
        self._current: dict[str, Route] = {}  # those that follow from the metadata of this version
        self._version = -1
        self.accumulator = Accumulator(
            config.batch_size, config.buffer_memory, config.max_request_size, config.delivery_timeout_ms / 1000
        )
        self.on_opened: Callable[[], None] = lambda: None
        """Called when ``send_plain`` has opened a batch: the send loop must hear of it."""

    def knows(self, topic: str) -> bool:
        return topic in self._cluster.topics

    def add(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: object,
        timestamp_ms: object,
    ) -> tuple[ProducerBatch, int]:
        """Queue one record; the batch it is in and its place there."""
        route = self._route(topic)
        key_bytes = to_bytes("key", key, self._serialize_key)
        value_bytes = to_bytes("value", value, self._serialize_value)
        if key_bytes is None and partition is None:
            chosen = route.picker.pick(route.available)
        else:
            named = index_of(partition) if partition is not None else None
            chosen = choose_partition(key_bytes, named, len(route.partitions), route.available, route.picker)
        stamp = int(time.time() * 1000) if timestamp_ms is None else checked_timestamp(timestamp_ms)
        batch, index = self.accumulator.add(
            route.partitions[chosen], key_bytes, value_bytes, headers, stamp, time.monotonic()
        )
        if index == 0:
            route.batch_opened(chosen)
        return batch, index

    def send_plain(self, topic: str, value: object) -> RecordDelivery | None:
        """As ``add``, for bytes alone; None if something must be looked at first. Short, for it is called most."""
        if type(value) is not bytes:
            return None
        route = self._current.get(topic)
        accumulator = self.accumulator
        if (
            route is None
            or self._version != self._cluster.version
            or accumulator.pending_bytes >= accumulator.buffer_memory
        ):
            self._look_first(topic)
            return None
        where = route.only or route.partitions[route.picker.pick(route.available)]
        sent = accumulator.send_plain(where, value)
        if sent is not None:
            return sent
        batch, index = accumulator.add(where, None, value, None, time.time_ns() // 1_000_000, time.monotonic())
        if index == 0:
            route.batch_opened(where.partition)
            self.on_opened()
        return RecordDelivery(batch, index)

    def _look_first(self, topic: str) -> None:
        """See what ``send_plain`` may rely on from the next record on."""
        if self._version != self._cluster.version:
            self._current.clear()
            self._version = self._cluster.version
        if self._plain and topic in self._cluster.topics:
            self._current[topic] = self._route(topic)

    def add_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: object,
        timestamp_ms: object,
    ) -> tuple[int, list[Piece]]:
        """Queue many records; how many they were, and which of them are in which batch."""
        route = self._route(topic)
        value_list = all_bytes("value", values, self._serialize_value)
        key_list = all_bytes("key", keys, self._serialize_key) if keys is not None else None
        if key_list is not None and len(key_list) != len(value_list):
            raise ValueError(f"{len(value_list)} values with {len(key_list)} keys")
        stamp = int(time.time() * 1000) if timestamp_ms is None else checked_timestamp(timestamp_ms)
        now = time.monotonic()
        named = index_of(partition) if partition is not None else None
        spread = self._spread(route, len(value_list), key_list, named)
        lists: list[RecordList] = []
        for chosen, indexes in spread:
            some_values = (
                [value_list[index] for index in indexes] if type(indexes) is list else value_list[as_slice(indexes)]
            )
            some_keys = [key_list[index] for index in indexes] if key_list is not None else None
            lists.append((route.partitions[chosen], some_keys, some_values))
        pieces: list[Piece] = []
        for (_, indexes), batches in zip(spread, self.accumulator.add_lists(lists, stamp, now), strict=True):
            start = 0
            for batch in batches:
                pieces.append((indexes[start : start + len(batch)], batch))
                start += len(batch)
        return len(value_list), pieces

    def _spread(
        self, route: Route, count: int, keys: list[bytes | None] | None, partition: int | None
    ) -> list[tuple[int, Sequence[int]]]:
        """Which partition gets which of ``count`` records."""
        if count == 0:
            return []
        if partition is not None:
            return [
                (choose_partition(None, partition, len(route.partitions), route.available, route.picker), range(count))
            ]
        if keys is None or keys.count(None) == count:
            turns = route.picker.pick_many(route.available, min(count, len(route.available)))
            if count > len(turns):
                route.picker.pick_many(route.available, count % len(turns))  # the next record's turn comes after these
            distinct = list(dict.fromkeys(turns))
            route.picker.next_batch()
            if len(distinct) == 1:
                return [(distinct[0], range(count))]
            return [(chosen, range(turn, count, len(turns))) for turn, chosen in enumerate(turns)]
        hashed = iter(partitions_for_keys([key for key in keys if key is not None], len(route.partitions)))
        indexes: dict[int, list[int]] = {}
        for index, key in enumerate(keys):
            chosen = next(hashed) if key is not None else route.picker.pick(route.available)
            indexes.setdefault(chosen, []).append(index)
        return list(indexes.items())

    def _route(self, topic: str) -> Route:
        metadata = self._cluster.topics.get(topic)
        if metadata is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} is not known", topic=topic)
        route = self._routes.get(topic)
        if route is None or route.metadata is not metadata:
            picker = route.picker if route is not None else self._new_picker()
            route = self._routes[topic] = Route(metadata, picker)
        return route

    def _new_picker(self) -> Picker:
        start = random.randrange(1_000_000)
        return RoundRobin(start) if self._config.partitioner == "round_robin" else Sticky(start)


def as_slice(indexes: Sequence[int]) -> slice:
    assert isinstance(indexes, range)
    return slice(indexes.start, indexes.stop, indexes.step)


def index_of(partition: object) -> int:
    """A partition as users name it: any integer, numpy's too."""
    try:
        return operator.index(partition)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a partition must be an integer, not {partition!r}") from None


def checked_timestamp(timestamp_ms: object) -> int:
    try:
        stamp = operator.index(timestamp_ms)  # type: ignore[arg-type]
    except TypeError:
        stamp = NO_TIMESTAMP - 1
    if not NO_TIMESTAMP <= stamp <= TIMESTAMP_MAX:
        raise InvalidTimestamp(f"timestamp_ms={timestamp_ms!r} is not allowed; give milliseconds since 1970")
    return stamp


def to_bytes(what: str, value: Any, serialize: Serializer | None) -> bytes | None:
    if serialize is not None:
        value = serialize(value)
    if value is None or value.__class__ is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {what} must be bytes or None, not {type(value).__name__}; give a {what}_serializer to convert it"
    )


def all_bytes(what: str, values: Iterable[Any], serialize: Serializer | None) -> list[bytes | None]:
    listed = list(values)
    if serialize is None and set(map(type, listed)) <= {bytes, type(None)}:
        return listed
    return list(map(to_bytes, itertools.repeat(what), listed, itertools.repeat(serialize)))
