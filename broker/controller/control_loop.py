"""One term as controller: a queue of events, one task that takes them one by one, and the hands that carry actions out."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.broker.controller.decisions.fence_guard import FenceGuard, Verdict, Witnesses
from ottla.broker.controller.decisions.state import (
    Action,
    Broker,
    ControllerState,
    ReadAgain,
    RemoveTopic,
    Tell,
    WriteStates,
    WriteTopic,
)
from ottla.broker.controller.desk import Desk
from ottla.broker.controller.events import Events, OutOfStep, settle
from ottla.broker.controller.link_loop import Link
from ottla.broker.peers import Identity, Probe, probe
from ottla.wire.control import LeaderAndIsrRequest, StopReplicaRequest
from ottla.wire.errors import (
    NotController,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import TopicPartition
from ottla.zk.election import ControllerTerm
from ottla.zk.errors import ZkError
from ottla.zk.isr_notifications import take_isr_changes
from ottla.zk.membership import fence, live_brokers
from ottla.zk.metadata import (
    PartitionStateChange,
    load_topic,
    load_topics,
    read_partition_states,
    write_partition_states,
)
from ottla.zk.session.session import ZkSession
from ottla.zk.topics import delete_topic, write_topic
from ottla.zk.watches import ChildrenWatch
from ottla.zk.znodes.brokers import BrokerZnode, DataState
from ottla.zk.znodes.isr_changes import IsrChangeZnode
from ottla.zk.znodes.topics import DeleteTopicZnode

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ControllerPolicy:
    """What the broker's settings say about being controller."""

    min_insync: int = 1
    balance_s: float = 300.0


@contextmanager
def _in_step() -> Iterator[None]:
    try:
        yield
    except ZkError as error:
        raise OutOfStep(str(error)) from error


