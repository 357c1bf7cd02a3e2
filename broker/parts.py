"""The parts of a broker, as the steps of node.py make them and hand them on."""

from dataclasses import dataclass

from ottla.broker.api.consumer_sessions import ConsumerSessions
from ottla.broker.checked_clock import CheckedClock
from ottla.broker.cluster_view import ClusterView
from ottla.broker.data_trust import DataTrust
from ottla.broker.dynamic_config import BrokerSettings
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.membership_loop import MembershipLoop
from ottla.broker.metrics import Metrics
from ottla.broker.peer_metadata_loop import PeerMetadataLoop
from ottla.broker.purgatory import Purgatories
from ottla.broker.replication.damage_loop import DamageLoop
from ottla.broker.replication.fetch_loop import Fetchers
from ottla.broker.replication.fetch_sessions import FetchSessions
from ottla.broker.replication.isr_loop import IsrLoop
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.flush_loop import Flusher
from ottla.zk.session.session import ZkSession


@dataclass(frozen=True)
class Storage:
    log_dirs: list[LogDir]
    trust: DataTrust
    flusher: Flusher


@dataclass(frozen=True)
class Replication:
    partitions: Partitions
    fetchers: Fetchers
    sessions: FetchSessions
    consumers: ConsumerSessions
    purgatories: Purgatories
    isr_loop: IsrLoop
    damage: DamageLoop


@dataclass(frozen=True)
class Parts:
    """All of them, when the broker begins to serve."""

    session: ZkSession
    membership: MembershipLoop
    view: ClusterView
    storage: Storage
    replication: Replication
    groups: Groups
    settings: BrokerSettings
    metrics: Metrics
    clock: CheckedClock
    peer_metadata: PeerMetadataLoop

    def why_not_ready(self) -> str | None:
        """What is missing before this broker serves all that it holds; None if nothing is."""
        if not self.membership.registered:
            return "not registered in ZooKeeper"
        if not self.view.known:
            return "waiting for the controller"
        missing = self.view.replicas_of(self.membership.identity.broker_id) - self.replication.partitions.names()
        if missing:
            return f"waiting for the controller's word on {len(missing)} partitions"
        return None
