"""A broker's answers without a broker: real handlers and dispatch over real logs; no ZooKeeper, no socket, no process."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.api.consumer_sessions import ConsumerSessions
from ottla.broker.api.delete_records import DeleteRecordsHandler
from ottla.broker.api.describe_producers import DescribeProducersHandler
from ottla.broker.api.dispatch import Dispatch, Route
from ottla.broker.api.fetch import FetchHandler
from ottla.broker.api.leader_epochs import OffsetForLeaderEpochHandler
from ottla.broker.api.metadata import MetadataHandler
from ottla.broker.api.offsets import ListOffsetsHandler
from ottla.broker.api.produce import ProduceHandler
from ottla.broker.api.replica_fetch import ReplicaFetchHandler
from ottla.broker.api.who_may import consumers_and_the_replica_itself, everybody
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.purgatory import Purgatories
from ottla.broker.replication.fetch_sessions import FetchSessions
from ottla.broker.replication.log_start_loop import LogStartLoop
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.net.principal import ANONYMOUS, Principal
from ottla.net.reply import Later, LaterFromFuture, Reply, Turn
from ottla.wire.control import PartitionState, TopicConfig, UpdateMetadataRequest
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError, error_for
from ottla.wire.messages import Api, BrokerEndpoint, Failure, Message, Request
from ottla.wire.native import NATIVE
from ottla.wire.records import encode_batch
from ottla.wire.requests import (
    FetchPart,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    ProducePart,
    ProducePartResult,
    ProduceRequest,
    ProduceResponse,
)
from tests.support.clocks import wall_ms

HERE, THERE = 1, 2
"""The broker that is asked, and another one."""

M = TypeVar("M", bound=Message)


class Peer:
    """A connection as handlers see it: what they do to it is noted, and it takes every answer unless ``stalled``."""

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.principal = principal
        self.in_hand = None
        self.listener = "CLIENTS"
        self.ip = "127.0.0.1"
        self.closed = False
        self.refused = ""
        self.stalled = False

    def close(self) -> None:
        self.closed = True

    def refuse(self, why: str) -> None:
        self.refused = why

    def takes(self, later: Later) -> bool:
        later.held_back = self.stalled
        return not self.stalled


class Asked:
    """A request on its way: ``reply`` once it is answered."""

    def __init__(self, later: Later | None, reply: Reply | None) -> None:
        self._later = later
        self._reply = reply

    @property
    def waits(self) -> bool:
        return self._later is not None and self._later.reply is None

    def hang_up(self) -> None:
        """The client has gone."""
        assert self._later is not None
        self._later.abandon()

    @property
    def reply(self) -> Reply | None:
        return self._later.reply if self._later is not None else self._reply


class Served:
    """One broker. It leads what it is told to by ``decide``, with ``isr`` and ``replicas`` as told."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.turn = Turn()
        self.events = PartitionEvents()
        self.unsure = False
        self._log_dir = LogDir.open(folder, broker_id=HERE, cluster_id="c", config_for=lambda _: LogConfig())
        self.partitions = Partitions(HERE, [self._log_dir], LogConfig(**config), 1, self.events)
        self.purgatories = Purgatories(self.turn)
        self.metrics = metrics = Metrics()
        sessions = FetchSessions(self.partitions, self.turn, metrics.bytes_out)
        self.events.on_grown.append(sessions.partition_changed)
        self.events.on_committed += [self.purgatories.partition_changed, sessions.partition_committed]
        self.events.on_changed += [self.purgatories.partition_changed, sessions.partition_changed]
        self.log_starts = LogStartLoop([self._log_dir])
        self.events.on_changed.append(self.purgatories.start_changed)
        self.events.on_start_moved += [self.log_starts.start_moved, sessions.partition_committed]
        self.events.on_start_kept.append(self.purgatories.start_changed)
        self.view = ClusterView("c")
        produce = ProduceHandler(
            self.partitions, self.view, self.purgatories.produce, metrics, lambda: self.unsure, wall_ms
        )
        for_replicas = ReplicaFetchHandler(sessions, lambda partition: None)
        self.consumers = ConsumerSessions(self.partitions, self.view, self.purgatories.fetch, metrics.bytes_out)
        self.events.on_committed.append(self.consumers.partition_changed)
        self.events.on_changed.append(self.consumers.partition_changed)
        self.events.on_start_moved.append(self.consumers.partition_changed)
        fetch = FetchHandler(self.partitions, self.view, self.purgatories.fetch, metrics, for_replicas, self.consumers)
        self._dispatch = Dispatch(
            {
                Api.PRODUCE: Route(produce, everybody),
                Api.FETCH: Route(fetch, consumers_and_the_replica_itself),
                Api.LIST_OFFSETS: Route(ListOffsetsHandler(self.partitions, self.view), everybody),
                Api.OFFSET_FOR_LEADER_EPOCH: Route(OffsetForLeaderEpochHandler(self.partitions, self.view), everybody),
                Api.DELETE_RECORDS: Route(
                    DeleteRecordsHandler(self.partitions, self.view, self.purgatories.delete_records), everybody
                ),
                Api.DESCRIBE_PRODUCERS: Route(DescribeProducersHandler(self.partitions, self.view, wall_ms), everybody),
                Api.METADATA: Route(MetadataHandler(self.view), everybody),
            },
            metrics,
        )
        self._decisions = 0

    async def close(self) -> None:
        await self.log_starts.stop()
        await self.partitions.close()

    # --- what the controller would say ---------------------------------------------------------------------------------

    async def decide(
        self,
        topic: str = "t",
        partition: int = 0,
        *,
        leader: int = HERE,
        epoch: int = 0,
        replicas: Sequence[int] = (HERE,),
        isr: Sequence[int] | None = None,
        elr: Sequence[int] = (),
        **config: str,
    ) -> None:
        """Decide about a partition, and tell this broker as far as it has a replica."""
        self._decisions += 1
        settings = {name.replace("_", "."): value for name, value in config.items()}
        topic_id = f"id-of-{topic}"
        state = PartitionState(
            topic,
            topic_id,
            partition,
            leader,
            epoch,
            list(replicas),
            list(isr or replicas),
            self._decisions,
            1,
            list(elr),
        )
        topics = [TopicConfig(topic, topic_id, settings)]
        if HERE in replicas:
            assert await self.partitions.apply([state], topics) == {}
        brokers = [BrokerEndpoint(broker, "host", 9092) for broker in (HERE, THERE)]
        full = self._decisions == 1
        self.view.update(UpdateMetadataRequest(HERE, 1, 1, full, brokers, topics, [state], [], self._decisions))

    def partition(self, topic: str = "t", partition: int = 0) -> Partition:
        found = self.partitions.get(topic, partition)
        assert found is not None
        return found

    # --- asking --------------------------------------------------------------------------------------------------------

    def ask(self, request: Request, records: Sequence[bytes | bytearray] = (), peer: Peer | None = None) -> Asked:
        """One request, as if it had come alone: whatever it leads to in its turn has happened when this returns."""
        attachments = [memoryview(bytearray(each)) for each in records]
        incoming = IncomingRequest(NATIVE, int(request.api), 0, 1, "test", request, attachments)
        self.turn.begin()
        try:
            answer = self._dispatch(incoming, peer or Peer())
        finally:
            self.turn.end()
        if isinstance(answer, asyncio.Future):
            answer = LaterFromFuture(answer)
        return Asked(answer, None) if isinstance(answer, Later) else Asked(None, answer)

    def answer(self, request: Request, kind: type[M], records: Sequence[bytes | bytearray] = ()) -> M:
        """The answer of a request that is answered at once; its error is raised."""
        return message_of(self.ask(request, records), kind)

    def produce(
        self, batch: bytes | bytearray, topic: str = "t", partition: int = 0, *, acks: int = 1, timeout_ms: int = 1000
    ) -> ProducePartResult:
        parts = [ProducePart(topic, partition, len(batch))]
        (result,) = self.answer(ProduceRequest(acks, timeout_ms, parts), ProduceResponse, [batch]).parts
        return result

    def fetch(self, offset: int, topic: str = "t", partition: int = 0, *, epoch: int = -1) -> FetchPartResult:
        part = FetchPart(topic, partition, offset, 1 << 20, epoch)
        (result,) = self.answer(FetchRequest(0, 1, 1 << 20, [part]), FetchResponse).parts
        return result


def message_of(asked: Asked, kind: type[M]) -> M:
    reply = asked.reply
    assert reply is not None, "it is not answered yet"
    if reply.error is not None:
        raise reply.error
    assert isinstance(reply.message, kind)
    return reply.message


def error_of(result: Failure) -> type[OttlaError] | None:
    return type(error_for(result.error_code)) if result.error_code else None


def batch_of(*values: bytes) -> bytearray:
    return encode_batch(values or (b"value",), timestamps=int(time.time() * 1000))


async def with_partitions(served: Served, count: int) -> None:
    for partition in range(count):
        await served.decide(partition=partition)


def append(served: Served, partition: int, count: int = 1) -> int:
    """Batches of one size, in one turn; the size."""
    batch = batch_of(b"x" * 1000)
    served.turn.begin()
    for _ in range(count):
        served.produce(batch, partition=partition).raise_if_failed()
    served.turn.end()
    return len(batch)
