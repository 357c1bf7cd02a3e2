"""What the controller knows about topics: read it all at once, write partition states, give out producer ids.

Reads and writes are pipelined. Every write of a controller stands in a multi with a check of its term, every partition state
is a compare-and-set on the version that was read. Creating and deleting whole topics: see topics.py.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.wire.errors import InvalidTopic, OttlaError, StaleBrokerEpoch, UnknownTopicOrPartition
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.zk.election import ControllerTerm, fenced_multi
from ottla.zk.errors import BadVersion, MultiFailed, NodeExists, NoNode
from ottla.zk.operations import Check, Create, Operation, SetData
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.brokers import BrokerEpochZnode
from ottla.zk.znodes.config import TopicConfigZnode
from ottla.zk.znodes.json_fields import MalformedZnode
from ottla.zk.znodes.producer_ids import ProducerIdBlockZnode
from ottla.zk.znodes.topics import DeleteTopicZnode, PartitionStateZnode, TopicZnode

logger = logging.getLogger(__name__)

PRODUCER_ID_BLOCK_SIZE = 1000
_PRODUCER_ID_MAX = 2**63 - 1

# Many partition states travel in one multi, which is several times quicker than one by one. If one of them fails, its
# whole batch is repeated one by one, so the batches are small.
_STATES_PER_MULTI = 64


@dataclass(frozen=True, slots=True)
class VersionedState:
    """A partition's state and the znode version that the next write must name."""

    state: PartitionStateZnode
    version: int


@dataclass(frozen=True, slots=True)
class LoadedTopic:
    """All that ZooKeeper knows about one topic. A partition without a state has not been given a leader yet."""

    name: str
    topic: TopicZnode
    version: int
    config: Mapping[str, str]
    states: Mapping[int, VersionedState]


@dataclass(frozen=True, slots=True)
class LoadedTopics:
    """All topics whose creation did not break off half-way. ``malformed``: why the others could not be read.

    Those may not be taken for deleted: nobody's data may be thrown away because of them.
    """

    topics: Mapping[str, LoadedTopic]
    deleting: frozenset[str]
    malformed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionStateChange:
    """A new state for one partition, to be written if the znode still has ``version``.

    ``broker_epochs`` names the lives of brokers that the change relies on: a new leader, or a follower that joins the ISR.
    """

    partition: TopicPartition
    state: PartitionStateZnode
    version: int
    broker_epochs: Mapping[int, int] = field(default_factory=dict)


async def load_topics(session: ZkSession) -> LoadedTopics:
    """Read every topic, with config and partition states, not older than the moment of the call."""
    await session.sync("/")
    names, deleting = await asyncio.gather(
        session.children(TopicZnode.PARENT), session.children(DeleteTopicZnode.PARENT)
    )
    found = await asyncio.gather(*(_load_or_explain(session, name) for name in names))
    by_name = dict(zip(names, found, strict=True))
    malformed = {name: why for name, why in by_name.items() if isinstance(why, str)}
    for name, why in malformed.items():
        logger.warning("topic ignored topic=%r error=%s", name, why)
    return LoadedTopics(
        topics={name: topic for name, topic in by_name.items() if isinstance(topic, LoadedTopic)},
        deleting=frozenset(deleting),
        malformed=malformed,
    )


async def _load_or_explain(session: ZkSession, name: str) -> LoadedTopic | str | None:
    try:
        return await load_topic(session, check_topic_name(name))
    except (MalformedZnode, InvalidTopic) as error:
        return str(error)
    except UnknownTopicOrPartition:
        return None  # unfinished, or deleted while we read


async def load_topic(session: ZkSession, name: str) -> LoadedTopic:
    """Read one topic; UnknownTopicOrPartition if there is none, or none that was created to the end."""
    (data, version), config = await asyncio.gather(_read_topic(session, name), _read_config(session, name))
    if not data:
        raise UnknownTopicOrPartition(f"no topic {name}", topic=name)
    topic = TopicZnode.decode(name, data)
    read = await asyncio.gather(*(_read_state(session, name, partition) for partition in topic.partitions))
    states = {partition: state for partition, state in zip(topic.partitions, read, strict=True) if state is not None}
    return LoadedTopic(name, topic, version, config, states)


async def _read_topic(session: ZkSession, name: str) -> tuple[bytes, int]:
    try:
        data, stat = await session.get(TopicZnode.path(name))
    except NoNode:
        return b"", -1
    return data, stat.version


async def _read_config(session: ZkSession, name: str) -> Mapping[str, str]:
    try:
        data, _ = await session.get(TopicConfigZnode.path(name))
    except NoNode:
        return {}
    return TopicConfigZnode.decode(name, data).config if data else {}


async def read_partition_state(session: ZkSession, where: TopicPartition) -> VersionedState | None:
    """One partition's state; None if it has none."""
    return await _read_state(session, where.topic, where.partition)


