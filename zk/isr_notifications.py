"""How leaders tell the controller that they changed an ISR: short-lived znodes that it reads and removes."""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from ottla.wire.names import TopicPartition
from ottla.zk.errors import NoNode
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.isr_changes import IsrChangeZnode
from ottla.zk.znodes.json_fields import MalformedZnode

logger = logging.getLogger(__name__)

PARTITIONS_PER_NODE = 1000


async def notify_isr_change(session: ZkSession, partitions: Sequence[TopicPartition]) -> None:
    """Say that the ISR of these partitions was changed."""
    for start in range(0, len(partitions), PARTITIONS_PER_NODE):
        change = IsrChangeZnode(partitions[start : start + PARTITIONS_PER_NODE])
        await session.create(IsrChangeZnode.PREFIX, change.encode(), sequence=True)


async def take_isr_changes(session: ZkSession, names: Iterable[str]) -> set[TopicPartition]:
    """Read these notifications and remove them; one that makes no sense is removed all the same."""
    taken = await asyncio.gather(*(_take(session, name) for name in names))
    return {where for some in taken for where in some}


async def _take(session: ZkSession, name: str) -> Sequence[TopicPartition]:
    path = IsrChangeZnode.path(name)
    try:
        data, stat = await session.get(path)
        await session.delete(path, stat.version)
    except NoNode:
        return []
    try:
        return IsrChangeZnode.decode(name, data).partitions
    except MalformedZnode as error:
        logger.warning("isr notification ignored path=%s error=%s", path, error)
        return []
