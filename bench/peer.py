"""Our clients beside confluent-kafka (librdkafka), one process each, records of 100 B, in the same run.

librdkafka talks to its own mock cluster, which costs it no disk and no other process; ours to a real broker. Nothing else needs
it: ``make bench-peer`` installs it.
"""

import time
from pathlib import Path
from typing import Any

from ottla.bench import workloads
from ottla.bench.rows import Row, save, show
from ottla.bench.workloads import new_topic
from ottla.local import LocalCluster

VALUE = b"x" * 100
MOCK_KEEPS = 60_000
"""How many records are read back: a mock partition keeps a few megabytes."""

PATIENCE_S = 10.0


def run(scale: float, out: Path) -> None:
    try:
        import confluent_kafka  # optional
    except ImportError:
        print("confluent-kafka is not installed: make bench-peer")
        return
    count = int(1_000_000 * scale)
    theirs_out, theirs_in = theirs(confluent_kafka, count)
    with LocalCluster(brokers=1) as cluster:
        topic = new_topic(cluster.bootstrap)
        one_by_one = workloads.send_one_by_one(cluster.bootstrap, topic, records=count, value_size=100)
        lists = workloads.send_lists(cluster.bootstrap, topic, records=count, value_size=100)
        read = workloads.read_records(cluster.bootstrap, topic, records=count)
        batches, _ = workloads.read_batches(cluster.bootstrap, topic, records=count, values=True)
    rows = [
        Row("confluent-kafka: produce()", theirs_out, "records/s"),
        _beside("Producer.send", one_by_one, theirs_out, 1),
        _beside("Producer.send_many", lists, theirs_out, 3),
        Row("confluent-kafka: poll()", theirs_in, "records/s"),
        _beside("for record in Consumer", read, theirs_in, 1),
        _beside("Consumer.poll_batches", batches, theirs_in, 3),
    ]
    save(show(rows), out / "peer.json")


def _beside(name: str, ours: float, theirs: float, times: int) -> Row:
    goal = f">= {times} x theirs"
    return Row(name, ours, "records/s", goal=goal, met=ours >= times * theirs, others=f"{ours / theirs:.1f} x")


def theirs(confluent: Any, count: int) -> tuple[float, float]:
    """Records a second out and in, each by the call that takes or gives one."""
    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "linger.ms": 5, "log_level": 0}
    producer = confluent.Producer({**settings, "queue.buffering.max.messages": 10_000_000})
    brokers = producer.list_topics(timeout=PATIENCE_S).brokers.values()
    bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    out = _produce(producer, "out", count)
    producer.produce("back", VALUE, partition=0)
    producer.flush(PATIENCE_S)
    for _ in range(MOCK_KEEPS):
        producer.produce("back", VALUE, partition=0)
    producer.flush(PATIENCE_S)
    consumer = confluent.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.assign([confluent.TopicPartition("back", 0, 0)])
    got, began, last = 0, 0.0, 0.0
    while got < MOCK_KEEPS:
        message = consumer.poll(PATIENCE_S)
        if message is None or message.error():
            break
        last = time.perf_counter()
        began = began or last
        got += 1
    consumer.close()
    return out, got / (last - began)


def _produce(producer: Any, topic: str, count: int) -> float:
    produce, poll = producer.produce, producer.poll
    began = time.perf_counter()
    for number in range(count):
        produce(topic, VALUE)
        if not number % 1000:
            poll(0)
    producer.flush(60)
    return count / (time.perf_counter() - began)
