"""Three brokers, three copies, acks=all, all on one machine with the client: throughput, latency, many partitions."""

import time
from pathlib import Path
from statistics import median

from ottla.bench import limit, workloads
from ottla.bench.rows import Row, against, at_most, rss_mb, save, show
from ottla.bench.workloads import percentile
from ottla.client import Admin
from ottla.local import LocalCluster

MB = 1_000_000
PARTITIONS = 1000
ROUNDS = 3


def run(scale: float, out: Path) -> None:
    rows: list[Row] = []
    with LocalCluster(brokers=3) as cluster:
        # Latency first: after gigabytes were written, the whole machine is slower for a minute.
        rows += show(latency_rows(cluster.bootstrap, int(3000 * max(scale, 0.2))))
        rows += show(throughput_rows(cluster.bootstrap, scale))
        memory = max(rss_mb(cluster.pid(broker)) for broker in cluster.brokers)
        rows += show([at_most("a broker's memory after that", memory, "MB", 300, "Kafka 1,100")])
    with LocalCluster(brokers=3) as cluster:
        rows += show(partition_rows(cluster))
    save(rows, out / "three-brokers.json")


def replicated_topic(bootstrap: str, partitions: int) -> str:
    name = f"replicated-{partitions}-{time.monotonic_ns()}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions, replication_factor=3, config={"min.insync.replicas": "2"})
    return name


def throughput_rows(bootstrap: str, scale: float) -> list[Row]:
    """Medians of rounds, in each of which the limit is measured too: the disk, and so the machine, is now quick and now not."""
    total = int(300 * MB * scale)
    bare: list[float] = []
    speeds: dict[int, list[float]] = {1: [], 3: []}
    for _ in range(ROUNDS):
        for partitions, measured in speeds.items():
            bare.append(limit.replicated_write_limit(total))
            measured.append(replicated_throughput(bootstrap, partitions, total))
    others = {1: "Kafka 25-35, NATS R3 126", 3: "Kafka 36-42"}
    return [
        against(
            f"RF 3, acks=all, 64 KB batches, partitions: {count}", median(measured), "MB/s", median(bare), others[count]
        )
        for count, measured in speeds.items()
    ]


def replicated_throughput(bootstrap: str, partitions: int, total: int) -> float:
    """MB/s of batches of 64 KB, into a topic that is gone afterwards."""
    topic = replicated_topic(bootstrap, partitions)
    seconds = workloads.produce_batches(
        bootstrap, topic, total_bytes=total, value_size=1024, batch_size=65536, acks="all"
    )
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(topic)
    return total / seconds / MB


def latency_rows(bootstrap: str, rounds: int) -> list[Row]:
    topic = replicated_topic(bootstrap, 1)
    bare = limit.replicated_echo_latency(rounds)
    taken = workloads.produce_latencies(bootstrap, topic, rounds=rounds, value_size=1024, acks="all")
    return [
        at_most(
            "RF 3, acks=all, 1 KB, one in flight, p50",
            percentile(taken, 0.5) * 1000,
            "ms",
            0.45,
            "Kafka 0.97, NATS 0.49",
            limit=percentile(bare, 0.5) * 1000,
        ),
        at_most(
            "RF 3, acks=all, 1 KB, one in flight, p99",
            percentile(taken, 0.99) * 1000,
            "ms",
            1.5,
            "Kafka 5.8, NATS 1.06",
            limit=percentile(bare, 0.99) * 1000,
        ),
    ]


def partition_rows(cluster: LocalCluster) -> list[Row]:
    """A thousand partitions: made, moved, stopped, started."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:

        def led(without: int = -1) -> bool:
            partitions = admin.describe_topic("many").partitions
            return len(partitions) == PARTITIONS and all(p.leader not in (-1, without) for p in partitions)

        def in_sync() -> bool:
            return all(len(partition.isr) == 3 for partition in admin.describe_topic("many").partitions)

        began = time.perf_counter()
        admin.create_topic("many", PARTITIONS, replication_factor=3, timeout=60)
        created = time_until(led, began)
        time_until(in_sync, began)
        began = time.perf_counter()
        cluster.kill(1)
        moved = time_until(lambda: led(without=1), began)
        cluster.start(1)
        time_until(in_sync, began)
        began = time.perf_counter()
        cluster.terminate(0)
        stopped = time.perf_counter() - began
        for broker in (1, 2):
            cluster.terminate(broker)
        began = time.perf_counter()
        for broker in cluster.brokers:
            cluster.start(broker)
        online = time_until(led, began)
    return [
        at_most("1,000 partitions RF 3: created and led", created, "s", 4.5, "Kafka 9.1"),
        at_most("1,000 partitions: leaders of a killed broker moved", moved, "s", 2.0),
        at_most("1,000 partitions: a broker stops cleanly", stopped, "s", 2.0, "Kafka 3.9"),
        at_most("1,000 partitions: all online after a cold start", online, "s", 10.0),
    ]


def time_until(holds: "workloads.Condition", began: float, limit_s: float = 60.0) -> float:
    while not holds():
        if time.perf_counter() - began > limit_s:
            raise TimeoutError(f"not reached within {limit_s:g} s")
        time.sleep(0.02)
    return time.perf_counter() - began
