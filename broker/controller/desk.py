"""The controller's desk: what clients and brokers ask of it. Everything is done as an event of its loop, in turn."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from ottla.broker.controller.decisions.actions import Action
from ottla.broker.controller.decisions.cluster import Topic
from ottla.broker.controller.decisions.placement import check_assignment, place
from ottla.broker.controller.decisions.state import ControllerState
from ottla.broker.storage.log_config import plain_topic_config
from ottla.wire.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    LeaderNotAvailable,
    RequestTimedOut,
    StaleBrokerEpoch,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.names import PARTITIONS_MAX, TopicPartition, check_topic_name
from ottla.wire.requests import NewTopic
from ottla.zk.election import ControllerTerm
from ottla.zk.metadata import load_topic, read_partition_states, set_topic_config
from ottla.zk.session.session import ZkSession
from ottla.zk.topics import add_partitions, create_topic, mark_for_deletion
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode
from ottla.zk.znodes.uuids import uuid_from_text, uuid_to_text

R = TypeVar("R")
Told = list[asyncio.Future[bool]]
"""Orders that are on their way to brokers."""


class Loop(Protocol):
    """The controller's loop, as far as its desk needs it."""

    session: ZkSession
    term: ControllerTerm
    state: ControllerState

    async def act(self, actions: list[Action]) -> Told: ...
    async def replicas_failed(self, broker_id: int, partitions: list[TopicPartition]) -> Told: ...
    async def in_turn(
        self, work: Callable[[], Awaitable[R]], timeout_s: float, otherwise: str, *, urgent: bool = False
    ) -> R: ...
    def removal_of(self, topic: str) -> AbstractContextManager[asyncio.Future[None]]: ...