class ControlLoop:
    """``run`` returns when the term is over. Topics are created and deleted through it from any task."""

    def __init__(
        self,
        session: ZkSession,
        identity: Identity,
        term: ControllerTerm,
        policy: ControllerPolicy,
        heir_of: int | None = None,
    ) -> None:
        """``heir_of`` is the broker that was controller until it died, if that is how this term began."""
        self.session = session
        self._heir_of = heir_of
        self._identity = identity
        self.term = term
        self._policy = policy
        self.state = ControllerState(identity.broker_id, term.epoch, policy.min_insync)
        self._events = Events()
        self.in_turn = self._events.in_turn
        self._links: dict[int, Link] = {}
        self._gone: dict[str, set[asyncio.Future[None]]] = {}
        self._brokers_watch = ChildrenWatch(
            session, BrokerZnode.PARENT, lambda _: self._events.put(self._brokers_changed)
        )
        self._deletions_watch = ChildrenWatch(session, DeleteTopicZnode.PARENT, self._deletions_changed)
        self._isr_watch = ChildrenWatch(session, IsrChangeZnode.PARENT, self._isr_notified)
        self._guard = FenceGuard()
        self._over = False
        self.desk = Desk(self)

    # --- the term ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Be the controller until somebody else is, or the session ends."""
        logger.info("controller term begins epoch=%d", self.term.epoch)
        try:
            # Watches before reads: what changes while we read is not missed.
            await asyncio.gather(self._brokers_watch.start(), self._deletions_watch.start(), self._isr_watch.start())
            await self._load()
            balance_at = time.monotonic() + self._policy.balance_s
            while not self._over:
                try:
                    async with asyncio.timeout(max(0.0, balance_at - time.monotonic())):
                        event = await self._events.next()
                except TimeoutError:
                    balance_at = time.monotonic() + self._policy.balance_s
                    event = self._balance
                await event()
        except (StaleControllerEpoch, OutOfStep) as error:
            logger.info("controller term is over epoch=%d error=%s", self.term.epoch, error)
        finally:
            self._over = True
            await self._brokers_watch.stop()
            await self._deletions_watch.stop()
            await self._isr_watch.stop()
            self._events.close()
            for waiter in [waiter for waiters in self._gone.values() for waiter in waiters]:
                settle(waiter, error=NotController())
            for link in self._links.values():
                await link.close()
            logger.info("controller term ended epoch=%d", self.term.epoch)

    async def _load(self) -> None:
        # Brokers first: who says that it lacks records must not find itself in an ISR that was read before it said so.
        brokers = await self._first_brokers()
        topics = await load_topics(self.session)
        for name, why in topics.malformed.items():
            logger.error("topic ignored topic=%s error=%s", name, why)
        await self._set_links(brokers)
        await self.act(self.state.loaded(brokers, topics.topics.values(), topics.deleting))

    async def _first_brokers(self) -> dict[int, Broker]:
        """Who lives when the term begins. A dead predecessor is fenced first, so that its partitions are not given to it."""
        await self.session.sync("/")
        brokers = await self._read_brokers()
        dead = brokers.get(self._heir_of) if self._heir_of is not None else None
        if dead is None or not (await probe(dead.endpoint, self._identity)).refused:
            return brokers
        # Nobody listened after its registration was read, so it is this very life that ended.
        self._guard.suspected(dead.endpoint.id, time.monotonic())
        if await self._verdict(dead.endpoint.id, brokers, refused=True, reached=True) is not Verdict.FENCE:
            return brokers
        await self._fence(dead.endpoint.id, dead.epoch)
        return {i: broker for i, broker in brokers.items() if broker is not dead}

    # --- events --------------------------------------------------------------------------------------------------------

    async def _brokers_changed(self) -> None:
        await self.session.sync("/")
        brokers = await self._read_brokers()
        if brokers == self.state.brokers:
            return
        logger.info("brokers changed live=%s before=%s", sorted(brokers), sorted(self.state.brokers))
        await self._read_where_records_are_missing(brokers)
        await self._set_links(brokers)
        await self.act(self.state.brokers_seen(brokers))

    async def _read_where_records_are_missing(self, brokers: dict[int, Broker]) -> None:
        """Leaders may have let brokers in, before those came back without records, that we have not heard of yet."""
        known = self.state.brokers
        doubted = {
            i
            for i, broker in brokers.items()
            if broker.data is not DataState.WHOLE and (i not in known or known[i].epoch != broker.epoch)
        }
        if doubted:
            found = await read_partition_states(self.session, self.state.held_by(doubted))
            await self.act(self.state.states_read(found))

    def _suspected(self, broker_id: int, epoch: int, found: Probe, reached: bool) -> None:
        """A link ended and probing did not find the broker alive: if the evidence is good enough, fence it now."""
        self._guard.suspected(broker_id, time.monotonic())

        async def event() -> None:
            known = self.state.brokers.get(broker_id)
            if known is None or known.epoch != epoch:
                return
            verdict = await self._verdict(broker_id, self.state.brokers, refused=found.refused, reached=reached)
            if verdict is Verdict.FENCE:
                await self._fence(broker_id, epoch)
                await self._brokers_changed()

        self._events.put(event)

    def _obeyed(self, broker_id: int, epoch: int, order: LeaderAndIsrRequest, failed: list[TopicPartition]) -> None:
        """A broker was told to lead or follow, and cannot where its disk failed."""
        known = self.state.brokers.get(broker_id)
        if known is None or known.epoch != epoch:
            return
        told = {TopicPartition(state.topic, state.partition) for state in order.partitions}
        self.state.replicas_work(broker_id, told - set(failed))

        async def event() -> None:
            known = self.state.brokers.get(broker_id)
            if known is not None and known.epoch == epoch:
                logger.warning("replicas failed broker=%d partitions=%s", broker_id, failed)
                await self.replicas_failed(broker_id, failed)

        if failed:
            self._events.put(event)

    async def replicas_failed(self, broker_id: int, partitions: list[TopicPartition]) -> list[asyncio.Future[bool]]:
        """Let others lead what a broker cannot. In turn only."""
        found = await read_partition_states(self.session, partitions)  # the ISR as its leader last wrote it
        told = await self.act(self.state.states_read(found))
        return told + await self.act(self.state.replicas_failed(broker_id, partitions))

    async def _fence(self, broker_id: int, epoch: int) -> None:
        logger.info("a broker is dead broker=%d epoch=%d", broker_id, epoch)
        try:
            await fence(self.session, self.term, broker_id, epoch)
        except StaleBrokerEpoch:
            pass  # it has a new life already; ZooKeeper tells

    async def _verdict(self, broker_id: int, registered: Collection[int], *, refused: bool, reached: bool) -> Verdict:
        witnesses = Witnesses()
        if self._guard.needs_witnesses(refused=refused, registered=registered, now=time.monotonic()):
            witnesses = await self._witnesses(broker_id)
        verdict = self._guard.verdict(
            broker_id, witnesses, refused=refused, reached=reached, registered=registered, now=time.monotonic()
        )
        if verdict is not Verdict.FENCE:
            logger.info(
                "a broker is suspect broker=%d refused=%s alive_to=%d dead_to=%d verdict=%s",
                broker_id, refused, witnesses.alive, witnesses.dead, verdict.value,
            )  # fmt: skip
        return verdict

    async def _witnesses(self, broker_id: int) -> Witnesses:
        """Whether the other brokers, as far as they can be asked, reach it."""
        others = [i for i in self.state.brokers if i not in (broker_id, self._identity.broker_id)]
        answers = await asyncio.gather(*(self._ask_witness(i, broker_id) for i in others))
        return Witnesses(alive=answers.count(True), dead=answers.count(False))

    async def _ask_witness(self, witness: int, about: int) -> bool | None:
        link = self._links.get(witness)
        return await link.asks_whether_connected(about) if link is not None else None

    def _deletions_changed(self, names: list[str]) -> None:
        async def event() -> None:
            await self.act(self.state.deletions_seen(names))

        self._events.put(event)

    def _isr_notified(self, names: list[str]) -> None:
        async def event() -> None:
            changed = await take_isr_changes(self.session, names)
            for topic in sorted({where.topic for where in changed}):
                await self._read_again(ReadAgain(topic))

        if names:
            self._events.put(event)

    async def _balance(self) -> None:
        """Give leadership back to preferred leaders that are in sync again."""
        await self.act(self.state.preferred_leaders())

    async def _read_brokers(self) -> dict[int, Broker]:
        live = await live_brokers(self.session)
        return {
            i: Broker(
                BrokerEndpoint(i, found.host, found.port, found.rack, found.endpoints()),
                found.broker_epoch,
                found.data,
                found.reported,
            )
            for i, found in live.items()
        }

    async def _set_links(self, brokers: dict[int, Broker]) -> None:
        """A link to every live broker; one to an earlier life of a broker is closed first."""
        for i in list(self._links):
            if brokers.get(i) != self.state.brokers.get(i):
                await self._links.pop(i).close()
        for i, broker in brokers.items():
            if i not in self._links:
                self._links[i] = Link(
                    self._identity, broker.endpoint, broker.epoch, self._suspected, self._guard.reached, self._obeyed
                )

    # --- actions -------------------------------------------------------------------------------------------------------

    async def act(self, actions: list[Action]) -> list[asyncio.Future[bool]]:
        """Carry actions out, and what follows from their results; gives the orders that are on their way."""
        told: list[asyncio.Future[bool]] = []
        for action in actions:
            if isinstance(action, Tell):
                told += self._tell(action)
            elif isinstance(action, WriteStates):
                results = await write_partition_states(self.session, self.term, action.changes)
                for result in results.values():
                    if isinstance(result, StaleControllerEpoch):
                        raise result
                told += await self.act(self.state.states_written(action.changes, results))
                _say_what_is_lost(action.changes)
            elif isinstance(action, WriteTopic):
                told += await self._write_topic(action)
            elif isinstance(action, RemoveTopic):
                await delete_topic(self.session, self.term, action.name)
                told += await self.act(self.state.topic_removed(action.name))
                for waiter in self._gone.get(action.name, ()):
                    settle(waiter)
            else:
                told += await self._read_again(action)
        return told

    async def _write_topic(self, action: WriteTopic) -> list[asyncio.Future[bool]]:
        topic = self.state.topics.get(action.name)
        if topic is None:
            return []
        with _in_step():
            version = await write_topic(self.session, self.term, action.name, topic.znode(), topic.version)
        return await self.act(self.state.topic_written(action.name, version))

    async def _read_again(self, action: ReadAgain) -> list[asyncio.Future[bool]]:
        try:
            with _in_step():
                await self.session.sync("/")
                loaded = await load_topic(self.session, action.name)
        except UnknownTopicOrPartition:
            return []
        return await self.act(self.state.topic_read(loaded))

    def _tell(self, action: Tell) -> list[asyncio.Future[bool]]:
        link = self._links.get(action.broker)
        if link is None:
            return []  # it failed a moment ago: the next event says so
        obeyed = link.tell(action.request)
        if isinstance(action.request, StopReplicaRequest):
            deleted = [TopicPartition(part.topic, part.partition) for part in action.request.parts if part.delete]
            obeyed.add_done_callback(lambda done: self._stopped(deleted, action.broker) if done.result() else None)
        return [obeyed]

    def _stopped(self, deleted: list[TopicPartition], broker: int) -> None:
        async def event() -> None:
            await self.act(self.state.replicas_deleted(broker, deleted))

        self._events.put(event)

    @contextmanager
    def removal_of(self, topic: str) -> Iterator[asyncio.Future[None]]:
        """A future that is done when the topic is gone, as long as somebody waits for it."""
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._gone.setdefault(topic, set())
        waiters.add(gone)
        try:
            yield gone
        finally:
            waiters.discard(gone)
            if not waiters:
                self._gone.pop(topic, None)


def _say_what_is_lost(changes: list[PartitionStateChange]) -> None:
    for change in changes:
        if change.state.lost:
            logger.error(
                "nobody leads, for brokers that were the last in sync came back without their data partition=%s brokers=%s:"
                " put the disk back and restart them, or lose what only they had by: ottla partition elect --unclean %s:%d",
                change.partition, list(change.state.lost), change.partition.topic, change.partition.partition,
            )  # fmt: skip
