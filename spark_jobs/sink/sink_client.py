"""What a task of a write asks of the cluster."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future

from ottla.client.config import ProducerConfig, build
from ottla.client.loop_thread import shared_loop_thread
from ottla.client.named_writes import begin_write, end_write, end_writer
from ottla.client.numbered_batches import NumberedBatches
from ottla.spark_jobs.client_options import ClientOptions
from ottla.spark_jobs.clusters import APPEAR_S, cluster_for, unknown_topic, unreachable
from ottla.spark_jobs.sink.placing import TopicPlan
from ottla.wire.errors import ClientTimeout, UnknownTopicOrPartition
from ottla.wire.named_writes import BeginWriteResponse
from ottla.wire.names import TopicPartition
from ottla.wire.requests import InitProducerIdRequest, InitProducerIdResponse, TopicMetadata

CHUNK_BYTES = 8 * 1024 * 1024
"""Batches that are sent together, while those behind them are made."""

BATCH_SLACK = 4 * 1024
"""What a batch may have beside its rows."""

MAX_MESSAGE_DEFAULT = 1024 * 1024

TaskName = tuple[str, int, int]
"""A writer, its task, and the batch of it."""


class SinkClient:
    """For code without an event loop, on the connections that its process keeps."""

    def __init__(self, options: ClientOptions) -> None:
        self.config = build(ProducerConfig, dict(options))
        self._options = options
        self._thread = shared_loop_thread()
        self._cluster = cluster_for(options, ProducerConfig)
        self._timeout_s = self.config.max_block_ms / 1000

    def check_topic(self, topic: str) -> None:
        """ConfigError if it does not exist, soon: a task would wait for it to appear, as long as a producer does."""
        self._thread.run(self._check(topic, min(self._timeout_s, self.config.request_timeout_ms / 1000)))

    async def _check(self, topic: str, timeout_s: float) -> None:
        for patience_s in (min(APPEAR_S, timeout_s), timeout_s):  # brokers may be longer in coming than topics
            try:
                await self._cluster.topic(topic, patience_s)
                return
            except UnknownTopicOrPartition:
                raise await unknown_topic(self._cluster, f"topic={topic!r}", [topic]) from None
            except ClientTimeout:
                pass
        raise unreachable(self._cluster, self._options, timeout_s)

    def plan(self, topics: Iterable[str]) -> dict[str, TopicPlan]:
        """What is known of topics; UnknownTopicOrPartition if one does not exist."""
        return {topic: self._plan(self._thread.run(self._cluster.topic(topic, self._timeout_s))) for topic in topics}

    def _plan(self, topic: TopicMetadata) -> TopicPlan:
        allowed = int(topic.config.get("max.message.bytes", MAX_MESSAGE_DEFAULT))
        return TopicPlan(len(topic.partitions), max(1, min(self.config.batch_size, allowed - BATCH_SLACK)))

    def begin(self, name: TaskName, note: bytes) -> BeginWriteResponse:
        return self._thread.run(begin_write(self._cluster, *name, note, self._timeout_s))

    def end(self, name: TaskName) -> None:
        self._thread.run(end_write(self._cluster, *name, self._timeout_s))

    def end_all(self, writer: str) -> None:
        """No task of this writer is begun again."""
        self._thread.run(end_writer(self._cluster, writer, self._timeout_s))

    def new_producer_id(self) -> int:
        """For an attempt that no other one repeats."""

        async def ask() -> InitProducerIdResponse:
            return await self._cluster.ask_any(InitProducerIdRequest(), InitProducerIdResponse)

        return self._thread.run(self._cluster.retry(ask, self._timeout_s, "no producer id was given")).producer_id

    def send(self, batches: Iterator[tuple[TopicPartition, bytearray]]) -> int:
        """Send all batches, those of a partition in their order, while the next ones are made; how many bytes they were."""
        sender = NumberedBatches(self._cluster, self.config)
        on_the_way: Future[None] | None = None
        total = 0
        try:
            for chunk, size in _chunks(batches):
                if on_the_way is not None:
                    on_the_way.result()
                on_the_way = self._thread.begin(sender.send(chunk))
                total += size
            if on_the_way is not None:
                on_the_way.result()
            sender.finish()
        except BaseException:
            if on_the_way is not None:
                on_the_way.cancel()
            raise
        return total


def _chunks(
    batches: Iterator[tuple[TopicPartition, bytearray]],
) -> Iterator[tuple[dict[TopicPartition, list[bytearray]], int]]:
    chunk: dict[TopicPartition, list[bytearray]] = {}
    size = 0
    for where, batch in batches:
        chunk.setdefault(where, []).append(batch)
        size += len(batch)
        if size >= CHUNK_BYTES:
            yield chunk, size
            chunk, size = {}, 0
    if chunk:
        yield chunk, size
