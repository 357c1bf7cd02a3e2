"""Reads what ZooKeeper has about brokers and partitions, for faults that depend on it. Each call opens its own session."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.wire.names import TopicPartition
from ottla.zk.access import Digest
from ottla.zk.metadata import read_partition_state
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.brokers import BrokerEpochZnode
from ottla.zk.znodes.isr_changes import IsrChangeZnode

R = TypeVar("R")

TIMEOUT_S = 30.0

ANY_VERSION = -1


class ZooKeeperStates:
    """What the servers at ``connect`` have; blocking."""

    def __init__(self, connect: str, digest: Digest) -> None:
        self._connect = connect
        self._digest = digest

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        """The ISR of a partition, not as brokers know it but as it is stored."""

        async def read(session: ZkSession) -> tuple[int, ...]:
            found = await read_partition_state(session, TopicPartition(topic, partition))
            return tuple(found.state.isr) if found is not None else ()

        return self._ask(read)

    def broker_epoch(self, broker: int) -> int:
        """The epoch of the incarnation that registered last."""

        async def read(session: ZkSession) -> int:
            _, stat = await session.get(BrokerEpochZnode.path(broker))
            return stat.version

        return self._ask(read)

    def remove_isr_notifications(self) -> None:
        async def remove(session: ZkSession) -> None:
            for name in await session.children(IsrChangeZnode.PARENT):
                await session.delete(IsrChangeZnode.path(name), ANY_VERSION)

        self._ask(remove)

    def _ask(self, what: Callable[[ZkSession], Awaitable[R]]) -> R:
        async def ask() -> R:
            session = ZkSession(self._connect, digest=self._digest)
            await session.start(TIMEOUT_S)
            try:
                await session.sync("/")
                return await what(session)
            finally:
                await session.close()

        return asyncio.run(ask())
