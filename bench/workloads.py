"""What is measured: the ways in which people really use the client, each as one function that gives numbers."""

import os
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import uvloop

from ottla.client import Admin, AsyncProducer, Consumer, Producer
from ottla.client.options import Acks

R = TypeVar("R")
Condition = Callable[[], bool]


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    name = f"bench-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=partitions)
    return name


def produce_batches(
    bootstrap: str, topic: str, *, total_bytes: int, value_size: int, batch_size: int, acks: str = "1"
) -> float:
    """Seconds to send values in batches of ``batch_size`` over one connection a broker, until all are acked."""

    async def run() -> float:
        per_call = max(1, batch_size // value_size)
        values = [bytes(value_size)] * per_call
        how: Any = {"acks": acks, "batch_size": batch_size, "partitioner": "sticky"}  # a list stays together: one batch
        async with AsyncProducer(bootstrap_servers=bootstrap, **how) as producer:
            await (await producer.send(topic, b"warm"))
            os.sync()  # what others wrote must not be waited for in our time
            began = time.perf_counter()
            for _ in range(total_bytes // (per_call * value_size)):
                await producer.send_many(topic, values)
            await producer.flush()
            return time.perf_counter() - began

    return run_async(run())


def produce_latencies(bootstrap: str, topic: str, *, rounds: int, value_size: int, acks: Acks = "1") -> list[float]:
    """Seconds of each send with one in flight, from the asyncio producer."""

    async def run() -> list[float]:
        taken = []
        value = bytes(value_size)
        async with AsyncProducer(bootstrap_servers=bootstrap, acks=acks) as producer:
            for _ in range(rounds // 10):
                await (await producer.send(topic, value))
            for _ in range(rounds):
                began = time.perf_counter()
                await (await producer.send(topic, value))
                taken.append(time.perf_counter() - began)
        return taken

    return run_async(run())


def blocking_latencies(bootstrap: str, topic: str, *, rounds: int, value_size: int) -> list[float]:
    """As ``produce_latencies``, from the blocking producer."""
    taken = []
    value = bytes(value_size)
    with Producer(bootstrap_servers=bootstrap, acks=1) as producer:
        for _ in range(rounds // 10):
            producer.send(topic, value).result()
        for _ in range(rounds):
            began = time.perf_counter()
            producer.send(topic, value).result()
            taken.append(time.perf_counter() - began)
    return taken


def send_one_by_one(bootstrap: str, topic: str, *, records: int, value_size: int) -> float:
    """Records/s of Producer.send with the defaults, until all are acked."""
    value = bytes(value_size)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, value).result()
        began = time.perf_counter()
        for _ in range(records):
            producer.send(topic, value)
        producer.flush()
        return records / (time.perf_counter() - began)


def send_lists(bootstrap: str, topic: str, *, records: int, value_size: int, list_size: int = 10_000) -> float:
    """Records/s of Producer.send_many with the defaults, until all are acked."""
    values = [bytes(value_size)] * list_size
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"warm").result()
        began = time.perf_counter()
        for _ in range(records // list_size):
            producer.send_many(topic, values)
        producer.flush()
        return records // list_size * list_size / (time.perf_counter() - began)


def read_records(bootstrap: str, topic: str, *, records: int) -> float:
    """Records/s of ``for record in consumer``."""
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        count = len(consumer.poll(10, max_records=1))
        began = time.perf_counter()
        for _ in consumer:
            count += 1
            if count == records:
                break
        return (records - 1) / (time.perf_counter() - began)


def read_batches(bootstrap: str, topic: str, *, records: int, values: bool) -> tuple[float, float]:
    """Records/s and bytes/s of ``poll_batches``; with ``values``, every value becomes an object too."""
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        count = len(consumer.poll(10, max_records=1))
        size = 0
        began = time.perf_counter()
        while count < records:
            for batch in consumer.poll_batches(10):
                count += len(batch.values()) if values else len(batch)
                size += batch.size
        elapsed = time.perf_counter() - began
        return count / elapsed, size / elapsed


def percentile(taken: Sequence[float], share: float) -> float:
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * share))]


def run_async(work: Coroutine[Any, Any, R]) -> R:
    return uvloop.run(work)
