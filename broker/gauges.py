"""What is looked up only when somebody asks for the metrics: how much there is of everything now."""

import resource
from dataclasses import dataclass

from ottla.broker.file_descriptors import open_descriptors
from ottla.broker.parts import Parts
from ottla.net.server import Server


@dataclass(frozen=True)
class Gauges:
    """Whom to ask."""

    server: Server
    parts: Parts

    def refresh(self) -> None:
        metrics, replication = self.parts.metrics, self.parts.replication
        partitions = replication.partitions
        metrics.connections.set(len(self.server.connections))
        metrics.refused_connections.set(self.server.refused)
        metrics.turned_away.set(self.server.turned_away)
        metrics.descriptors.set(open_descriptors())
        metrics.descriptors_max.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        shared = {id(log_dir.open_files): log_dir.open_files for log_dir in self.parts.storage.log_dirs}
        metrics.mapped_segments.set(sum(open_files.maps for open_files in shared.values()))
        metrics.unsent.set(self.server.unsent_memory())
        metrics.purgatory.labels("fetch").set(replication.sessions.waiting + replication.purgatories.fetch.size)
        metrics.purgatory.labels("produce").set(replication.purgatories.produce.size)
        metrics.fetch_sessions.set(len(replication.consumers))
        metrics.fetch_session_partitions.set(replication.consumers.kept)
        metrics.replicas.set(len(partitions))
        led = [partition for partition in partitions if partition.leading is not None]
        metrics.leaders.set(len(led))
        metrics.under_replicated.set(sum(len(p.leading.isr.members) < len(p.replicas) for p in led if p.leading))
        metrics.under_min_isr.set(sum(len(p.leading.isr.members) < p.min_insync for p in led if p.leading))
        metrics.isr_shrinks.set(replication.isr_loop.shrinks)
        metrics.isr_expands.set(replication.isr_loop.expands)
        metrics.refused_leaders.set(sum(partition.refuses_leader for partition in partitions))
        metrics.damaged_logs.set(sum(partition.damage is not None for partition in partitions))
        broken = sum(partition.log.failed for partition in partitions)
        metrics.failed_logs.set(broken + sum(len(log_dir.failed) for log_dir in self.parts.storage.log_dirs))
        memories = {id(log_dir.producer_memory): log_dir.producer_memory for log_dir in self.parts.storage.log_dirs}
        metrics.producer_states.set(sum(memory.used_bytes for memory in memories.values()))
        metrics.evicted_producers.count = sum(memory.evicted for memory in memories.values())
        metrics.refusing_logs.set(sum(partition.log.refuses_records for partition in partitions))
