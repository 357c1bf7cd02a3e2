"""One consumer of many partitions: how long a record takes from send to poll, and what an idle consumer costs."""

import asyncio
import os
import random
import time
from pathlib import Path

from ottla.bench.rows import Row, save, show
from ottla.bench.workloads import percentile
from ottla.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from ottla.local import LocalCluster

COUNTS = (1, 100, 1000, 4000)
IDLE_S = 5.0
WAIT_S = 60.0
WARM_UP = 200


def run(scale: float, out: Path) -> None:
    rows: list[Row] = []
    for brokers in (1, 3):
        with LocalCluster(brokers=brokers) as cluster:
            rows += asyncio.run(_measure(cluster, brokers, scale))
    save(rows, out / "partitions.json")


async def _measure(cluster: LocalCluster, brokers: int, scale: float) -> list[Row]:
    """Each count beside one partition a broker, measured just before: the machine varies more than what is measured."""
    rounds, rows = max(300, int(3000 * scale)), []
    await _add_topic(cluster, brokers)
    for count in [max(count, brokers) for count in COUNTS if count <= 1000 or scale >= 1]:
        await _add_topic(cluster, count)
        alone, _ = await _read(cluster, brokers, rounds, idle_s=0.0)
        taken, idle = await _read(cluster, count, rounds)
        name = f"{brokers} broker{'s' if brokers > 1 else ''}, {count:,} partitions"
        for share in (0.5, 0.99):
            few, value = percentile(alone, share) * 1000, percentile(taken, share) * 1000
            goal, met = ("<= 1.3 x limit", value <= 1.3 * few) if share == 0.5 else ("", None)
            title = f"send to poll, {name}, p{share * 100:.0f}"
            rows += show([Row(title, value, "ms", limit=few, goal=goal, met=met)])
        rows += show([Row(f"idle consumer, {name}: processor", idle * 100, "%")])
    return rows


async def _add_topic(cluster: LocalCluster, count: int) -> None:
    async with AsyncAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        if f"p{count}" not in await admin.list_topics():
            await admin.create_topic(f"p{count}", partitions=count, replication_factor=1, timeout=WAIT_S)


async def _read(cluster: LocalCluster, count: int, rounds: int, idle_s: float = IDLE_S) -> tuple[list[float], float]:
    """Seconds from send to poll, one record at a time; and the share of a core that the idle client and brokers take."""
    topic, taken = f"p{count}", []
    async with (
        AsyncConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="latest") as consumer,
        AsyncProducer(bootstrap_servers=cluster.bootstrap, acks="1") as producer,
    ):
        for partition in range(count):
            await consumer.position(topic, partition, timeout=WAIT_S)

        async def once(partition: int) -> float:
            began = time.perf_counter()
            await producer.send(topic, b"x" * 100, partition=partition)
            (record,) = await consumer.poll(timeout=WAIT_S)
            assert record.partition == partition
            return time.perf_counter() - began

        for partition in [*range(count)] + [0] * WARM_UP:  # the first record of a log finds its files closed
            await once(partition)
        for _ in range(rounds):
            taken.append(await once(random.randrange(count)))
        await producer.flush()
        before = _processor_s(cluster)
        await asyncio.sleep(idle_s)
        return taken, (_processor_s(cluster) - before) / idle_s if idle_s else 0.0


def _processor_s(cluster: LocalCluster) -> float:
    """Of this process and all brokers."""
    ticks = 0
    for pid in (os.getpid(), *(cluster.pid(broker) for broker in cluster.brokers)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
