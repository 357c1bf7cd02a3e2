"""A broker, put together: builds the parts in order, stops them in reverse."""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

from ottla import __version__, compiled
from ottla.broker.admin.app import AdminServer
from ottla.broker.api.configs import ConfigHandlers
from ottla.broker.api.control import ControlHandlers
from ottla.broker.api.dispatch import ApiHandler, Dispatch
from ottla.broker.api.fetch import FetchHandler
from ottla.broker.api.leadership import LeadershipHandlers
from ottla.broker.api.metadata import ApiVersionsHandler, MetadataHandler
from ottla.broker.api.offsets import ListOffsetsHandler
from ottla.broker.api.produce import ProduceHandler
from ottla.broker.api.producer_ids import InitProducerIdHandler
from ottla.broker.api.replica_fetch import ReplicaFetchHandler
from ottla.broker.api.topics import TopicHandlers
from ottla.broker.cluster_view import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.controller.claims import ControllerClaims
from ottla.broker.controller.control_loop import ControllerPolicy
from ottla.broker.controller_client import ask_for_replacement, leave_in_order
from ottla.broker.data_loop import DataLoop
from ottla.broker.data_trust import DataTrust
from ottla.broker.listeners import parse_address
from ottla.broker.membership_loop import MembershipLoop
from ottla.broker.metrics import Metrics
from ottla.broker.peers import Identity
from ottla.broker.replication.durable_loop import DurablePartitions
from ottla.broker.replication.failure_loop import FailureLoop
from ottla.broker.replication.fetch_loop import Fetchers
from ottla.broker.replication.isr_loop import IsrLoop
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.waiting import WaitingRooms
from ottla.broker.storage.data_folder.clean_loop import CleanIntervals, CleanLoop
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.flush_loop import Flusher
from ottla.broker.storage.log_config import LogConfig
from ottla.net.busy_poll import stay_awake
from ottla.net.heap import keep_freed_memory
from ottla.net.server import Server
from ottla.wire.errors import ConfigError
from ottla.wire.messages import Api, ListenerAddress
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.zk.membership import cluster_id, cluster_secret, ensure_persistent_paths
from ottla.zk.session import ZkSession
from ottla.zk.znodes import BrokerZnode

logger = logging.getLogger(__name__)

PART_STOP_LIMIT_S = 0.5
LEAVE_LIMIT_S = 5.0
"""Whatever others do, a broker has stopped within ten seconds, which is how long Docker waits. Its own disk has no limit."""

GC_THRESHOLDS = (10_000, 10, 10)
"""Requests leave hardly any cycles behind: the default of 700 objects would look for some every few requests."""


