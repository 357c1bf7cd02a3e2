"""The task behind a slice that is read from brokers: it fetches ahead, from whoever leads, while its reader makes Arrow."""

import asyncio
import logging
import queue
import time
from collections.abc import Iterator
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig, build
from ottla.client.connections import FETCH_LANE
from ottla.client.consuming.fetched import unpack
from ottla.client.loop_thread import shared_loop_thread
from ottla.net.retry import backoff
from ottla.spark_jobs.clusters import cluster_for
from ottla.spark_jobs.errors import data_lost
from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.options import ReadOptions
from ottla.wire.errors import (
    ClientTimeout,
    LeaderNotAvailable,
    OffsetOutOfRange,
    OttlaError,
    UnknownTopicOrPartition,
)
from ottla.wire.names import NO_LEADER
from ottla.wire.records import RecordBatch
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

AHEAD = 2
"""How many answers wait for the reader: the next one is on its way while Arrow is made of this one."""

FIRST_FETCH_BYTES = 1024 * 1024
"""Before anything is known of how large the records are."""

GONE_S = 2.0
"""So long a topic must not be there, or be another, before its records count as lost: brokers hear of topics one by one."""

FETCH_WAIT_MS = 500
FETCH_SLACK_S = 5.0

OVERSHOOT = 1.2
"""The last fetch of a slice asks for so much more than its records are likely to have: asking once more takes longer."""

Fetched = list[RecordBatch]


