"""What a broker counts. Names end in their unit; what is counted on the hot path is a plain number until somebody asks.

(The prometheus_client's own counters take a lock each: with half a dozen of them they were a tenth of a produce request.)
"""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

LATENCY_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Tally:
    """A number that only the event loop changes: ``tally.count += 1``."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Timing:
    """How often something took how long."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BUCKETS) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        self.sum_s += seconds


class Metrics(Collector):
    """All counters of one broker, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests: dict[str, Timing] = {}
        self.bytes_in = Tally()
        self.bytes_out = Tally()
        self.batches_in = Tally()
        self.records_in = Tally()
        self.registry.register(self)
        registry = self.registry
        self.request_errors = Counter("ottla_request_errors", "Errors answered", ["api", "error"], registry=registry)
        self.clock_skew = Gauge(
            "ottla_clock_skew_seconds", "How far this clock is ahead of another", ["reference"], registry=registry
        )
        self.clock_trusted = Gauge(
            "ottla_clock_trusted", "1 while data may expire by this broker's clock", registry=registry
        )
        self.connections = Gauge("ottla_connections", "Open connections", registry=registry)
        self.refused_connections = Gauge(
            "ottla_refused_connections", "Connections cut for their behaviour", registry=registry
        )
        self.turned_away = Gauge(
            "ottla_turned_away_connections",
            "Connections of clients closed because file descriptors were nearly exhausted",
            registry=registry,
        )
        self.descriptors = Gauge("ottla_open_file_descriptors", "Open file descriptors", registry=registry)
        self.descriptors_max = Gauge(
            "ottla_max_file_descriptors", "The limit of open file descriptors", registry=registry
        )
        self.mapped_segments = Gauge(
            "ottla_mapped_segments", "Memory maps of segments, each with a file descriptor", registry=registry
        )
        self.unsent = Gauge("ottla_unsent_bytes", "Memory of answers that clients have not read yet", registry=registry)
        self.purgatory = Gauge("ottla_purgatory_size", "Requests that wait", ["kind"], registry=registry)
        self.fetch_sessions = Gauge(
            "ottla_fetch_sessions", "Consumers whose partitions are kept from fetch to fetch", registry=registry
        )
        self.fetch_session_partitions = Gauge(
            "ottla_fetch_session_partitions", "Partitions that are kept for them", registry=registry
        )
        self.is_controller = Gauge(
            "ottla_active_controller", "1 on the broker that is the controller", registry=registry
        )
        self.leaders = Gauge("ottla_leader_partitions", "Partitions that this broker leads", registry=registry)
        self.replicas = Gauge("ottla_replica_partitions", "Partitions that this broker holds", registry=registry)
        self.under_replicated = Gauge(
            "ottla_under_replicated_partitions", "Led partitions with replicas out of sync", registry=registry
        )
        self.under_min_isr = Gauge(
            "ottla_under_min_isr_partitions", "Led partitions below min.insync.replicas", registry=registry
        )
        self.isr_shrinks = Gauge("ottla_isr_shrinks", "Times a follower fell out of sync", registry=registry)
        self.isr_expands = Gauge("ottla_isr_expands", "Times a follower got in sync", registry=registry)
        self.producer_states = Gauge(
            "ottla_producer_state_bytes", "Memory for what is remembered of idempotent producers", registry=registry
        )
        self.stalls = Timing()
        self.longest_stall = Gauge(
            "ottla_event_loop_longest_stall_seconds",
            "The longest time that the event loop kept a timer waiting since this was asked last",
            registry=registry,
        )
        self.longest_busy = Gauge(
            "ottla_event_loop_longest_busy_seconds",
            "The longest CPU time of the event loop while it kept a timer waiting since this was asked last",
            registry=registry,
        )
        self.evicted_producers = Tally()
        self.refused_leaders = Gauge(
            "ottla_refused_leader_partitions",
            "Partitions whose leader this broker does not follow, for it lacks committed records",
            registry=registry,
        )
        self.damaged_logs = Gauge(
            "ottla_damaged_partitions",
            "Partitions whose log here has a damaged batch and still counts",
            registry=registry,
        )
        self.failed_logs = Gauge("ottla_failed_logs", "Partitions whose disk failed", registry=registry)
        self.refusing_logs = Gauge(
            "ottla_refusing_logs",
            "Partitions that could not take their last records for want of disk space, descriptors or memory",
            registry=registry,
        )

    def timing(self, api: str) -> Timing:
        """Where the requests of one api are counted."""
        return self.requests.setdefault(api, Timing())

    def collect(self) -> Iterator[Metric]:
        for name, text, tally in (
            ("ottla_bytes_in", "Record bytes appended by producers", self.bytes_in),
            ("ottla_bytes_out", "Record bytes given to fetches", self.bytes_out),
            ("ottla_batches_in", "Record batches appended by producers", self.batches_in),
            ("ottla_records_in", "Records appended by producers", self.records_in),
            (
                "ottla_producers_evicted",
                "Idempotent producers evicted because producer.state.max.bytes was full",
                self.evicted_producers,
            ),
        ):
            yield CounterMetricFamily(name, text, value=tally.count)
        handled = CounterMetricFamily("ottla_requests", "Requests handled", labels=["api"])
        seconds = HistogramMetricFamily(
            "ottla_request_seconds", "Time that requests kept the broker busy", labels=["api"]
        )
        for api, timing in list(self.requests.items()):
            buckets = _buckets(timing)
            handled.add_metric([api], buckets[-1][1])
            seconds.add_metric([api], buckets, timing.sum_s)
        yield handled
        yield seconds
        yield HistogramMetricFamily(
            "ottla_event_loop_stall_seconds",
            "How long the event loop kept a timer waiting, 20 times a second",
            buckets=_buckets(self.stalls),
            sum_value=self.stalls.sum_s,
        )


def _buckets(timing: Timing) -> list[tuple[str, int]]:
    total, buckets = 0, []
    for limit, count in zip((*map(str, LATENCY_BUCKETS), "+Inf"), timing.counts, strict=True):
        total += count
        buckets.append((limit, total))
    return buckets
