"""How leaders tell the controller that they changed an ISR: short-lived znodes that it reads and removes."""

import asyncio
import json
import logging
from collections.abc import Iterable, Sequence

from ottla.wire.names import TopicPartition
from ottla.zk.errors import NoNode
from ottla.zk.session import ZkSession
from ottla.zk.znode_json import encode_json

logger = logging.getLogger(__name__)

PARENT = "/isr_change_notification"
PREFIX = "isr_change_"
PARTITIONS_PER_NODE = 1000


async def notify_isr_change(session: ZkSession, partitions: Sequence[TopicPartition]) -> None:
    """Say that the ISR of these partitions was changed."""
    for start in range(0, len(partitions), PARTITIONS_PER_NODE):
        named = [
            {"topic": where.topic, "partition": where.partition}
            for where in partitions[start : start + PARTITIONS_PER_NODE]
        ]
        await session.create(f"{PARENT}/{PREFIX}", encode_json({"version": 1, "partitions": named}), sequence=True)


async def take_isr_changes(session: ZkSession, names: Iterable[str]) -> set[TopicPartition]:
    """Read these notifications and remove them; one that makes no sense is removed all the same."""
    taken = await asyncio.gather(*(_take(session, f"{PARENT}/{name}") for name in names))
    return {where for some in taken for where in some}


async def _take(session: ZkSession, path: str) -> list[TopicPartition]:
    try:
        data, stat = await session.get(path)
        await session.delete(path, stat.version)
    except NoNode:
        return []
    try:
        return [TopicPartition(str(one["topic"]), int(one["partition"])) for one in json.loads(data)["partitions"]]
    except (ValueError, TypeError, KeyError) as error:
        logger.warning("isr notification ignored path=%s error=%s", path, error)
        return []