class SliceFetchLoop:
    """Iterating over it gives the batches of one slice, as they were fetched together; in order, each once."""

    def __init__(self, options: ReadOptions, part: Slice) -> None:
        config = build(ConsumerConfig, dict(options.client))
        assert isinstance(config, ConsumerConfig)
        self._config = config
        self._fail_on_data_loss = options.fail_on_data_loss
        self._patience_s = options.poll_timeout_ms / 1000
        self._cluster: Cluster = cluster_for(options.client)
        self._part = part
        self._offset = part.start
        self._bytes_per_offset = 0.0
        self._ready: queue.SimpleQueue[Fetched | BaseException | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(AHEAD)
        self._progress_at = time.monotonic()
        self._gone_since: float | None = None

    def __iter__(self) -> Iterator[Fetched]:
        shared = shared_loop_thread()
        fetching = asyncio.run_coroutine_threadsafe(self._run(), shared.loop)
        try:
            while True:
                item = self._ready.get(
                    timeout=self._patience_s + self._config.request_timeout_ms / 1000 + FETCH_SLACK_S
                )
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                shared.loop.call_soon_threadsafe(self._room.release)
                yield item
        except queue.Empty:
            raise ClientTimeout(f"nothing came of {self._part.where} for {self._patience_s:g} s") from None
        finally:
            fetching.cancel()

    async def _run(self) -> None:
        try:
            while self._offset < self._part.end:
                await self._room.acquire()
                self._progress_at = time.monotonic()  # what the reader took its time for does not count
                self._ready.put(await self._next())
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)

    async def _next(self) -> Fetched:
        """The next batches, from whoever leads by then; raises once nothing has come for kafkaConsumer.pollTimeoutMs."""
        waits = backoff(self._config.retry_backoff_ms / 1000, self._config.retry_backoff_max_ms / 1000)
        last: OttlaError | None = None
        while time.monotonic() - self._progress_at < self._patience_s:
            try:
                batches = await self._fetch()
                if batches or self._offset >= self._part.end:
                    return batches
                continue  # the leader is new, and does not know yet how far is committed
            except OttlaError as error:
                if not (error.retriable or self._cluster.only_hung_up(error)):
                    raise
                if last is None:
                    logger.warning("reading %s is interrupted: %s", self._part.where, error)
                last = error
            await asyncio.sleep(next(waits))
            await self._look_again(quietly=True)
        why = f": {last}" if last is not None else "; a leader that has them all has not been seen"
        raise ClientTimeout(
            f"records of {self._part.where} from offset {self._offset} on, which were committed up to {self._part.end}, did "
            f"not come within kafkaConsumer.pollTimeoutMs={self._patience_s * 1000:g}{why}"
        )

    async def _look_again(self, *, quietly: bool = False) -> None:
        self._cluster.watched.add(self._part.topic)
        try:
            await self._cluster.refresh()
            self._check_topic()
        except OttlaError as error:
            if not (quietly and error.retriable):  # else the next attempt says what is wrong
                raise

    def _check_topic(self) -> None:
        """Whether it still is the topic that the slice is of; one broker that knows less than another is no proof."""
        topic = self._cluster.topics.get(self._part.topic)
        if topic is None:
            why = "was deleted"
        elif self._part.topic_id and topic.topic_id != self._part.topic_id:
            why = "was deleted and made anew"
        else:
            self._gone_since = None
            return
        if self._gone_since is None:
            self._gone_since = time.monotonic()
        if time.monotonic() - self._gone_since < GONE_S:
            raise UnknownTopicOrPartition(f"topic {self._part.topic!r} {why}, by what one broker says")
        self._lost(f"topic {self._part.topic!r} {why} while it was read", self._part.end)

    def _lost(self, what: str, go_on_at: int) -> None:
        """Some of the records are gone: raise, or go on behind them."""
        logger.warning("%s", data_lost(what, self._fail_on_data_loss))
        self._offset = max(self._offset, min(go_on_at, self._part.end))

    async def _fetch(self) -> Fetched:
        part, cluster = self._part, self._cluster
        topic = cluster.topics.get(part.topic)
        another = topic is not None and part.topic_id and topic.topic_id != part.topic_id
        if cluster.leader(part.where) is None or another:  # nobody of this process has read it yet, or it is new
            await self._look_again()
        if self._offset >= part.end:
            return []
        leader = cluster.leader(part.where)
        if leader is None:
            raise LeaderNotAvailable(f"{part.where} has no leader that is known")
        asked = self._offset
        channel = await cluster.channel(leader, FETCH_LANE)
        most = self._fetch_bytes()
        epoch = cluster.leader_epoch(part.where)
        wanted = FetchPart(part.topic, part.partition, asked, most, epoch, topic_id=part.topic_id)
        try:
            answer = await channel.request(
                FetchRequest(FETCH_WAIT_MS, 1, most, [wanted]), FETCH_WAIT_MS / 1000 + FETCH_SLACK_S
            )
        except ClientTimeout:
            await channel.close()  # answers come in order: behind this one nothing else would come either
            raise
        result = cast(FetchResponse, answer.message).parts[0]
        if result.error_code:
            return self._refused(result)
        return self._taken(answer.attachments[0])

    def _fetch_bytes(self) -> int:
        most = self._config.max_partition_fetch_bytes
        if not self._bytes_per_offset:
            return min(FIRST_FETCH_BYTES, most)
        left = self._part.end - self._offset
        return max(min(int(left * self._bytes_per_offset * OVERSHOOT) + 1, most), 1)

    def _taken(self, records: memoryview) -> Fetched:
        """The batches of an answer, none of them behind the end of the slice."""
        batches, error = unpack(self._part.where, records, self._offset, verify=self._config.check_crcs)
        if error is not None and not batches:
            raise error
        if batches:
            spread = batches[-1].next_offset - batches[0].base_offset
            self._bytes_per_offset = sum(batch.size for batch in batches) / spread
            self._offset = batches[-1].next_offset
            self._progress_at = time.monotonic()
        return [batch for batch in batches if batch.base_offset < self._part.end]

    def _refused(self, result: FetchPartResult) -> Fetched:
        where = self._part.where
        error = result.error(topic=where.topic, partition=where.partition)
        if isinstance(error, OffsetOutOfRange):
            begin = result.log_start_offset
            if 0 <= self._offset < begin:
                what = f"records of {where} from offset {self._offset} to {begin} were deleted before they were read"
                self._lost(what, begin)
            else:
                self._lost(f"{where} ends before offset {self._offset}, where it once had records", self._part.end)
            return []
        if result.leader != NO_LEADER:
            self._cluster.learn_leader(where, result.leader, result.leader_epoch, result.topic_id)
        raise error
