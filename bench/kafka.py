"""confluent-kafka (librdkafka) against three brokers, records of 100 B, three copies, acks=all: beside its own mock cluster,
which costs it no disk and no other process, and beside our client, in the same run.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.bench import workloads
from ottla.bench.peer import theirs
from ottla.bench.rows import Row, at_least, at_most, save, show
from ottla.bench.three_brokers import replicated_topic
from ottla.bench.workloads import percentile
from ottla.local import LocalCluster

VALUE = b"x" * 100
PATIENCE_S = 30.0
MB = 1e6
PARTITIONS = 3

QUEUES = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 1}
"""With its defaults librdkafka fetches nothing for a second whenever 100,000 records wait for the application."""


def run(scale: float, out: Path) -> None:
    try:
        import confluent_kafka  # optional
    except ImportError:
        print("confluent-kafka is not installed: pip install 'ottla[compat]'")
        return
    count = int(1_000_000 * scale)
    mock_out, mock_in = theirs(confluent_kafka, count)
    rows = [
        Row("confluent-kafka to its mock cluster, produced", mock_out, "records/s"),
        Row("confluent-kafka from its mock cluster, consumed one by one", mock_in, "records/s"),
    ]
    show(rows)
    with LocalCluster(brokers=3) as cluster:
        rows += show(_throughput(confluent_kafka, cluster, count))
        rows += show(_latency(confluent_kafka, cluster, int(3000 * scale) + 100))
        rows += show(_columnar(confluent_kafka, cluster, count))
    save(rows, out / "kafka.json")


def _throughput(confluent: Any, cluster: LocalCluster, count: int) -> list[Row]:
    topic = replicated_topic(cluster.bootstrap, PARTITIONS)
    written, write_cpu = _with_cpu(cluster, lambda: _produce(confluent, cluster.bootstrap, topic, count))
    read, read_cpu = _with_cpu(cluster, lambda: _consume(confluent, cluster.bootstrap, topic, count))
    size_mb = count * len(VALUE) / MB
    ours_topic = replicated_topic(cluster.bootstrap, PARTITIONS)
    ours = workloads.send_one_by_one(cluster.bootstrap, ours_topic, records=count, value_size=len(VALUE))
    return [
        at_least("confluent-kafka to ottla, produced", written, 600_000, "Kafka 616 k"),
        Row("the brokers' CPU for it, all three", write_cpu / size_mb * 1000, "ms/MB"),
        at_least("confluent-kafka from ottla, consumed", read, 500_000, "Kafka 485-825 k"),
        Row("the brokers' CPU for it, all three", read_cpu / size_mb * 1000, "ms/MB"),
        Row("Producer.send of our own client", ours, "records/s"),
    ]


def _latency(confluent: Any, cluster: LocalCluster, rounds: int) -> list[Row]:
    topic = replicated_topic(cluster.bootstrap, 1)
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "acks": "all"})
    taken = []
    for number in range(rounds + rounds // 10):
        began = time.perf_counter()
        producer.produce(topic, VALUE, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        if number >= rounds // 10:
            taken.append((time.perf_counter() - began) * 1000)
    ours = workloads.produce_latencies(cluster.bootstrap, topic, rounds=rounds, value_size=len(VALUE), acks="all")
    return [
        at_most("confluent-kafka, one in flight, p50", percentile(taken, 0.5), "ms", 0.6, "Kafka 0.97"),
        Row("confluent-kafka, one in flight, p99", percentile(taken, 0.99), "ms"),
        Row("our own client, one in flight, p50", percentile(ours, 0.5) * 1000, "ms"),
    ]


def _columnar(confluent: Any, cluster: LocalCluster, count: int) -> list[Row]:
    """What our client wrote in columns, read by a Kafka client: the first time it is converted, then remembered."""
    topic = replicated_topic(cluster.bootstrap, PARTITIONS)
    written = count // 10_000 * 10_000
    workloads.send_lists(cluster.bootstrap, topic, records=written, value_size=len(VALUE))
    first, cpu = _with_cpu(cluster, lambda: _consume(confluent, cluster.bootstrap, topic, written))
    again = _consume(confluent, cluster.bootstrap, topic, written)
    return [
        Row("columns read by confluent-kafka, first", first * len(VALUE) / MB, "MB/s"),
        Row("the brokers' CPU for it, all three", cpu / (written * len(VALUE) / MB) * 1000, "ms/MB"),
        Row("columns read by confluent-kafka, again", again * len(VALUE) / MB, "MB/s"),
    ]


def _produce(confluent: Any, bootstrap: str, topic: str, count: int) -> float:
    """Records a second, until all are acknowledged by all replicas."""
    producer = confluent.Producer(
        {
            "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "batch.num.messages": 50_000,
            "queue.buffering.max.messages": 10_000_000,
        }
    )  # fmt: skip
    producer.list_topics(topic, timeout=PATIENCE_S)
    produce, poll = producer.produce, producer.poll
    began = time.perf_counter()
    for number in range(count):
        produce(topic, VALUE)
        if not number % 1000:
            poll(0)
    assert producer.flush(60) == 0
    return count / (time.perf_counter() - began)


def _consume(confluent: Any, bootstrap: str, topic: str, count: int) -> float:
    """Records a second from the first one on."""
    consumer = confluent.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, **QUEUES}
    )
    consumer.assign([confluent.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    got = len(consumer.consume(1, PATIENCE_S))
    began = time.perf_counter()
    while got < count:
        messages = consumer.consume(min(10_000, count - got), PATIENCE_S)
        assert messages, f"{got} of {count} records came"
        got += len(messages)
    elapsed = time.perf_counter() - began
    consumer.close()
    return count / elapsed


def _with_cpu(cluster: LocalCluster, work: Callable[[], float]) -> tuple[float, float]:
    """What the work gives, and how many seconds of CPU the brokers needed meanwhile."""
    before = _cpu_s(cluster)
    found = work()
    return found, _cpu_s(cluster) - before


def _cpu_s(cluster: LocalCluster) -> float:
    ticks = 0
    for broker in range(3):
        fields = Path(f"/proc/{cluster.pid(broker)}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100
