"""Creating and deleting whole topics, so that a crash in the middle can be resumed.

A topic that fits into one multi is created in one. A larger one is created in several, and its topic znode holds *no data*
until the last: without data it is not a topic yet, only the remains of a creation that broke off, and the next creation
of that name clears them away. A topic is deleted leaves first, and the mark in /admin/delete_topics goes last: as long as
it stands, whoever is controller goes on deleting.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

from ottla.wire.errors import TopicAlreadyExists, UnknownTopicOrPartition
from ottla.zk.election import ControllerTerm, fenced_multi
from ottla.zk.errors import BadVersion, MultiFailed, NodeExists, NoNode, NotEmpty
from ottla.zk.metadata import LoadedTopic, VersionedState, load_topic
from ottla.zk.operations import Create, Delete, Operation, SetData, in_chunks
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.config import TopicConfigZnode
from ottla.zk.znodes.topics import DeleteTopicZnode, PartitionStateZnode, TopicZnode

logger = logging.getLogger(__name__)


async def create_topic(
    session: ZkSession,
    term: ControllerTerm,
    name: str,
    topic: TopicZnode,
    *,
    states: Mapping[int, PartitionStateZnode],
    config: Mapping[str, str],
) -> LoadedTopic:
    """Create a topic with the first states of its partitions, all or nothing to those who read it.

    TopicAlreadyExists if there is one; one with the same topic id is our own from a call whose answer was lost, and fine.
    """
    # Invariant: every partition starts with a state, for without one nobody may lead it.
    assert set(states) == set(topic.partitions), (set(states), set(topic.partitions))
    while True:
        try:
            version = await _create(session, term, name, topic, states, config)
        except MultiFailed as failed:
            if not isinstance(failed.cause, NodeExists | BadVersion | NoNode):
                raise
            existing = await _existing(session, term, name)
            if existing is None:
                continue
            if existing.topic.topic_id is None or existing.topic.topic_id != topic.topic_id:
                raise TopicAlreadyExists(f"topic {name} exists", topic=name) from None
            return existing
        logger.info("topic created topic=%s topic_id=%s partitions=%d", name, topic.topic_id, len(topic.partitions))
        first = {partition: VersionedState(state, 0) for partition, state in states.items()}
        return LoadedTopic(name, topic, version, config, first)


async def _create(
    session: ZkSession,
    term: ControllerTerm,
    name: str,
    topic: TopicZnode,
    states: Mapping[int, PartitionStateZnode],
    config: Mapping[str, str],
) -> int:
    """Returns the version of the topic znode."""
    path = TopicZnode.path(name)
    head = Create(path, topic.encode())
    rest: list[Operation] = [
        await _config_write(session, name, config),
        Create(TopicZnode.partitions_path(name)),
    ]
    for partition, state in states.items():
        rest.append(Create(PartitionStateZnode.partition_path(name, partition)))
        rest.append(Create(PartitionStateZnode.path(name, partition), state.encode()))
    if len(in_chunks([head, *rest])) == 1:
        await fenced_multi(session, term, [head, *rest])
        return 0
    for chunk in in_chunks([replace(head, data=b""), *rest]):
        await fenced_multi(session, term, chunk)
    await fenced_multi(session, term, [SetData(path, head.data, 0)])
    return 1


async def _config_write(session: ZkSession, name: str, config: Mapping[str, str]) -> Operation:
    """Settings may stand there before their topic does: Kafka's tools write them first."""
    path, data = TopicConfigZnode.path(name), TopicConfigZnode(config).encode()
    stat = await session.exists(path)
    return Create(path, data) if stat is None else SetData(path, data, stat.version)


async def _existing(session: ZkSession, term: ControllerTerm, name: str) -> LoadedTopic | None:
    """The topic that stands in the way; None if there was none, or only the remains of a creation, now cleared away."""
    await session.sync("/")
    try:
        return await load_topic(session, name)
    except UnknownTopicOrPartition:
        if await session.exists(TopicZnode.path(name)) is not None:
            logger.info("topic remains cleared away topic=%s", name)
            await delete_topic(session, term, name)
        return None


async def add_partitions(
    session: ZkSession,
    term: ControllerTerm,
    name: str,
    topic: TopicZnode,
    version: int,
    *,
    states: Mapping[int, PartitionStateZnode],
) -> int:
    """Write a topic's larger assignment and the first states of its new partitions; gives the topic's new version.

    The states come first: a partition that the assignment does not name yet is nobody's, and can be written again.
    """
    operations: list[Operation] = []
    for partition, state in states.items():
        for path, data in (
            (PartitionStateZnode.partition_path(name, partition), b""),
            (PartitionStateZnode.path(name, partition), state.encode()),
        ):
            found = await session.exists(path)
            operations.append(Create(path, data) if found is None else SetData(path, data, found.version))
    for chunk in in_chunks(operations):
        await fenced_multi(session, term, chunk)
    return await write_topic(session, term, name, topic, version)


async def write_topic(session: ZkSession, term: ControllerTerm, name: str, topic: TopicZnode, version: int) -> int:
    """Write a topic's assignment if it still has this version; gives the new one."""
    await fenced_multi(session, term, [SetData(TopicZnode.path(name), topic.encode(), version)])
    return version + 1


async def mark_for_deletion(session: ZkSession, term: ControllerTerm, name: str) -> None:
    """Note down that a topic is to be deleted; from here on a crash delays its end but does not prevent it."""
    if await session.exists(TopicZnode.path(name)) is None:
        raise UnknownTopicOrPartition(f"no topic {name}", topic=name)
    try:
        await fenced_multi(session, term, [Create(DeleteTopicZnode.path(name))])
    except MultiFailed as failed:
        if not isinstance(failed.cause, NodeExists):
            raise


async def delete_topic(session: ZkSession, term: ControllerTerm, name: str) -> None:
    """Remove all that ZooKeeper knows of a topic, its mark last. For when its replicas are gone; again after a crash."""
    while True:
        await session.sync("/")
        leaves, roots = await _tree(session, name)
        try:
            for chunk in in_chunks(leaves):
                await fenced_multi(session, term, chunk)
            if roots:
                await fenced_multi(session, term, roots)
            logger.info("topic deleted topic=%s", name)
            return
        except MultiFailed as failed:
            # A leader wrote a last ISR in between: read the versions again.
            if not isinstance(failed.cause, BadVersion | NoNode | NotEmpty):
                raise


async def _tree(session: ZkSession, name: str) -> tuple[list[Operation], list[Operation]]:
    """The deletions of everything below the partitions, then those of the rest, which fit into one multi."""
    partitions_path = TopicZnode.partitions_path(name)
    try:
        partitions = await session.children(partitions_path)
    except NoNode:
        partitions = []
    leaf_paths = [
        path for number in partitions for path in (f"{partitions_path}/{number}/state", f"{partitions_path}/{number}")
    ]
    root_paths = [
        partitions_path,
        TopicZnode.path(name),
        TopicConfigZnode.path(name),
        DeleteTopicZnode.path(name),
    ]
    return await _deletions(session, leaf_paths), await _deletions(session, root_paths)


async def _deletions(session: ZkSession, paths: list[str]) -> list[Operation]:
    stats = await asyncio.gather(*(session.exists(path) for path in paths))
    return [Delete(path, stat.version) for path, stat in zip(paths, stats, strict=True) if stat is not None]
