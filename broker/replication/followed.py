"""What is fetched from one leader: which partitions, what to ask for them, and what to do with what comes.

Nothing here waits: an answer is taken, and the next request sent, within one turn of the event loop. All of it is compiled.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.broker.peers import Identity
from ottla.broker.replication.partition import Partition
from ottla.net.channel import Channel
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

FETCH_WAIT_MS = 500
FETCH_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 2 * 1024 * 1024

FIRST_PARTITION_RETRY_S, LAST_PARTITION_RETRY_S = 0.005, 0.2
"""How long a partition whose fetch failed is left alone; most often its leader has not heard of it yet, and will at once."""

Rest = asyncio.Future[list[Partition]]
"""Done when fetching must pause: with the partitions that must be on disk first, none if nothing is due, or what went wrong."""


class FollowedPartitions:
    """The partitions that one leader leads and this broker follows."""

    def __init__(self, leader: int, identity: Callable[[], Identity]) -> None:
        self._leader = leader
        self._identity = identity
        self._partitions: dict[TopicPartition, Partition] = {}
        self._not_before: dict[TopicPartition, float] = {}
        self._waits: dict[TopicPartition, Iterator[float]] = {}
        self.asked_at = 0.0

    def add(self, partition: Partition) -> None:
        self._partitions[partition.where] = partition
        self._not_before.pop(partition.where, None)
        self._waits.pop(partition.where, None)

    def drop(self, partition: Partition) -> None:
        self._partitions.pop(partition.where, None)
        self._waits.pop(partition.where, None)

    def due(self) -> list[Partition]:
        if not self._not_before:
            return list(self._partitions.values())
        now = time.monotonic()
        self._not_before = {where: at for where, at in self._not_before.items() if at > now}
        return [partition for where, partition in self._partitions.items() if where not in self._not_before]

    def next_retry_s(self) -> float | None:
        """When the next of the partitions that are left alone is to be tried again."""
        return max(0.001, min(self._not_before.values()) - time.monotonic()) if self._not_before else None

    def ask(self, channel: Channel, rest: Rest) -> None:
        """Fetch, each time as soon as the answer before is there, until ``rest`` is done."""
        partitions = self.due()
        if not partitions:
            rest.set_result([])
            return
        identity = self._identity()
        parts = [partition.next_fetch(PARTITION_BYTES) for partition in partitions]
        wait_ms = FETCH_WAIT_MS
        if self._not_before:  # whoever is left alone for a moment must not wait until the others have something to say
            wait_ms = min(wait_ms, max(1, int((self.next_retry_s() or 0) * 1000)))
        request = FetchRequest(wait_ms, 1, FETCH_BYTES, parts, identity.broker_id, identity.broker_epoch)
        self.asked_at = time.monotonic()
        channel.call(request, lambda answer: self._answered(answer, channel, partitions, parts, rest))

    def _answered(
        self,
        answer: Answer | OttlaError,
        channel: Channel,
        partitions: list[Partition],
        parts: list[FetchPart],
        rest: Rest,
    ) -> None:
        """Take what has come and ask for more at once: a record is copied within one turn of the event loop."""
        if rest.done():
            return
        try:
            if isinstance(answer, OttlaError):
                raise answer
            unsafe = self._take_all(partitions, parts, answer)
            if unsafe:
                rest.set_result(unsafe)
            else:
                self.ask(channel, rest)
        except Exception as error:
            rest.set_exception(error)

    def _take_all(self, partitions: list[Partition], parts: list[FetchPart], answer: Answer) -> list[Partition]:
        """Those that must be flushed before the leader hears of what they took."""
        results = cast(FetchResponse, answer.message).parts
        unsafe = []
        for partition, part, result, records in zip(partitions, parts, results, answer.attachments, strict=True):
            if self._partitions.get(partition.where) is partition:
                self._take(partition, part, result, records)
                if partition.durable and partition.log.flushed_up_to < partition.log.log_end_offset:
                    unsafe.append(partition)
        return unsafe

    def _take(self, partition: Partition, part: FetchPart, result: FetchPartResult, records: memoryview) -> None:
        try:
            partition.take_fetched(part, result, records)
            if self._waits:
                self._waits.pop(partition.where, None)
        except OttlaError as error:
            logger.info("partition cannot follow partition=%s leader=%d error=%s", partition.where, self._leader, error)
            waits = self._waits.setdefault(partition.where, backoff(FIRST_PARTITION_RETRY_S, LAST_PARTITION_RETRY_S))
            self._not_before[partition.where] = time.monotonic() + next(waits)
