"""Consumer groups: commits a second that stand in ZooKeeper, how long a hand-over takes, and a large rebalance."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from ottla.bench.rows import Row, at_most, save, show
from ottla.bench.workloads import percentile
from ottla.client import AsyncAdmin, AsyncConsumer, TopicPartition
from ottla.local import LocalCluster
from ottla.zk.session.session import ZkSession

HAND_OVERS = 10
WAIT_S = 120.0


def run(scale: float, out: Path) -> None:
    with LocalCluster(brokers=3, zookeepers=3) as cluster:
        rows = asyncio.run(_measure(cluster, scale))
    save(rows, out / "groups.json")


async def _measure(cluster: LocalCluster, scale: float) -> list[Row]:
    rows: list[Row] = []
    async with AsyncAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topic("few", partitions=12, replication_factor=3)
        await admin.create_topic("many", partitions=max(50, int(1000 * scale)), replication_factor=1)
        limit = await _write_limit(cluster)
        for groups in (1, 10, 100):
            rows += show(await _commits(cluster, groups, max(2.0, 5 * scale), limit))
        rows += show(await _hand_overs(cluster))
        rows += show([await _large_rebalance(cluster, max(10, int(200 * scale)), max(50, int(1000 * scale)))])
    return rows


async def _write_limit(cluster: LocalCluster) -> float:
    """Single writes a second, one after the other, to the same ZooKeeper."""
    session = ZkSession(cluster.zookeeper, digest=cluster.zookeeper_digest)
    await session.start(30)
    try:
        await session.create("/bench", b"0")
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < 1:
            await session.set("/bench", b"%d" % count, -1)
            count += 1
        return count / (time.perf_counter() - began)
    finally:
        await session.close()


async def _commits(cluster: LocalCluster, groups: int, seconds: float, limit: float) -> list[Row]:
    """Each group commits one partition again and again, as soon as the commit before stands."""
    consumers = [
        AsyncConsumer(bootstrap_servers=cluster.bootstrap, group_id=f"commits-{groups}-{number}")
        for number in range(groups)
    ]
    times: list[float] = []

    async def commit(consumer: AsyncConsumer) -> None:
        await consumer.commit({TopicPartition("few", 0): 0})
        deadline, offset = time.perf_counter() + seconds, 0
        while (began := time.perf_counter()) < deadline:
            offset += 1
            await consumer.commit({TopicPartition("few", 0): offset})
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*map(commit, consumers))
    taken = time.perf_counter() - began
    await asyncio.gather(*(consumer.close() for consumer in consumers))
    return [
        Row(f"commits of {groups} groups", len(times) / taken, "/s", limit=limit),
        Row(f"commits of {groups} groups, p99", percentile(times, 0.99) * 1000, "ms"),
    ]


async def _hand_overs(cluster: LocalCluster) -> list[Row]:
    """Of three members that share 12 partitions one leaves: until the others have all of them; and joins again."""
    left, joined = [], []
    members = [await _member(cluster, "hand-over", "few") for _ in range(3)]
    await _until(members, lambda: _shared(members, 12))
    for _ in range(HAND_OVERS):
        gone = members.pop()
        began = time.perf_counter()
        await gone.close()
        await _until(members, lambda: _shared(members, 12))
        left.append(time.perf_counter() - began)
        began = time.perf_counter()
        members.append(await _member(cluster, "hand-over", "few"))
        await _until(members, lambda: _shared(members, 12))
        joined.append(time.perf_counter() - began)
    await asyncio.gather(*(member.close() for member in members))
    return [
        at_most(
            "a member leaves: all partitions read by others", percentile(left, 0.5), "s", 0.5, "Kafka: heartbeat 3 s"
        ),
        at_most("a member joins: partitions shared anew", percentile(joined, 0.5), "s", 0.5),
    ]


async def _large_rebalance(cluster: LocalCluster, count: int, partitions: int) -> Row:
    """One member more than there are: until all have their share again."""
    members = [await _member(cluster, "large", "many") for _ in range(count - 1)]
    await _until(members, lambda: _shared(members, partitions))
    began = time.perf_counter()
    members.append(await _member(cluster, "large", "many"))
    await _until(members, lambda: _shared(members, partitions))
    taken = time.perf_counter() - began
    await asyncio.gather(*(member.close() for member in members))
    return at_most(f"{count} members, {partitions} partitions: one joins", taken, "s", 2)


async def _member(cluster: LocalCluster, group: str, topic: str) -> AsyncConsumer:
    member = AsyncConsumer(bootstrap_servers=cluster.bootstrap, group_id=group, client_id=group)
    await member.subscribe([topic])
    return member


def _read_by(member: AsyncConsumer) -> set[TopicPartition]:
    return member._group.owned() if member._group is not None else set()


def _shared(members: list[AsyncConsumer], partitions: int) -> bool:
    """Each has one owner, and nobody has two more than another."""
    parts = [_read_by(member) for member in members]
    sizes = [len(part) for part in parts]
    return max(sizes) - min(sizes) <= 1 and sum(sizes) == partitions == len(set().union(*parts))


async def _until(members: list[AsyncConsumer], enough: Callable[[], bool]) -> None:
    """Have all of them poll until something is so."""

    async def poll(member: AsyncConsumer) -> None:
        while not enough():
            await member.poll(0.005)

    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*map(poll, members))