async def read_partition_states(
    session: ZkSession, wanted: Sequence[TopicPartition]
) -> dict[TopicPartition, VersionedState]:
    """Those of the wanted states that there are, not older than the moment of the call."""
    if not wanted:
        return {}
    await session.sync("/")
    read = await asyncio.gather(*(_read_state(session, *where) for where in wanted))
    return {where: state for where, state in zip(wanted, read, strict=True) if state is not None}


async def _read_state(session: ZkSession, name: str, partition: int) -> VersionedState | None:
    try:
        data, stat = await session.get(PartitionStateZnode.path(name, partition))
    except NoNode:
        return None
    return VersionedState(PartitionStateZnode.decode(name, partition, data), stat.version)


async def write_partition_states(
    session: ZkSession, term: ControllerTerm, changes: Sequence[PartitionStateChange]
) -> dict[TopicPartition, int | OttlaError]:
    """Write many states at once; for each partition its new version, or why it was not written.

    BadVersion: read it again. StaleBrokerEpoch: a broker that the change relies on has been restarted or fenced.
    StaleControllerEpoch: resign. ConnectionLost: unknown, read it again.
    """
    batches = [changes[i : i + _STATES_PER_MULTI] for i in range(0, len(changes), _STATES_PER_MULTI)]
    written = await asyncio.gather(*(_write_batch(session, term, batch) for batch in batches))
    return {partition: result for batch in written for partition, result in batch.items()}


async def _write_batch(
    session: ZkSession, term: ControllerTerm, batch: Sequence[PartitionStateChange]
) -> dict[TopicPartition, int | OttlaError]:
    checks = {check for change in batch for check in _checks(change)}
    try:
        await fenced_multi(session, term, [*checks, *map(_write, batch)])
    except MultiFailed as failed:
        if len(batch) == 1:
            return {batch[0].partition: _reason(failed)}
        singles = await asyncio.gather(*(_write_batch(session, term, [change]) for change in batch))
        return {partition: result for single in singles for partition, result in single.items()}
    except OttlaError as error:
        return {change.partition: error for change in batch}
    return {change.partition: change.version + 1 for change in batch}


async def write_isr(session: ZkSession, change: PartitionStateChange) -> int:
    """What a leader itself writes: a new ISR; returns the new version. ``broker_epochs`` must name the leader's own epoch.

    BadVersion or StaleBrokerEpoch if the controller was quicker. ConnectionLost: unknown, the old ISR must still be obeyed.
    """
    # Invariant: without its own epoch in the multi, a leader that has been fenced could still write.
    assert change.state.leader in change.broker_epochs, change
    try:
        await session.multi([*_checks(change), _write(change)])
    except MultiFailed as failed:
        raise _reason(failed) from None
    return change.version + 1


def _checks(change: PartitionStateChange) -> list[Check]:
    return [Check(BrokerEpochZnode.path(broker_id), epoch) for broker_id, epoch in change.broker_epochs.items()]


def _write(change: PartitionStateChange) -> SetData:
    return SetData(PartitionStateZnode.path(*change.partition), change.state.encode(), change.version)


def _reason(failed: MultiFailed) -> OttlaError:
    # The state is written last: whatever failed before it was a check of a broker epoch.
    if failed.index < len(failed.results) - 1:
        return StaleBrokerEpoch(f"a broker that the change relies on was restarted or fenced: {failed}")
    return failed.cause


async def set_topic_config(session: ZkSession, term: ControllerTerm, topic: str, config: Mapping[str, str]) -> None:
    """Replace a topic's settings."""
    path, data = TopicConfigZnode.path(topic), TopicConfigZnode(config).encode()
    while True:
        exists, stat = await asyncio.gather(session.exists(TopicZnode.path(topic)), session.exists(path))
        if exists is None:
            raise UnknownTopicOrPartition(f"no topic {topic}", topic=topic)
        operation: Operation = Create(path, data) if stat is None else SetData(path, data, stat.version)
        try:
            await fenced_multi(session, term, [operation])
            return
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise


async def next_producer_id_block(session: ZkSession, broker_id: int) -> range:
    """Producer ids that nobody else will ever get. After ConnectionLost ask again: at worst a block is never used."""
    while True:
        try:
            data, stat = await session.get(ProducerIdBlockZnode.PATH)
        except NoNode:
            await session.create_if_missing(ProducerIdBlockZnode.PATH)
            continue
        last = ProducerIdBlockZnode.decode(data)
        block = range(last.block_end + 1 if last else 0, (last.block_end + 1 if last else 0) + PRODUCER_ID_BLOCK_SIZE)
        if block[-1] > _PRODUCER_ID_MAX:
            raise OttlaError("all producer ids have been given out")
        try:
            taken = ProducerIdBlockZnode(broker_id, block[0], block[-1])
            await session.set(ProducerIdBlockZnode.PATH, taken.encode(), stat.version)
            return block
        except BadVersion:
            pass  # another broker took this block: the next one then
