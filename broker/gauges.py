"""What is looked up only when somebody asks for the metrics: how much there is of everything now."""

from dataclasses import dataclass

from ottla.broker.metrics import Metrics
from ottla.broker.purgatory import Purgatories
from ottla.broker.replication.fetch_sessions import FetchSessions
from ottla.broker.replication.isr_loop import IsrLoop
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.net.server import Server


@dataclass(frozen=True)
class Gauges:
    """Whom to ask."""

    metrics: Metrics
    server: Server
    purgatories: Purgatories
    sessions: FetchSessions
    partitions: Partitions
    log_dirs: list[LogDir]
    isr_loop: IsrLoop

    def refresh(self) -> None:
        metrics, partitions = self.metrics, self.partitions
        metrics.connections.set(len(self.server.connections))
        metrics.refused_connections.set(self.server.refused)
        metrics.unsent.set(self.server.unsent_memory())
        metrics.purgatory.labels("fetch").set(self.sessions.waiting + self.purgatories.fetch.size)
        metrics.purgatory.labels("produce").set(self.purgatories.produce.size)
        metrics.replicas.set(len(partitions))
        led = [partition for partition in partitions if partition.leading is not None]
        metrics.leaders.set(len(led))
        metrics.under_replicated.set(sum(len(p.leading.isr.members) < len(p.replicas) for p in led if p.leading))
        metrics.under_min_isr.set(sum(len(p.leading.isr.members) < p.min_insync for p in led if p.leading))
        metrics.isr_shrinks.set(self.isr_loop.shrinks)
        metrics.isr_expands.set(self.isr_loop.expands)
        broken = sum(partition.log.failed for partition in partitions)
        metrics.failed_logs.set(broken + sum(len(log_dir.failed) for log_dir in self.log_dirs))