class Node:
    """One broker process."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._parts = AsyncExitStack()
        self._metrics = Metrics()
        self._waiting = WaitingRooms()
        self.ports: dict[str, int] = {}
        """Where it listens, by listener."""
        self.admin_port = 0

    async def start(self) -> None:
        """Start everything; whatever was started is stopped again if something fails."""
        keep_freed_memory()
        try:
            await self._start()
        except BaseException:
            await self._parts.aclose()
            raise
        gc.collect()
        gc.freeze()  # what was built by now stays for good: the collector need not look at it again
        gc.set_threshold(*GC_THRESHOLDS)
        ports = ",".join(f"{name}:{port}" for name, port in self.ports.items())
        logger.info(
            "broker started broker=%d ports=%s admin_port=%d compiled=%s",
            self._config.broker_id, ports, self.admin_port, compiled.is_active(),
        )  # fmt: skip

    async def stop(self) -> None:
        """Stop cleanly: no new requests, then leave the cluster, then close the logs."""
        await self._parts.aclose()
        logger.info("broker stopped broker=%d", self._config.broker_id)

    async def _start(self) -> None:
        config = self._config
        stay_awake(config.socket_busy_poll_us)
        session = ZkSession(
            config.zookeeper_connect,
            timeout_ms=config.zookeeper_session_timeout_ms,
            digest=config.read_zookeeper_digest(),
            sets_acl=config.zookeeper_set_acl,
        )
        await session.start(config.zookeeper_connection_timeout_ms / 1000)
        self._stops(session.close)
        await ensure_persistent_paths(session)
        identity = Identity(config.broker_id, NO_EPOCH, await cluster_id(session), await cluster_secret(session))

        log_dirs = await open_log_dirs(config, identity.cluster_id)
        view = ClusterView(identity.cluster_id)
        trust = DataTrust(log_dirs)
        membership = MembershipLoop(
            session,
            self._registration(log_dirs[0].data_uuid),
            identity,
            view.endpoint,
            ControllerPolicy(config.min_insync_replicas, config.leader_imbalance_check_interval_seconds),
            self._metrics.is_controller.set,
            trust,
        )
        flusher = Flusher()
        self._stops(flusher.close, limit_s=None)
        self._waiting.on_grown = DurablePartitions(flusher).grown
        fetchers = Fetchers(lambda: membership.identity, view.endpoint, flusher, lambda: membership.held)
        partitions = Partitions(
            config.broker_id, log_dirs, log_defaults(config), config.min_insync_replicas, self._waiting, fetchers.update
        )
        self._stops(partitions.close, limit_s=None)  # what is on disk must be whole
        self._stops(fetchers.stop)
        self._start_cleaning(log_dirs, partitions)
        isr_loop = IsrLoop(session, lambda: membership.identity, partitions, config.replica_lag_time_max_ms / 1000)
        isr_loop.start()
        self._stops(isr_loop.stop)
        membership.on_fenced = partitions.step_down_all
        failures = FailureLoop(lambda failed: ask_for_replacement(membership, view, failed))
        self._waiting.on_changed += [failures.look_at, isr_loop.partition_changed]
        self._stops(failures.stop)
        handlers = self._handlers(
            membership,
            partitions,
            view,
            isr_loop,
            InitProducerIdHandler(session, config.broker_id),
            ControllerClaims(session),
        )
        server = await self._serve(handlers, view, membership.peer_lost)
        listeners = config.all_listeners()
        membership.set_addresses(listeners.advertised(self.ports), listeners.inter_broker)

        admin = AdminServer(
            self._metrics.registry,
            lambda: _why_not_ready(membership, view, partitions),
            lambda: self._refresh_gauges(server, partitions, log_dirs, isr_loop),
        )
        admin_address = parse_address("admin.listener", config.admin_listener)
        self.admin_port = await _listen("admin.listener", admin.start, admin_address)
        self._stops(admin.stop)
        await membership.start()
        self._stops(membership.stop)
        data = DataLoop(
            session,
            membership,
            trust,
            all_told=lambda life: (
                view.told_in == life and view.replicas_of(config.broker_id) <= partitions.told_in(life)
            ),
            waited_for=lambda: partitions.waited_for,
            resume=partial(fetchers.update_all, partitions),
        )
        data.start()
        self._stops(data.stop)
        self._stops(partial(leave_in_order, membership, view, config.controlled_shutdown_max_retries), LEAVE_LIMIT_S)

    def _stops(self, stop: Callable[[], Awaitable[None]], limit_s: float | None = PART_STOP_LIMIT_S) -> None:
        """How a part is stopped when its turn comes. One that cannot in time must not keep the logs from being closed."""

        async def stop_in_time() -> None:
            try:
                async with asyncio.timeout(limit_s):
                    await stop()
            except TimeoutError:
                logger.warning("a part did not stop in time and is left part=%s limit_s=%s", stop, limit_s)

        self._parts.push_async_callback(stop_in_time)

    # --- parts ---------------------------------------------------------------------------------------------------------

    def _start_cleaning(self, log_dirs: list[LogDir], partitions: Partitions) -> None:
        def high_watermarks() -> dict[TopicPartition, int]:
            return {partition.where: partition.high_watermark for partition in partitions}

        intervals = CleanIntervals(
            log_retention_check_interval_ms=self._config.log_retention_check_interval_ms,
            log_flush_offset_checkpoint_interval_ms=self._config.log_flush_offset_checkpoint_interval_ms,
        )
        for log_dir in log_dirs:
            cleaner = CleanLoop(
                log_dir,
                high_watermarks=high_watermarks,
                now_ms=lambda: int(time.time() * 1000),
                clock=time.monotonic,
                intervals=intervals,
            )
            cleaner.start()
            self._stops(cleaner.stop, limit_s=None)

    def _registration(self, data_uuid: str) -> BrokerZnode:
        config = self._config
        return BrokerZnode(config.broker_id, "", 0, rack=config.broker_rack or None, uuid=data_uuid)

    async def _serve(
        self, handlers: Mapping[Api, ApiHandler], view: ClusterView, on_broker_lost: Callable[[int], None]
    ) -> Server:
        """Listen everywhere. What clients are told of the brokers' addresses depends on where they came in."""
        doors = {
            address: Dispatch({**handlers, Api.METADATA: MetadataHandler(view, address.listener)}, self._metrics)
            for address in self._config.all_listeners().bound
        }
        server = Server(next(iter(doors.values())), self._config.limits(), self._waiting.turn)
        server.on_broker_lost = on_broker_lost
        self._stops(server.stop)
        for address, dispatch in doors.items():
            start = partial(server.start, handler=dispatch)
            self.ports[address.listener] = await _listen("listeners", start, address)
        return server

    def _handlers(
        self,
        membership: MembershipLoop,
        partitions: Partitions,
        view: ClusterView,
        isr_loop: IsrLoop,
        producer_ids: InitProducerIdHandler,
        claims: ControllerClaims,
    ) -> dict[Api, ApiHandler]:
        metrics = self._metrics
        topics = TopicHandlers(lambda: membership.controller)
        configs = ConfigHandlers(lambda: membership.controller)
        leadership = LeadershipHandlers(lambda: membership.controller)
        control = ControlHandlers(lambda: membership.identity, partitions, view, claims)
        software = f"ottla {__version__}"
        return {
            Api.PRODUCE: ProduceHandler(partitions, view, self._waiting.acks, metrics, lambda: membership.unsure),
            Api.FETCH: FetchHandler(
                partitions,
                view,
                self._waiting.consumer_fetches,
                metrics,
                ReplicaFetchHandler(partitions, self._waiting, metrics, isr_loop.look_at),
            ),
            Api.LIST_OFFSETS: ListOffsetsHandler(partitions, view),
            Api.API_VERSIONS: ApiVersionsHandler(lambda: membership.identity, software),
            Api.CREATE_TOPICS: topics.create,
            Api.DELETE_TOPICS: topics.delete,
            Api.CREATE_PARTITIONS: topics.create_partitions,
            Api.ALTER_CONFIGS: configs.alter,
            Api.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter,
            Api.ALTER_PARTITION_REASSIGNMENTS: leadership.reassign,
            Api.LIST_PARTITION_REASSIGNMENTS: leadership.reassignments,
            Api.INIT_PRODUCER_ID: producer_ids,
            Api.BROKER_HANDSHAKE: control.handshake,
            Api.CONTROLLED_SHUTDOWN: leadership.shutdown,
            Api.ELECT_LEADERS: leadership.elect,
            Api.WITNESS: control.witness,
            Api.LEADER_AND_ISR: control.leader_and_isr,
            Api.UPDATE_METADATA: control.update_metadata,
            Api.STOP_REPLICA: control.stop_replica,
        }

    def _refresh_gauges(
        self, server: Server, partitions: Partitions, log_dirs: list[LogDir], isr_loop: IsrLoop
    ) -> None:
        metrics = self._metrics
        metrics.connections.set(len(server.connections))
        metrics.refused_connections.set(server.refused)
        metrics.unsent.set(server.unsent_memory())
        metrics.purgatory.labels("fetch").set(self._waiting.replica_fetches.size + self._waiting.consumer_fetches.size)
        metrics.purgatory.labels("produce").set(self._waiting.acks.size)
        metrics.replicas.set(len(partitions))
        led = [partition for partition in partitions if partition.leading is not None]
        metrics.leaders.set(len(led))
        metrics.under_replicated.set(sum(len(p.leading.isr.members) < len(p.replicas) for p in led if p.leading))
        metrics.under_min_isr.set(sum(len(p.leading.isr.members) < p.min_insync for p in led if p.leading))
        metrics.isr_shrinks.set(isr_loop.shrinks)
        metrics.isr_expands.set(isr_loop.expands)
        broken = sum(partition.log.failed for partition in partitions)
        metrics.failed_logs.set(broken + sum(len(log_dir.failed) for log_dir in log_dirs))


