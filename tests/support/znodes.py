"""What stands in ZooKeeper, for tests that block."""

import asyncio
from typing import NamedTuple

from ottla.local import LocalCluster
from ottla.wire.names import TopicPartition
from ottla.zk.metadata import VersionedState, read_partition_state
from ottla.zk.session.session import ZkSession


class Znode(NamedTuple):
    data: bytes
    version: int


def read_znode(cluster: LocalCluster, path: str) -> Znode:
    """A znode's bytes and version, as of now."""

    async def read() -> Znode:
        session = ZkSession(cluster.zookeeper, digest=cluster.zookeeper_digest)
        await session.start(30)
        try:
            await session.sync(path)
            data, stat = await session.get(path)
            return Znode(data, stat.version)
        finally:
            await session.close()

    return asyncio.run(read())


def children_of(cluster: LocalCluster, path: str) -> list[str]:
    """The names below a znode, as of now."""

    async def read() -> list[str]:
        session = ZkSession(cluster.zookeeper, digest=cluster.zookeeper_digest)
        await session.start(30)
        try:
            await session.sync(path)
            return await session.children(path)
        finally:
            await session.close()

    return asyncio.run(read())


def make_znode(cluster: LocalCluster, path: str, data: bytes) -> None:
    """As by hand."""

    async def make() -> None:
        session = ZkSession(cluster.zookeeper, digest=cluster.zookeeper_digest)
        await session.start(30)
        try:
            await session.create(path, data, make_parents=True)
        finally:
            await session.close()

    asyncio.run(make())


def partition_state(cluster: LocalCluster, topic: str, partition: int = 0) -> VersionedState:
    """A partition's leader, epoch and ISR as ZooKeeper has them."""

    async def read() -> VersionedState | None:
        session = ZkSession(cluster.zookeeper, digest=cluster.zookeeper_digest)
        await session.start(30)
        try:
            return await read_partition_state(session, TopicPartition(topic, partition))
        finally:
            await session.close()

    found = asyncio.run(read())
    assert found is not None, f"{topic} partition {partition} has no state"
    return found


def broker_epoch(cluster: LocalCluster, broker: int) -> int:
    """Which life of a broker is known."""
    return read_znode(cluster, f"/brokers/epochs/{broker}").version
