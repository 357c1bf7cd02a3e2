"""What a broker counts. Names end in their unit; nothing here is touched once a record."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

LATENCY_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

__all__ = ["GaugeMetricFamily", "Metrics"]


class Metrics:
    """All counters of one broker, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("ottla_requests", "Requests handled", ["api"], registry=self.registry)
        self.request_errors = Counter(
            "ottla_request_errors", "Errors answered", ["api", "error"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "ottla_request_seconds",
            "Time from a request to its answer",
            ["api"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.bytes_in = Counter("ottla_bytes_in", "Record bytes appended by producers", registry=self.registry)
        self.bytes_out = Counter("ottla_bytes_out", "Record bytes given to fetches", registry=self.registry)
        self.batches_in = Counter("ottla_batches_in", "Record batches appended by producers", registry=self.registry)
        self.records_in = Counter("ottla_records_in", "Records appended by producers", registry=self.registry)
        self.connections = Gauge("ottla_connections", "Open connections", registry=self.registry)
        self.refused_connections = Gauge(
            "ottla_refused_connections", "Connections cut for their behaviour", registry=self.registry
        )
        self.purgatory = Gauge("ottla_purgatory_size", "Requests that wait", ["kind"], registry=self.registry)
        self.is_controller = Gauge(
            "ottla_active_controller", "1 on the broker that is the controller", registry=self.registry
        )
        self.leaders = Gauge("ottla_leader_partitions", "Partitions that this broker leads", registry=self.registry)
        self.replicas = Gauge("ottla_replica_partitions", "Partitions that this broker holds", registry=self.registry)
        self.under_replicated = Gauge(
            "ottla_under_replicated_partitions", "Led partitions with replicas out of sync", registry=self.registry
        )
        self.under_min_isr = Gauge(
            "ottla_under_min_isr_partitions", "Led partitions below min.insync.replicas", registry=self.registry
        )
        self.isr_shrinks = Gauge("ottla_isr_shrinks", "Times a follower fell out of sync", registry=self.registry)
        self.isr_expands = Gauge("ottla_isr_expands", "Times a follower got in sync", registry=self.registry)
        self.failed_logs = Gauge("ottla_failed_logs", "Partitions whose disk failed", registry=self.registry)
