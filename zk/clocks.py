"""Wall clocks of the brokers, compared through ZooKeeper: a broker writes its time, ZooKeeper stamps the write with its own."""

from dataclasses import dataclass

from ottla.zk.errors import NoNode
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.brokers import BrokerClockZnode
from ottla.zk.znodes.json_fields import MalformedZnode

_ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A broker's wall clock, and ZooKeeper's at the same moment, in milliseconds."""

    broker_ms: int
    zookeeper_ms: int

    @property
    def skew_ms(self) -> int:
        """How far the broker's clock is ahead of ZooKeeper's."""
        return self.broker_ms - self.zookeeper_ms


async def write_clock(session: ZkSession, broker_id: int, now_ms: int) -> ClockReading:
    """Write the time of this broker; returns it with the time that ZooKeeper's leader gave the write."""
    path, znode = BrokerClockZnode.path(broker_id), BrokerClockZnode(now_ms)
    try:
        stat = await session.set(path, znode.encode(), _ANY_VERSION)
    except NoNode:
        await session.create_if_missing(path)
        stat = await session.set(path, znode.encode(), _ANY_VERSION)
    return ClockReading(now_ms, stat.mtime_ms)


async def brokers_with_clocks(session: ZkSession) -> list[int]:
    """The ids of all brokers that ever wrote their time, the smallest first."""
    return sorted(int(name) for name in await session.children(BrokerClockZnode.PARENT) if name.isdecimal())


async def read_clock(session: ZkSession, broker_id: int) -> ClockReading | None:
    """What a broker last wrote; None if it never did, or if that cannot be read."""
    try:
        data, stat = await session.get(BrokerClockZnode.path(broker_id))
        return ClockReading(BrokerClockZnode.decode(broker_id, data).now_ms, stat.mtime_ms) if data else None
    except (NoNode, MalformedZnode):
        return None