class Desk:
    """One term's desk."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._state = loop.state

    # --- brokers -------------------------------------------------------------------------------------------------------

    async def relieve(self, broker_id: int, broker_epoch: int, *, timeout_s: float) -> list[TopicPartition]:
        """Move leadership away from a broker that is about to stop; gives the partitions that it still leads."""

        async def leave() -> Told:
            self._check_epoch(broker_id, broker_epoch)
            told = await self._loop.act(self._state.broker_leaves(broker_id))
            return told + await self._loop.act(self._state.relieved(broker_id))

        await self._do(leave, timeout_s, f"broker {broker_id} was not relieved", urgent=True)
        return self._state.led_by(broker_id)

    async def replace(
        self, broker_id: int, broker_epoch: int, partitions: list[TopicPartition], *, timeout_s: float
    ) -> None:
        """Move leadership of partitions away from a broker whose disk failed under them."""

        async def elect() -> Told:
            self._check_epoch(broker_id, broker_epoch)
            return await self._loop.replicas_failed(broker_id, partitions)

        await self._do(elect, timeout_s, f"broker {broker_id} was not replaced", urgent=True)

    async def elect_preferred(self, partitions: list[TopicPartition] | None, *, timeout_s: float) -> None:
        """Give leadership back to preferred leaders now."""

        async def elect() -> Told:
            self._check_exist(partitions)
            # Leaders may have let replicas in that we have not heard of yet, where somebody else leads.
            found = await read_partition_states(self._loop.session, self._state.not_preferred(partitions))
            told = await self._loop.act(self._state.states_read(found))
            return told + await self._loop.act(self._state.preferred_leaders(partitions))

        await self._do(elect, timeout_s, "preferred leaders were not elected")

    async def elect_unclean(self, partitions: list[TopicPartition] | None, *, timeout_s: float) -> None:
        """Let whoever lives lead where nobody does, as an operator wants it."""

        async def elect() -> Told:
            self._check_exist(partitions)
            return await self._loop.act(self._state.unclean_leaders(partitions))

        await self._do(elect, timeout_s, "no leaders were elected")
        led = self._state.led() if partitions else ()
        for where in partitions or ():
            if where not in led:
                raise LeaderNotAvailable(
                    f"{where} has no replica that lives", topic=where.topic, partition=where.partition
                )

    # --- topics --------------------------------------------------------------------------------------------------------

    async def create_topic(self, topic: NewTopic, *, validate_only: bool, timeout_s: float) -> str:
        """Create a topic and wait until all live brokers know it; gives its id."""
        topic_id = topic.topic_id or uuid_to_text(uuid.uuid4())

        async def create() -> Told:
            return await self._create(topic, "" if validate_only else topic_id)

        await self._do(create, timeout_s, f"topic {topic.name!r} was not created")
        return "" if validate_only else topic_id

    async def delete_topic(self, name: str, *, topic_id: str = "", timeout_s: float) -> None:
        """Mark a topic for deletion and wait until it is gone; when time is over, it goes on being deleted.

        Who names the topic's id may ask again: another topic of that name stays, and one that is being deleted is waited for.
        """
        check_topic_name(name)

        async def mark() -> Told:
            topic = self._state.topics.get(name)
            if topic_id and topic is not None:
                if topic.topic_id != topic_id:
                    raise UnknownTopicOrPartition(f"topic {name!r} of id {topic_id[:40]} does not exist", topic=name)
                if topic.deleting:
                    return []
            self._known(name)
            await mark_for_deletion(self._loop.session, self._loop.term, name)
            return await self._loop.act(self._state.deletions_seen([name]))

        with self._loop.removal_of(name) as gone:
            await self._loop.in_turn(mark, timeout_s, f"topic {name!r} was not deleted")
            await asyncio.wait([gone], timeout=timeout_s)
            if not gone.done():
                raise RequestTimedOut(
                    f"topic {name!r} is still being deleted: a broker that holds some of it does not answer"
                )
            gone.result()

    async def add_partitions(self, name: str, count: int, *, timeout_s: float) -> None:
        """Let a topic have ``count`` partitions, more than it has."""

        async def add() -> Told:
            topic = self._known(name)
            had = len(topic.replicas)
            if not had < count <= PARTITIONS_MAX:
                raise InvalidPartitions(
                    f"topic {name!r} has {had} partitions; give a larger number, at most {PARTITIONS_MAX}"
                )
            new = place(count - had, len(topic.replicas[0]), self._racks(), start=topic.replicas[0][0] + had)
            fresh = {had + i: tuple(replicas) for i, replicas in enumerate(new)}
            states = self._first_states(fresh)
            znode = topic.znode()
            larger = TopicZnode({**topic.replicas, **fresh}, znode.topic_id, topic.adding, topic.removing)
            session, term = self._loop.session, self._loop.term
            topic.version = await add_partitions(session, term, name, larger, topic.version, states=states)
            return await self._loop.act(self._state.partitions_added(await load_topic(session, name)))

        await self._do(add, timeout_s, f"topic {name!r} got no more partitions")

    async def set_config(self, name: str, config: Mapping[str, str], *, timeout_s: float) -> None:
        """Replace a topic's settings."""

        async def put() -> Told:
            self._known(name)
            plain = plain_topic_config(config)
            await set_topic_config(self._loop.session, self._loop.term, name, plain)
            return await self._loop.act(self._state.config_changed(name, plain))

        await self._do(put, timeout_s, f"the settings of topic {name!r} were not changed")

    async def move(self, where: TopicPartition, replicas: list[int], *, timeout_s: float) -> None:
        """Begin to move a partition to other brokers; it goes on in the background."""

        async def begin() -> Told:
            self._check_exist([where])
            topic = self._known(where.topic)
            check_assignment([replicas], self._racks())
            if topic.states[where.partition].state.leader < 0:
                raise InvalidReplicaAssignment(f"{where} has no leader to copy from")
            return await self._loop.act(self._state.move(where, tuple(replicas)))

        await self._do(begin, timeout_s, f"{where} was not moved")

    # --- inside --------------------------------------------------------------------------------------------------------

    def _check_epoch(self, broker_id: int, broker_epoch: int) -> None:
        known = self._state.brokers.get(broker_id)
        if known is None or known.epoch != broker_epoch:
            raise StaleBrokerEpoch(f"broker {broker_id} of epoch {broker_epoch} is not live")

    async def _do(
        self, work: Callable[[], Awaitable[Told]], timeout_s: float, otherwise: str, *, urgent: bool = False
    ) -> None:
        """Do something in turn, and wait until the brokers have heard what follows from it."""
        told = await self._loop.in_turn(work, timeout_s, otherwise, urgent=urgent)
        if told:
            await asyncio.wait(told, timeout=timeout_s)

    async def _create(self, new: NewTopic, topic_id: str) -> Told:
        check_topic_name(new.name)
        known = self._state.topics.get(new.name)
        if known is not None and topic_id and known.topic_id == topic_id and not known.deleting:
            return await self._loop.act(self._state.topic_told_again(new.name))  # its answer was lost
        if known is not None:
            raise TopicAlreadyExists(f"topic {new.name!r} exists", topic=new.name)
        if new.topic_id:
            self._check_topic_id(new.topic_id)
        config = plain_topic_config(new.config)
        assignment = self._assignment(new)
        if not topic_id:
            return []
        topic = TopicZnode({partition: tuple(replicas) for partition, replicas in enumerate(assignment)}, topic_id)
        states = self._first_states(topic.partitions)
        loaded = await create_topic(self._loop.session, self._loop.term, new.name, topic, states=states, config=config)
        return await self._loop.act(self._state.topic_created(loaded))

    def _check_topic_id(self, topic_id: str) -> None:
        """What a client chose must be random, so that it can never be another topic's."""
        try:
            chosen = uuid_from_text(topic_id)
        except ValueError as error:
            raise InvalidRequest(f"topic id: {error}") from None
        if chosen.version != 4 or uuid_to_text(chosen) != topic_id:
            raise InvalidRequest(f"topic id {topic_id[:40]!r} is not a random uuid")
        if any(topic.topic_id == topic_id for topic in self._state.topics.values()):
            raise InvalidRequest(f"topic id {topic_id} belongs to another topic")

    def _assignment(self, new: NewTopic) -> list[list[int]]:
        if new.assignment is not None:
            return check_assignment(new.assignment, self._racks())
        # The next topic begins where the last one's partitions ended, so that many small topics spread evenly.
        start = sum(len(topic.replicas) for topic in self._state.topics.values())
        return place(new.partitions, new.replication_factor, self._racks(), start)

    def _first_states(self, partitions: Mapping[int, tuple[int, ...]]) -> dict[int, PartitionStateZnode]:
        epoch = self._loop.term.epoch
        return {number: PartitionStateZnode(replicas[0], 0, epoch, replicas) for number, replicas in partitions.items()}

    def _racks(self) -> dict[int, str | None]:
        return {i: broker.endpoint.rack for i, broker in self._state.brokers.items()}

    def _check_exist(self, partitions: list[TopicPartition] | None) -> None:
        for where in partitions or ():
            if where.partition not in self._known(where.topic).states:
                raise UnknownTopicOrPartition(f"{where} does not exist", topic=where.topic, partition=where.partition)

    def _known(self, name: str) -> Topic:
        check_topic_name(name)
        topic = self._state.topics.get(name)
        if topic is None or topic.deleting:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist", topic=name)
        return topic
