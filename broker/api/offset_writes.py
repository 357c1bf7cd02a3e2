"""Writes of a group's committed offsets, as OffsetCommit and OffsetDelete make them."""

import asyncio
from collections.abc import Callable

from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.wire.errors import OttlaError, UnknownTopicOrPartition
from ottla.zk.groups import GroupWrite


def written(groups: Groups, coordinated: Coordinated, fill: Callable[[GroupWrite], None]) -> asyncio.Future[None]:
    """Put a write at once, in the order of the calls. The future is done once it stands in ZooKeeper, or fails with why not."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: OttlaError | None) -> None:
        coordinated.committing -= 1
        if not outcome.done():
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

    coordinated.committing += 1
    groups.commit(coordinated, fill, done)
    return outcome


def has_partition(view: ClusterView, topic: str, partition: int) -> bool:
    known = view.topic(topic)
    return known is not None and 0 <= partition < len(known.partitions)


def unknown_partition(topic: str, partition: int) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(f"there is no {topic[:100]}-{partition}")
