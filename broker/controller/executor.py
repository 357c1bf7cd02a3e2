"""The hands of a controller: they carry actions out, in order, and what follows from their results."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from ottla.broker.controller.decisions.actions import (
    Action,
    CreatePartitions,
    CreateTopic,
    MarkForDeletion,
    ReadAgain,
    RemoveTopic,
    Tell,
    TellReplicas,
    WriteBrokerConfig,
    WriteConfig,
    WriteGroupConfig,
    WriteStates,
    WriteTopic,
    caused_by,
)
from ottla.broker.controller.decisions.state import ControllerState
from ottla.broker.controller.events import Cause, OutOfStep
from ottla.broker.controller.links import Links, OrderAnswers
from ottla.broker.controller.removals import Removals
from ottla.wire.control import StopReplicaRequest
from ottla.wire.errors import StaleControllerEpoch, UnknownTopicOrPartition
from ottla.wire.names import TopicPartition
from ottla.zk.broker_configs import set_broker_config
from ottla.zk.election import ControllerTerm
from ottla.zk.errors import ConnectionLost, SessionExpired, ZkError
from ottla.zk.group_configs import set_group_config
from ottla.zk.metadata import (
    PartitionStateChange,
    load_topic,
    read_partition_states,
    set_topic_config,
    write_partition_states,
)
from ottla.zk.session.session import ZkSession
from ottla.zk.topics import add_partitions, create_topic, delete_topic, mark_for_deletion, write_topic

logger = logging.getLogger(__name__)

NAMED_MAX = 10
"""So many partitions are named in one line of the log."""

OnDeleted = Callable[[int, list[TopicPartition], Cause], None]
"""Called with a broker, what it has deleted, and why it was told to."""


class Executor:
    """One term's. In turn only: two events must not act at the same time."""

    def __init__(
        self,
        session: ZkSession,
        term: ControllerTerm,
        state: ControllerState,
        links: Links,
        removals: Removals,
        on_deleted: OnDeleted,
    ) -> None:
        self._session = session
        self._term = term
        self._state = state
        self._links = links
        self._removals = removals
        self._on_deleted = on_deleted
        self._said = ""

    async def act(self, actions: Iterable[Action], cause: Cause) -> OrderAnswers:
        """Carry actions out, and what follows from their results; gives the orders that are on their way."""
        told: OrderAnswers = []
        for action in caused_by(cause.id, actions):
            self.say_why(cause)
            if isinstance(action, Tell):
                told += self._tell(action, cause)
            elif isinstance(action, TellReplicas):
                told += self._tell_replicas(action)
            elif isinstance(action, WriteStates):
                told += await self._write_states(action, cause)
            elif isinstance(action, ReadAgain):
                told += await self.read_again(action.name, cause)
            elif isinstance(action, WriteBrokerConfig | WriteGroupConfig):
                told += await self.act(await self._change_settings(action), cause)
            else:
                follows = await self.act(await self._change_topic(action), cause)
                if isinstance(action, RemoveTopic):
                    self._removals.removed(action.name, follows)
                told += follows
        return told

    async def read_states(self, partitions: Iterable[TopicPartition], cause: Cause) -> OrderAnswers:
        """Look at partitions as their leaders last wrote them, and do what follows."""
        found = await read_partition_states(self._session, list(partitions))
        return await self.act(self._state.states_read(found), cause)

    async def read_again(self, topic: str, cause: Cause) -> OrderAnswers:
        """The same for a whole topic, by its name."""
        try:
            with _in_step():
                await self._session.sync("/")
                loaded = await load_topic(self._session, topic)
        except UnknownTopicOrPartition:
            return []
        return await self.act(self._state.topic_read(loaded), cause)

    async def _write_states(self, action: WriteStates, cause: Cause) -> OrderAnswers:
        results = await write_partition_states(self._session, self._term, action.changes)
        for result in results.values():
            if isinstance(result, StaleControllerEpoch):
                raise result
        written = [where for where, result in results.items() if isinstance(result, int)]
        if written:
            logger.info("partition states written cause=%s %s", cause.id, _named(written))
        told = await self.act(self._state.states_written(action.changes, results), cause)
        _say_what_is_lost(action.changes)
        return told

    async def _change_settings(self, action: WriteBrokerConfig | WriteGroupConfig) -> list[Action]:
        if isinstance(action, WriteGroupConfig):
            logger.info("settings are written group=%s cause=%s", action.name, action.cause)
            with _known_outcome():
                await set_group_config(self._session, self._term, action.name, action.config)
            return self._state.group_config_changed(action.name, action.config)
        logger.info("settings are written broker=%s cause=%s", action.name or "all", action.cause)
        with _known_outcome():
            await set_broker_config(self._session, self._term, action.name, action.config)
        return self._state.broker_config_changed(action.name, action.config)

    async def _change_topic(
        self, action: CreateTopic | CreatePartitions | WriteConfig | WriteTopic | MarkForDeletion | RemoveTopic
    ) -> list[Action]:
        """Write it into ZooKeeper; gives what follows. Where the outcome cannot be known, the term ends: the next one reads."""
        with _known_outcome():
            return await self._write_change(action)

    async def _write_change(
        self, action: CreateTopic | CreatePartitions | WriteConfig | WriteTopic | MarkForDeletion | RemoveTopic
    ) -> list[Action]:
        session, term, state, name = self._session, self._term, self._state, action.name
        logger.info("topic is written topic=%s cause=%s action=%s", name, action.cause, type(action).__name__)
        if isinstance(action, CreateTopic):
            new = action.topic
            return state.topic_created(
                await create_topic(session, term, name, new, states=action.states, config=action.config)
            )
        if isinstance(action, CreatePartitions):
            topic = state.topics[name]
            topic.version = await add_partitions(session, term, name, action.topic, topic.version, states=action.states)
            with _in_step():
                return state.partitions_created(await load_topic(session, name))
        if isinstance(action, WriteConfig):
            await set_topic_config(session, term, name, action.config)
            return state.config_changed(name, action.config)
        if isinstance(action, MarkForDeletion):
            await mark_for_deletion(session, term, name)
            return state.deletions_seen([name])
        if isinstance(action, RemoveTopic):
            await delete_topic(session, term, name)
            return state.topic_removed(name)
        return await self._write_topic(name)

    async def _write_topic(self, name: str) -> list[Action]:
        topic = self._state.topics.get(name)
        if topic is None:
            return []
        with _in_step():
            version = await write_topic(self._session, self._term, name, topic.znode(), topic.version)
        return self._state.topic_written(name, version)

    def _tell_replicas(self, action: TellReplicas) -> OrderAnswers:
        request = self._state.leader_and_isr(action.broker, action.partitions)
        if request is None:
            return []
        request = msgspec.structs.replace(request, cause=action.cause)
        return self._links.tell(Tell(action.broker, request, cause=action.cause))

    def _tell(self, action: Tell, cause: Cause) -> OrderAnswers:
        told = self._links.tell(action)
        if isinstance(action.request, StopReplicaRequest):
            deleted = [TopicPartition(part.topic, part.partition) for part in action.request.parts if part.delete]
            for obeyed in told:
                obeyed.add_done_callback(
                    lambda done: self._on_deleted(action.broker, deleted, cause) if done.result() else None
                )
        return told

    def say_why(self, cause: Cause) -> None:
        """The one line that tells what an id stands for, before others bear it; events from which nothing follows have none."""
        if cause.id != self._said:
            self._said = cause.id
            logger.info("controller event cause=%s: %s", cause.id, cause.kind)


@contextmanager
def _in_step() -> Iterator[None]:
    try:
        yield
    except ZkError as error:
        raise OutOfStep(str(error)) from error


@contextmanager
def _known_outcome() -> Iterator[None]:
    try:
        yield
    except (ConnectionLost, SessionExpired) as error:
        raise OutOfStep(str(error)) from error


def _named(partitions: list[TopicPartition]) -> str:
    few = ",".join(map(str, partitions[:NAMED_MAX]))
    return f"count={len(partitions)} partitions={few}{',...' if len(partitions) > NAMED_MAX else ''}"


def _say_what_is_lost(changes: list[PartitionStateChange]) -> None:
    for change in changes:
        if change.state.lost:
            logger.error(
                "nobody leads, for brokers that were the last in sync came back without their data partition=%s brokers=%s:"
                " put the disk back and restart them, or lose what only they had by: ottla partition elect --unclean %s:%d",
                change.partition, list(change.state.lost), change.partition.topic, change.partition.partition,
            )  # fmt: skip
