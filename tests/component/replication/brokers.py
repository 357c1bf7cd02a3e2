"""A leader and its followers in one process: all of it real, but no ZooKeeper, no controller and no socket."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.api.consumer_sessions import ConsumerSessions
from ottla.broker.api.dispatch import Dispatch, Route
from ottla.broker.api.fetch import FetchHandler
from ottla.broker.api.replica_fetch import ReplicaFetchHandler
from ottla.broker.api.who_may import consumers_and_the_replica_itself
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.peers import Identity
from ottla.broker.purgatory import Purgatories
from ottla.broker.replication import fetch_loop, followed
from ottla.broker.replication.fetch_loop import Fetchers
from ottla.broker.replication.fetch_sessions import FetchSession, FetchSessions
from ottla.broker.replication.log_start_loop import LogStartLoop
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.state import LeaderState
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.flush_loop import Flusher
from ottla.broker.storage.log_config import LogConfig
from ottla.net.channel import Channel
from ottla.net.reply import Turn
from ottla.net.server import Server
from ottla.wire.batch import MAGIC_KAFKA, Codec, build_batch
from ottla.wire.control import PartitionState, StopReplicaPart
from ottla.wire.messages import Api, BrokerEndpoint
from ottla.wire.names import TopicPartition
from ottla.wire.payload_check import STREAM_BEGINS
from tests.component.replication.line import Line, Name
from tests.support.waiting import eventually

LEADER = 1
FETCH_WAIT_MS = 10_000
"""So long that nothing which happens in a test happens because a fetch has waited long enough."""


class Broker:
    """The partitions of one broker."""

    def __init__(self, broker_id: int, folder: Path, config: LogConfig) -> None:
        self.id = broker_id
        self.events = PartitionEvents()
        self.events.on_role.append(self.role_changed)
        log_dir = LogDir.open(folder, broker_id=broker_id, cluster_id="c", config_for=lambda _: config)
        self.partitions = Partitions(broker_id, [log_dir], config, 1, self.events)
        self.log_starts = LogStartLoop([log_dir])
        self.events.on_start_moved.append(self.log_starts.start_moved)
        self.events.on_start_kept.append(self.role_changed)

    def role_changed(self, partition: Partition) -> None:
        pass

    def partition(self, where: TopicPartition) -> Partition:
        found = self.partitions.get(*where)
        assert found is not None
        return found

    def append(self, where: TopicPartition, batches: int = 1, payload: int = 30) -> None:
        """Records of a producer, each batch unlike all others."""
        partition = self.partition(where)
        for _ in range(batches):
            mark = f"{where} {partition.leader_epoch} {partition.log.log_end_offset} {partition.log.topic_id} {self.id}"
            data = STREAM_BEGINS[Codec.ZSTD] + mark.encode().ljust(payload, b".")
            batch = build_batch(
                data, magic=MAGIC_KAFKA, attributes=Codec.ZSTD, count=1, first_timestamp=0, max_timestamp=0
            )
            partition.append(memoryview(batch), 0, all_must_ack=False)

    async def close(self) -> None:
        await self.log_starts.stop()
        await self.partitions.close()


class Leader(Broker):
    """Serves fetches, over lines."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LEADER, folder, LogConfig())
        metrics = Metrics()
        view = ClusterView("c")
        turn = Turn()
        self.purgatories = purgatories = Purgatories(turn)
        self.fetch_sessions = FetchSessions(self.partitions, turn, metrics.bytes_out)
        self.events.on_grown.append(self.fetch_sessions.partition_changed)
        self.events.on_committed += [purgatories.partition_changed, self.fetch_sessions.partition_committed]
        self.events.on_changed += [purgatories.partition_changed, self.fetch_sessions.partition_changed]
        self.events.on_start_moved.append(self.fetch_sessions.partition_committed)
        for_replicas = ReplicaFetchHandler(self.fetch_sessions, lambda partition: None)
        consumers = ConsumerSessions(self.partitions, view, purgatories.fetch, metrics.bytes_out)
        fetch = FetchHandler(self.partitions, view, purgatories.fetch, metrics, for_replicas, consumers)
        self._server = Server(Dispatch({Api.FETCH: Route(fetch, consumers_and_the_replica_itself)}, metrics), turn=turn)

    def connect(self, broker_id: int, **options: Any) -> Line:
        return Line(self._server, broker_id, **options)

    def leading(self, where: TopicPartition) -> LeaderState:
        leading = self.partition(where).leading
        assert leading is not None
        return leading

    @property
    def sessions(self) -> dict[int, FetchSession]:
        return dict(self.fetch_sessions._sessions)

    def named_by(self, replica: int) -> set[Name]:
        """What a follower is known to fetch."""
        return {name for name, cached in self.fetch_sessions._cached.items() if replica in cached}


