"""One broker on one machine with its client: throughput, latency, records/s, memory, start."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ottla.bench import codec, limit, workloads
from ottla.bench.rows import Row, against, at_least, at_most, rss_mb, save, show
from ottla.bench.workloads import new_topic, percentile
from ottla.client import Admin
from ottla.local import LocalCluster

MB = 1_000_000
ROUNDS = 3


def run(scale: float, out: Path) -> None:
    rows = show(codec_rows())
    with LocalCluster(brokers=1) as cluster:
        rows += show([at_most("broker, idle: memory", rss_mb(cluster.pid(0)), "MB", 80, "Kafka 330-350")])
        # Latency first: after gigabytes were written, the whole machine is slower for a minute.
        rows += show(latency_rows(cluster.bootstrap, int(5000 * max(scale, 0.2))))
        rows += show(throughput_rows(cluster.bootstrap, scale))
        rows += show(record_rows(cluster.bootstrap, scale))
        rows += show([Row("broker, after all this: memory", rss_mb(cluster.pid(0)), "MB")])
        cluster.terminate(0)
        began = time.perf_counter()
        cluster.start(0)
        rows += show([at_most("start to serving", time.perf_counter() - began, "s", 1.5, "Kafka 5.8-8.9")])
    save(rows, out / "one-broker.json")


def codec_rows() -> list[Row]:
    """Encoding and decoding alone, one core, 100-byte values."""
    speeds = codec.headline_speeds()
    wanted = {"encode": 2e6, "decode to lists": 2e6, "to Arrow columns": 10e6}
    return [at_least(f"batches: {name}", speeds[name], least) for name, least in wanted.items()]


def throughput_rows(bootstrap: str, scale: float) -> list[Row]:
    """Medians of rounds, in each of which the limits are measured too; each begins with nothing waiting for the disk."""
    total = int(300 * MB * scale)
    write_limits, read_limits, whole, small, read = [], [], [], [], []
    for _ in range(ROUNDS):
        write_limits.append(limit.write_limit(total))
        whole.append(produce_and_read(bootstrap, total, value_size=65000)[0])
        write_limits.append(limit.write_limit(total))
        written, taken = produce_and_read(bootstrap, total, value_size=1024)
        small.append(written)
        read.append(taken)
        read_limits.append(limit.read_limit(total))
    bare, others = median(write_limits), "NATS 690, Kafka 100-109"
    return [
        against("acks=1, 64 KB batches of one value", median(whole), "MB/s", bare, others),
        against("acks=1, 64 KB batches of 1 KB values", median(small), "MB/s", bare, others),
        against(
            *("consume 1 KB records as batches", median(read), "MB/s", median(read_limits)),
            others="Kafka 354-372, librdkafka 283",
        ),
    ]


def produce_and_read(bootstrap: str, total: int, value_size: int) -> tuple[float, float]:
    """MB/s written, and MB/s read back as batches."""
    topic = new_topic(bootstrap)
    seconds = workloads.produce_batches(bootstrap, topic, total_bytes=total, value_size=value_size, batch_size=65536)
    per_call = max(1, 65536 // value_size)
    records = total // (per_call * value_size) * per_call
    _, read = workloads.read_batches(bootstrap, topic, records=records, values=False)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(topic)
    return total / seconds / MB, read / MB


def latency_rows(bootstrap: str, rounds: int) -> list[Row]:
    """p50 and p99 of one send in flight, beside a bare echo of the same bytes."""
    topic = new_topic(bootstrap)
    bare = limit.echo_latency(rounds)
    rows = []
    measured: list[tuple[str, Callable[..., list[float]]]] = [
        ("AsyncProducer", workloads.produce_latencies),
        ("Producer", workloads.blocking_latencies),
    ]
    for name, measure in measured:
        taken = measure(bootstrap, topic, rounds=rounds, value_size=1024)
        for share, most, others in ((0.5, 0.15, "Kafka 0.27, NATS 0.18"), (0.99, 0.45, "Kafka 0.91, NATS 0.29")):
            title = f"{name}, 1 KB, acks=1, one in flight, p{share * 100:.0f}"
            echo = percentile(bare, share) * 1000
            rows.append(at_most(title, percentile(taken, share) * 1000, "ms", most, others, limit=echo))
    return rows


def record_rows(bootstrap: str, scale: float) -> list[Row]:
    topic, count = new_topic(bootstrap), int(3_000_000 * scale)
    one_by_one = workloads.send_one_by_one(bootstrap, topic, records=count // 3, value_size=100)
    lists = workloads.send_lists(bootstrap, topic, records=count, value_size=100)
    read = workloads.read_records(bootstrap, topic, records=count)
    batches, _ = workloads.read_batches(bootstrap, topic, records=count, values=True)
    return [
        at_least("Producer.send, 100 B", one_by_one, 500e3),
        at_least("Producer.send_many, 100 B", lists, 2e6, "confluent-kafka 1.1 M against Kafka"),
        at_least("for record in Consumer, 100 B", read, 800e3),
        at_least("Consumer.poll_batches, values of 100 B", batches, 3e6),
    ]
