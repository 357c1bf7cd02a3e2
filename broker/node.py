"""A broker, put together: builds the parts in order, stops them in reverse.

The steps are those of ``Node._start``: zookeeper, storage, replication, groups, serving, membership. What one step has made
the next ones are given. Whoever wants to hear of something is added to that thing's list of listeners: here, and nowhere else.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from ottla import compiled
from ottla.broker import file_descriptors
from ottla.broker.admin.app import AdminServer
from ottla.broker.api.consumer_sessions import ConsumerSessions
from ottla.broker.api.dispatch import Dispatch
from ottla.broker.api.routes import routes
from ottla.broker.checked_clock import CheckedClock
from ottla.broker.clock_loop import ClockLoop
from ottla.broker.cluster_view import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.controller.control_loop import ControllerPolicy
from ottla.broker.controller_client import (
    controlled_shutdown,
    report_damaged_replicas,
    report_failed_replicas,
    report_unreachable_leaders,
)
from ottla.broker.data_folders import forget_new, log_defaults, open_log_dirs
from ottla.broker.data_loop import DataLoop
from ottla.broker.data_trust import DataTrust
from ottla.broker.dynamic_config import BrokerSettings
from ottla.broker.file_descriptors import LIMIT_MAX, DescriptorPlan, raise_limit, warn_if_low
from ottla.broker.gauges import Gauges
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.groups.retention_loop import GroupRetention
from ottla.broker.handlers import handlers_of
from ottla.broker.kafka_batches import KafkaBatches
from ottla.broker.listeners import parse_address
from ottla.broker.membership_loop import MembershipLoop
from ottla.broker.metrics import Metrics
from ottla.broker.named_writes_loop import NamedWritesLoop
from ottla.broker.parts import Parts, Replication, Storage
from ottla.broker.peer_metadata_loop import PeerMetadataLoop
from ottla.broker.peers import BrokerPrincipal, Handshakes, Identity
from ottla.broker.purgatory import Purgatories
from ottla.broker.replication.damage_loop import DamageLoop
from ottla.broker.replication.durable_loop import DurablePartitions
from ottla.broker.replication.failure_loop import FailureLoop
from ottla.broker.replication.fetch_loop import Fetchers
from ottla.broker.replication.fetch_sessions import FetchSessions
from ottla.broker.replication.isr_loop import IsrLoop
from ottla.broker.replication.log_start_loop import LogStartLoop
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.postponed_loop import PostponedLoop
from ottla.broker.replication.unreachable_leaders_loop import UnreachableLeaders
from ottla.broker.storage.data_folder.clean_loop import CleanIntervals, CleanLoop
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.flush_loop import Flusher
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.net.busy_poll import stay_awake
from ottla.net.connection import Connection
from ottla.net.heap import keep_freed_memory
from ottla.net.reply import Turn
from ottla.net.server import Server
from ottla.wire.errors import ConfigError
from ottla.wire.kafka.dialect import KafkaDialect
from ottla.wire.messages import ListenerAddress
from ottla.wire.names import NO_EPOCH
from ottla.wire.native import NATIVE
from ottla.zk.lost_sessions import retry_when_lost
from ottla.zk.membership import cluster_id, cluster_secret, ensure_persistent_paths
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.brokers import BrokerZnode

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
        self._clock = CheckedClock()
        self._turn = Turn()
        self.ports: dict[str, int] = {}
        """Where it listens, by listener."""
        self.admin_port = 0
        self._log_dirs: list[LogDir] = []
        self._descriptors = file_descriptors.plan(LIMIT_MAX)
        self._member: MembershipLoop | None = None

    async def start(self) -> None:
        """Start everything; whatever was started is stopped again if something fails."""
        keep_freed_memory()
        try:
            await self._start()
        except BaseException:
            new = self._log_dirs if self._member is None or not self._member.registered else []
            await self._parts.aclose()
            forget_new(new)
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
        stay_awake(self._config.socket_busy_poll_us)
        descriptors = self._descriptors = file_descriptors.plan(raise_limit())
        session = await self._connect_to_zookeeper()
        identity = await self._identity(session)
        await self._start_comparing_clocks(session)
        view = ClusterView(identity.cluster_id)
        storage = await self._open_storage(identity.cluster_id, descriptors)
        self._log_dirs = storage.log_dirs
        membership = self._member = self._membership(session, identity, view, storage)
        replication = self._start_replication(session, membership, view, storage)
        groups = self._start_groups(session, membership, view, replication.purgatories)
        self._start_forgetting_writes(session, membership)
        settings = self._settings(view, replication.partitions, groups)
        peer_metadata = PeerMetadataLoop(membership, view, replication.partitions)
        replication.consumers.is_isolated = lambda: peer_metadata.is_isolated
        parts = Parts(
            session, membership, view, storage, replication, groups, settings, self._metrics, self._clock, peer_metadata
        )
        server = await self._serve(parts)
        await self._start_admin(server, parts)
        await self._join_cluster(parts)

    def _stops(self, stop: Callable[[], Awaitable[None]], limit_s: float | None = PART_STOP_LIMIT_S) -> None:
        """How a part is stopped when its turn comes. One that cannot in time must not keep the logs from being closed."""

        async def stop_in_time() -> None:
            try:
                async with asyncio.timeout(limit_s):
                    await stop()
            except TimeoutError:
                logger.warning("a part did not stop in time and is left part=%s limit_s=%s", stop, limit_s)

        self._parts.push_async_callback(stop_in_time)

    # --- zookeeper -----------------------------------------------------------------------------------------------------

    async def _connect_to_zookeeper(self) -> ZkSession:
        config = self._config
        session = ZkSession(
            config.zookeeper_connect,
            timeout_ms=config.zookeeper_session_timeout_ms,
            digest=config.read_zookeeper_digest(),
            sets_acl=config.zookeeper_set_acl,
        )
        await session.start(config.zookeeper_connection_timeout_ms / 1000)
        self._stops(session.close)
        await retry_when_lost(session, partial(ensure_persistent_paths, session))
        return session

    async def _identity(self, session: ZkSession) -> Identity:
        """Who this broker is; the epoch of its life comes with its registration."""
        cluster = await retry_when_lost(session, partial(cluster_id, session))
        secret = await retry_when_lost(session, partial(cluster_secret, session))
        return Identity(self._config.broker_id, NO_EPOCH, cluster, secret)

    async def _start_comparing_clocks(self, session: ZkSession) -> None:
        comparing = ClockLoop(session, self._config.broker_id, self._clock, self._metrics)
        await comparing.start()
        self._stops(comparing.stop)

    # --- storage -------------------------------------------------------------------------------------------------------

    async def _open_storage(self, cluster: str, descriptors: DescriptorPlan) -> Storage:
        open_files = OpenFiles(descriptors.maps, descriptors.unflushed)
        log_dirs = await open_log_dirs(self._config, cluster, open_files)
        warn_if_low(descriptors, sum(len(log_dir.logs) for log_dir in log_dirs))
        flusher = Flusher()
        self._stops(flusher.close, limit_s=None)
        return Storage(log_dirs, DataTrust(log_dirs), flusher)

    def _start_cleaning(self, log_dirs: list[LogDir], partitions: Partitions) -> None:
        intervals = CleanIntervals(
            log_retention_check_interval_ms=self._config.log_retention_check_interval_ms,
            log_flush_offset_checkpoint_interval_ms=self._config.log_flush_offset_checkpoint_interval_ms,
        )
        for log_dir in log_dirs:
            cleaner = CleanLoop(
                log_dir,
                high_watermarks=partitions.high_watermarks,
                leads=partitions.leads,
                now_ms=self._clock.trusted_ms,
                clock=time.monotonic,
                intervals=intervals,
                shortened=partitions.log_shortened,
            )
            cleaner.start()
            log_dir.open_files.on_many_unflushed.append(cleaner.flush_sealed_soon)
            self._stops(cleaner.stop, limit_s=None)

    # --- replication ---------------------------------------------------------------------------------------------------

    def _start_replication(
        self, session: ZkSession, membership: MembershipLoop, view: ClusterView, storage: Storage
    ) -> Replication:
        config = self._config
        events = PartitionEvents()
        fetchers = Fetchers(lambda: membership.identity, view.endpoint, storage.flusher, lambda: membership.held)
        partitions = Partitions(
            config.broker_id, storage.log_dirs, log_defaults(config), config.min_insync_replicas, events
        )
        self._stops(partitions.close, limit_s=None)  # what is on disk must be whole
        self._stops(fetchers.stop)
        self._start_cleaning(storage.log_dirs, partitions)
        self._stops(PostponedLoop(partitions).stop)
        isr_loop = IsrLoop(session, lambda: membership.identity, partitions, config.replica_lag_time_max_ms / 1000)
        isr_loop.start()
        self._stops(isr_loop.stop)
        failures = FailureLoop(lambda failed: report_failed_replicas(membership, view, failed))
        self._stops(failures.stop)
        damage = DamageLoop(storage.log_dirs, lambda damaged: report_damaged_replicas(membership, view, damaged))
        self._stops(damage.stop)
        unreachable = UnreachableLeaders(
            fetchers,
            lambda leaders: report_unreachable_leaders(membership, view, leaders),
            config.replica_lag_time_max_ms / 2000,
        )
        unreachable.start()
        self._stops(unreachable.stop)
        durable = DurablePartitions(storage.flusher)
        log_starts = LogStartLoop(storage.log_dirs)
        self._stops(log_starts.stop)
        sessions = FetchSessions(partitions, self._turn, self._metrics.bytes_out)
        purgatories = Purgatories(self._turn)
        consumers = ConsumerSessions(partitions, view, purgatories.fetch, self._metrics.bytes_out)

        events.on_role.append(fetchers.update)
        events.on_grown += [sessions.partition_changed, durable.partition_grown]
        events.on_committed += [
            purgatories.partition_changed,
            consumers.partition_changed,
            sessions.partition_committed,
        ]
        events.on_changed += [purgatories.partition_changed, consumers.partition_changed]
        events.on_changed += [sessions.partition_changed, durable.partition_grown]
        events.on_changed += [failures.partition_changed, isr_loop.partition_changed, purgatories.start_changed]
        events.on_start_moved += [log_starts.start_moved, sessions.partition_committed, consumers.partition_changed]
        events.on_start_kept += [purgatories.start_changed, fetchers.update]
        events.on_suspected.append(damage.suspect)
        membership.on_fenced.append(partitions.step_down_all)
        return Replication(partitions, fetchers, sessions, consumers, purgatories, isr_loop, damage)

    # --- groups --------------------------------------------------------------------------------------------------------

    def _start_groups(
        self, session: ZkSession, membership: MembershipLoop, view: ClusterView, purgatories: Purgatories
    ) -> Groups:
        groups = Groups(
            session, self._config.broker_id, view, GroupLimits.of(self._config), lambda: membership.unsure,
            self._clock.stamp_ms,
        )  # fmt: skip
        view.on_changed.append(groups.cluster_changed)
        membership.on_fenced.append(groups.give_all_up)
        groups.on_changed.append(purgatories.heartbeat.touch)
        self._stops(groups.stop)
        retention = GroupRetention(groups, self._clock.trusted_ms)
        retention.start()
        self._stops(retention.stop)
        return groups

    def _settings(self, view: ClusterView, partitions: Partitions, groups: Groups) -> BrokerSettings:
        """What can be changed while the broker runs, with the parts that must hear of it."""
        settings = BrokerSettings(self._config)
        settings.on_changed += [
            lambda config: partitions.set_defaults(log_defaults(config), config.min_insync_replicas),
            lambda config: groups.set_limits(GroupLimits.of(config)),
        ]
        view.on_changed.insert(0, lambda: settings.take(view.settings))
        return settings

    def _start_forgetting_writes(self, session: ZkSession, membership: MembershipLoop) -> None:
        writes = NamedWritesLoop(
            session, lambda: membership.controller is not None, self._config.named_write_expiration_ms,
            self._clock.trusted_ms,
        )  # fmt: skip
        writes.start()
        self._stops(writes.stop)

    # --- serving -------------------------------------------------------------------------------------------------------

    async def _serve(self, parts: Parts) -> Server:
        membership, handshakes = parts.membership, Handshakes()
        new_groups = NewGroups()
        handlers = handlers_of(parts, handshakes, new_groups)
        dispatch = Dispatch(routes(handlers), self._metrics)
        loop, suspect = asyncio.get_running_loop(), parts.replication.damage.suspect_in
        find = parts.replication.partitions.get
        batches = KafkaBatches(unreadable=lambda *where: loop.call_soon_threadsafe(suspect, find, *where))
        dialects = (NATIVE, KafkaDialect(parts.view, batches.convert))
        limits = replace(self._config.limits(), descriptors=self._descriptors.clients)
        server = Server(dispatch, limits, self._turn, dialects)

        def broker_lost(connection: Connection) -> None:
            if isinstance(connection.principal, BrokerPrincipal):
                membership.peer_lost(connection.principal.broker_id)

        server.on_closed += [handshakes.closed, new_groups.closed, parts.replication.consumers.end, broker_lost]
        self._stops(server.stop)
        listeners = self._config.all_listeners()
        for address in listeners.bound:
            start = partial(server.start, listener=address.listener)
            self.ports[address.listener] = await _listen("listeners", start, address)
        membership.set_addresses(listeners.advertised(self.ports), listeners.inter_broker)
        return server

    async def _start_admin(self, server: Server, parts: Parts) -> None:
        gauges = Gauges(server, parts)
        admin = AdminServer(self._metrics, parts.why_not_ready, gauges.refresh)
        address = parse_address("admin.listener", self._config.admin_listener)
        self.admin_port = await _listen("admin.listener", admin.start, address)
        self._stops(admin.stop)

    # --- membership ----------------------------------------------------------------------------------------------------

    def _membership(
        self, session: ZkSession, identity: Identity, view: ClusterView, storage: Storage
    ) -> MembershipLoop:
        """Made early, for all others ask it who this broker is; it joins last."""
        config = self._config
        data_uuid = storage.log_dirs[0].data_uuid
        return MembershipLoop(
            session,
            BrokerZnode(config.broker_id, "", 0, rack=config.broker_rack or None, uuid=data_uuid),
            identity,
            view.endpoint,
            ControllerPolicy(
                config.min_insync_replicas,
                config.leader_imbalance_check_interval_seconds,
                segment_bytes_min=config.log_segment_bytes_min,
                silence_max_s=config.replica_lag_time_max_ms / 2000,
            ),
            self._metrics.is_controller.set,
            storage.trust,
        )

    async def _join_cluster(self, parts: Parts) -> None:
        config, membership, view = self._config, parts.membership, parts.view
        partitions = parts.replication.partitions
        await membership.start()
        self._stops(membership.stop)
        data = DataLoop(
            parts.session,
            membership,
            parts.storage.trust,
            all_told=lambda broker_epoch: (
                view.told_in == broker_epoch and view.replicas_of(config.broker_id) <= partitions.told_in(broker_epoch)
            ),
            waited_for=lambda: partitions.waited_for,
            resume=partial(parts.replication.fetchers.update_all, partitions),
        )
        parts.peer_metadata.start()
        self._stops(parts.peer_metadata.stop)
        view.on_changed.append(data.controller_spoke)
        data.start()
        self._stops(data.stop)
        self._stops(
            partial(controlled_shutdown, membership, view, config.controlled_shutdown_max_retries), LEAVE_LIMIT_S
        )


async def _listen(name: str, start: Callable[[str, int], Awaitable[int]], at: ListenerAddress) -> int:
    try:
        return await start(at.host, at.port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {name}={at.host}:{at.port}: {error.strerror or error}",
            hint="is another broker running there?",
        ) from None