class Follower(Broker):
    """Fetches from the leader what it is told to follow. ``lines`` are its connections so far, the last one in use."""

    def __init__(self, broker_id: int, folder: Path, config: LogConfig, leader: Leader) -> None:
        self.identity = Identity(broker_id, 100, "c", "")
        self.lines: list[Line] = []
        self._leader = leader
        self._fetchers = Fetchers(lambda: self.identity, lambda to: BrokerEndpoint(to, "leader", 9092), Flusher())
        super().__init__(broker_id, folder, config)

    @property
    def line(self) -> Line:
        return self.lines[-1]

    def role_changed(self, partition: Partition) -> None:
        self._fetchers.update(partition)

    def connect(self, **options: Any) -> Channel:
        self.lines.append(self._leader.connect(self.id, **options))
        return self.line.channel

    async def close(self) -> None:
        await self._fetchers.stop()
        await super().close()


class Cluster:
    """Decides as a controller does. Nobody hears of it before ``tell``."""

    def __init__(self, folder: Path, followers: Iterable[int], config: LogConfig) -> None:
        """``config`` is for the followers' logs."""
        self.leader = Leader(folder / "leader")
        self.followers = {
            broker: Follower(broker, folder / f"broker-{broker}", config, self.leader) for broker in followers
        }
        self.brokers: list[Broker] = [self.leader, *self.followers.values()]
        self.states: dict[TopicPartition, PartitionState] = {}
        self._decisions = 0

    @property
    def follower(self) -> Follower:
        """For tests that have one only."""
        (follower,) = self.followers.values()
        return follower

    def decide(self, where: TopicPartition, leader: int = LEADER) -> None:
        """Who leads it, in a new leader epoch."""
        self._decisions += 1
        known = self.states.get(where)
        epoch = known.leader_epoch + 1 if known is not None else 0
        topic_id = known.topic_id if known is not None else f"id-{self._decisions}"
        replicas = [broker.id for broker in self.brokers]
        self.states[where] = PartitionState(
            *(where.topic, topic_id, where.partition, leader, epoch, replicas, replicas, self._decisions, 1, [])
        )

    async def tell(self, broker: Broker, *partitions: TopicPartition) -> None:
        """Have a broker lead or follow these as was decided."""
        assert await broker.partitions.apply([self.states[where] for where in partitions], []) == {}

    async def stop(self, broker: Broker, where: TopicPartition, *, delete: bool = False) -> None:
        """Have a broker lead or follow this one no more."""
        state = self.states[where]
        part = StopReplicaPart(where.topic, state.topic_id, where.partition, state.leader_epoch, delete)
        await broker.partitions.stop([part])

    async def create(self, *partitions: TopicPartition) -> None:
        """Partitions that everybody knows, the leader first; it is quiet again when this returns."""
        for where in partitions:
            self.decide(where)
        for broker in self.brokers:
            await self.tell(broker, *partitions)
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until there is nothing that a follower does not know, and each waits for more."""
        await turns()
        await eventually(lambda: all(map(self._is_quiet, self.followers.values())))

    def _is_quiet(self, follower: Follower) -> bool:
        session = self.leader.sessions.get(follower.id)
        return session is not None and session.waiting is not None and not session.is_unaware


@asynccontextmanager
async def running_cluster(
    folder: Path,
    followers: Iterable[int] = (2,),
    fetch_wait_ms: int = FETCH_WAIT_MS,
    config: LogConfig | None = None,
) -> AsyncIterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        cluster = Cluster(folder, followers, config or LogConfig())

        async def connect(identity: Identity, endpoint: BrokerEndpoint, **options: Any) -> Channel:
            return cluster.followers[identity.broker_id].connect(**options)

        patch.setattr(fetch_loop, "connect_as_broker", connect)
        for module in (followed, fetch_loop):
            patch.setattr(module, "FETCH_WAIT_MS", fetch_wait_ms)
        try:
            yield cluster
        finally:
            for broker in reversed(cluster.brokers):
                await broker.close()


async def turns(count: int = 20) -> None:
    """Whatever is to happen without a timer has happened after so many turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)