async def open_log_dirs(config: BrokerConfig, cluster: str) -> list[LogDir]:
    """Open all data folders. ConfigError if one of them cannot be used."""
    defaults = log_defaults(config)
    opened = []
    for folder in config.data_folders:
        try:
            log_dir = await asyncio.to_thread(
                LogDir.open, folder, broker_id=config.broker_id, cluster_id=cluster, config_for=lambda _: defaults
            )
        except OSError as error:
            raise ConfigError(
                f"log.dirs={folder} cannot be used: {error.strerror or error}",
                hint="give a folder on a disk with room, where this user may write",
            ) from None
        opened.append(log_dir)
    return opened


def log_defaults(config: BrokerConfig) -> LogConfig:
    """What a topic's log obeys where the topic itself says nothing."""
    return LogConfig(
        segment_bytes=config.log_segment_bytes,
        segment_ms=config.log_roll_ms,
        retention_ms=config.log_retention_ms,
        retention_bytes=config.log_retention_bytes,
        max_message_bytes=config.message_max_bytes,
        index_interval_bytes=config.log_index_interval_bytes,
        message_timestamp_type=config.log_message_timestamp_type,
        message_timestamp_before_max_ms=config.log_message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=config.log_message_timestamp_after_max_ms,
        flush_policy=config.log_flush_policy,
    )


async def _listen(name: str, start: Callable[[str, int], Awaitable[int]], at: ListenerAddress) -> int:
    try:
        return await start(at.host, at.port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {name}={at.host}:{at.port}: {error.strerror or error}",
            hint="is another broker running there?",
        ) from None


def _why_not_ready(membership: MembershipLoop, view: ClusterView, partitions: Partitions) -> str | None:
    if not membership.registered:
        return "not registered in ZooKeeper"
    if not view.known:
        return "waiting for the controller"
    missing = view.replicas_of(membership.identity.broker_id) - partitions.names()
    if missing:
        return f"waiting for the controller's word on {len(missing)} partitions"
    return None
