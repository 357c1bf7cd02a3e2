"""One term as controller: what happens to the cluster becomes events, and one task deals with them one by one."""

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass

from ottla.broker.controller.api import ControllerApi
from ottla.broker.controller.decisions.cluster import Broker
from ottla.broker.controller.decisions.fence_guard import FenceGuard, Verdict, Witnesses
from ottla.broker.controller.decisions.state import ControllerState
from ottla.broker.controller.events import Cause, Event, Events, OutOfStep
from ottla.broker.controller.executor import Executor
from ottla.broker.controller.link_loop import Evidence, Link, LinkEvents
from ottla.broker.controller.links import Links
from ottla.broker.controller.removals import Removals
from ottla.broker.peers import PATIENT_PROBE_TIMEOUT_S, Identity, probe
from ottla.wire.control import LeaderAndIsrRequest
from ottla.wire.errors import StaleBrokerEpoch, StaleControllerEpoch
from ottla.wire.log_layout import partition_of
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import SEGMENT_BYTES_MIN, TopicPartition
from ottla.zk.broker_configs import load_broker_configs
from ottla.zk.election import ControllerTerm, read_controller
from ottla.zk.errors import ZkError
from ottla.zk.group_configs import load_group_configs
from ottla.zk.isr_notifications import take_isr_changes
from ottla.zk.membership import fence, live_brokers
from ottla.zk.metadata import load_topics
from ottla.zk.session.session import ZkSession
from ottla.zk.watches import ChildrenWatch
from ottla.zk.znodes.brokers import BrokerZnode
from ottla.zk.znodes.isr_changes import IsrChangeZnode
from ottla.zk.znodes.topics import DeleteTopicZnode

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ControllerPolicy:
    """What the broker's settings say about being controller."""

    min_insync: int = 1
    balance_s: float = 300.0
    segment_bytes_min: int = SEGMENT_BYTES_MIN
    """The smallest segments that a request may ask for."""
    silence_max_s: float = 5.0
    """How long a broker may answer nothing before the others are asked whether they reach it."""


@dataclass(frozen=True)
class Predecessor:
    """The controller that this one took the place of, for it seemed to have failed."""

    broker_id: int
    silent: bool
    """More than half of all brokers did not reach it; else its address refused connections."""


class ControlLoop:
    """``run`` returns when the term is over. ``api`` is what others may ask of it meanwhile."""

    def __init__(
        self,
        session: ZkSession,
        identity: Identity,
        term: ControllerTerm,
        policy: ControllerPolicy,
        predecessor: Predecessor | None = None,
    ) -> None:
        """``predecessor`` is the controller that failed, if that is how this term began."""
        self._session = session
        self._predecessor = predecessor
        self._identity = identity
        self._term = term
        self._policy = policy
        self._state = ControllerState(identity.broker_id, term.epoch, policy.min_insync, policy.segment_bytes_min)
        self._events = Events(term.epoch)
        self._links = Links(self._link)
        self._removals = Removals()
        self._executor = Executor(session, term, self._state, self._links, self._removals, self._replicas_deleted)
        self._watches = [
            ChildrenWatch(session, BrokerZnode.PARENT, self._brokers_notified),
            ChildrenWatch(session, DeleteTopicZnode.PARENT, self._deletions_notified),
            ChildrenWatch(session, IsrChangeZnode.PARENT, self._isr_notified),
        ]
        self._guard = FenceGuard()
        self._registered: dict[int, Broker] = {}
        self._deleted: deque[tuple[int, list[TopicPartition], Cause]] = deque()
        self.api = ControllerApi(self._state, self._executor, self._events, self._removals, self._links)

    def _link(self, to: Broker) -> Link:
        events = LinkEvents(self._suspected, self._reached, self._obeyed, self._behind)
        return Link(self._identity, to.endpoint, to.epoch, events, self._policy.silence_max_s)

    def may_be_replaced(self) -> None:
        """/controller has changed: end the term if another broker is the controller."""

        async def check(cause: Cause) -> None:
            try:
                found = await read_controller(self._session)
            except ZkError as error:
                raise OutOfStep(str(error)) from error
            if found.epoch != self._term.epoch:
                raise StaleControllerEpoch(f"epoch {found.epoch} has begun")

        self._events.put("the controller's znode changed", check, key="controller")

    # --- the term ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Be the controller until somebody else is, or the session ends."""
        logger.info("controller term begins epoch=%d", self._term.epoch)
        try:
            # Watches before reads: what changes while we read is not missed.
            await asyncio.gather(*(watch.start() for watch in self._watches))
            await self._load(self._events.cause("a new term begins"))
            balance_at = time.monotonic() + self._policy.balance_s
            while True:
                try:
                    async with asyncio.timeout(max(0.0, balance_at - time.monotonic())):
                        event = await self._events.next()
                except TimeoutError:
                    balance_at = time.monotonic() + self._policy.balance_s
                    event = Event(self._events.cause("it is time to look for preferred leaders"), self._balance)
                await event.deal()
        except (StaleControllerEpoch, OutOfStep) as error:
            logger.info("controller term is over epoch=%d error=%s", self._term.epoch, error)
        finally:
            for watch in self._watches:
                await watch.stop()
            self._events.close()
            self._removals.close()
            await self._links.close()
            logger.info("controller term ended epoch=%d", self._term.epoch)

    async def _load(self, cause: Cause) -> None:
        # Brokers first: who says that it lacks records must not find itself in an ISR that was read before it said so.
        brokers = await self._first_brokers(cause)
        topics = await load_topics(self._session)
        settings, groups = await load_broker_configs(self._session), await load_group_configs(self._session)
        for name, why in topics.malformed.items():
            logger.error("topic ignored topic=%s error=%s", name, why)
        await self._links.follow(brokers)
        loaded = self._state.loaded(brokers, topics.topics.values(), topics.deleting, settings, groups)
        await self._executor.act(loaded, cause)

    async def _first_brokers(self, cause: Cause) -> dict[int, Broker]:
        """Who lives when the term begins. A failed predecessor is fenced first, so that its partitions are not given to it."""
        await self._session.sync("/")
        brokers = self._registered = await self._read_brokers()
        failed = brokers.get(self._predecessor.broker_id) if self._predecessor is not None else None
        if failed is None or self._predecessor is None:
            return brokers
        # After its registration was read, so that it is this very incarnation that does not answer.
        found = await probe(failed.endpoint, self._identity, PATIENT_PROBE_TIMEOUT_S)
        evidence = Evidence(failed.endpoint.id, failed.epoch, found.refused, reached=True, suffices=True)
        if found.refused:
            self._guard.suspected(evidence.broker, time.monotonic())
            if await self._verdict(evidence) is not Verdict.FENCE:
                return brokers
        elif found.answered or not self._predecessor.silent:
            return brokers
        else:
            self._guard.fenced_as_silent(evidence.broker, time.monotonic())
        await self._fence(failed.endpoint.id, failed.epoch, cause)
        return {i: broker for i, broker in brokers.items() if broker is not failed}

    # --- events --------------------------------------------------------------------------------------------------------

    def _brokers_notified(self, ids: list[str]) -> None:
        self._events.put("brokers came or went", self._brokers_changed, key="brokers")

    async def _brokers_changed(self, cause: Cause) -> None:
        await self._session.sync("/")
        self._registered = await self._read_brokers()
        brokers = {i: broker for i, broker in self._registered.items() if not self._guard.is_away(i)}
        if brokers == self._state.brokers:
            await self._links.follow(self._registered)
            return
        self._executor.say_why(cause)
        logger.info(
            "brokers changed live=%s before=%s cause=%s", sorted(brokers), sorted(self._state.brokers), cause.id
        )
        await self._read_where_records_are_missing(brokers, cause)
        await self._links.follow(self._registered)
        await self._executor.act(self._state.brokers_seen(brokers), cause)

    async def _read_where_records_are_missing(self, brokers: dict[int, Broker], cause: Cause) -> None:
        """Leaders may have let brokers in, before those came back without records, that we have not heard of yet."""
        known = self._state.brokers
        doubted = {
            i
            for i, broker in brokers.items()
            if broker.lacks_records and (i not in known or known[i].epoch != broker.epoch)
        }
        if doubted:
            await self._executor.read_states(self._state.held_by(doubted), cause)

    def _suspected(self, evidence: Evidence) -> None:
        """A broker does not answer its link: if the evidence is good enough, fence it now."""
        broker_id, epoch = evidence.broker, evidence.epoch
        self._guard.suspected(broker_id, time.monotonic())

        async def look(cause: Cause) -> None:
            if self._lives(broker_id, epoch) and await self._verdict(evidence) is Verdict.FENCE:
                await self._fence(broker_id, epoch, cause)
                await self._brokers_changed(cause)

        if evidence.suffices and broker_id != self._identity.broker_id:
            self._events.put(f"broker {broker_id} failed", look, key=f"broker {broker_id}")

    def _reached(self, broker_id: int) -> None:
        """A link has found its broker; one that was away counts as live again."""
        if self._guard.reached(broker_id):
            self._events.put(f"broker {broker_id} answers again", self._brokers_changed, key="brokers")

    def _obeyed(self, broker_id: int, epoch: int, order: LeaderAndIsrRequest, failed: list[TopicPartition]) -> None:
        """A broker was told to lead or follow, and cannot where its disk failed."""
        if not self._lives(broker_id, epoch):
            return
        told = {TopicPartition(state.topic, state.partition) for state in order.partitions}
        self._state.replicas_work(broker_id, told - set(failed))

        async def replace(cause: Cause) -> None:
            if self._lives(broker_id, epoch):
                self._executor.say_why(cause)
                logger.warning("replicas failed broker=%d partitions=%s cause=%s", broker_id, failed, cause.id)
                await self._executor.read_states(failed, cause)  # the ISR as its leader last wrote it
                await self._executor.act(self._state.replicas_failed(broker_id, failed), cause)

        if failed:
            self._events.put(f"broker {broker_id} cannot lead or follow what it was told in {order.cause}", replace)

    def _behind(self, broker_id: int, epoch: int) -> None:
        """A broker did not take its orders, and those that waited were dropped."""

        async def tell(cause: Cause) -> None:
            if self._lives(broker_id, epoch):
                self._links.begin_anew(broker_id)
                await self._executor.act(self._state.broker_is_behind(broker_id), cause)

        self._events.put(f"broker {broker_id} is behind with its orders", tell)

    def _lives(self, broker_id: int, epoch: int) -> bool:
        known = self._state.brokers.get(broker_id)
        return known is not None and known.epoch == epoch

    async def _fence(self, broker_id: int, epoch: int, cause: Cause) -> None:
        self._executor.say_why(cause)
        logger.info("a broker is dead broker=%d epoch=%d cause=%s", broker_id, epoch, cause.id)
        try:
            await fence(self._session, self._term, broker_id, epoch)
        except StaleBrokerEpoch:
            pass  # it has a new life already; ZooKeeper tells

    async def _verdict(self, evidence: Evidence) -> Verdict:
        broker_id, refused, registered = evidence.broker, evidence.refused, self._registered
        witnesses = Witnesses()
        if self._guard.needs_witnesses(refused=refused, registered=registered, now=time.monotonic()):
            witnesses = await self._links.witnesses(broker_id, self._identity.broker_id)
        verdict = self._guard.verdict(
            broker_id,
            witnesses,
            refused=refused,
            reached=evidence.reached,
            registered=registered,
            now=time.monotonic(),
        )
        if verdict is not Verdict.FENCE:
            logger.info(
                "a broker is suspect broker=%d refused=%s alive_to=%d dead_to=%d verdict=%s",
                broker_id, refused, witnesses.alive, witnesses.dead, verdict.value,
            )  # fmt: skip
        return verdict

    def _deletions_notified(self, names: list[str]) -> None:
        async def delete(cause: Cause) -> None:
            await self._executor.act(self._state.deletions_seen(names), cause)

        self._events.put(f"topics are marked for deletion: {', '.join(names[:10])}", delete, key="deletions")

    def _isr_notified(self, names: list[str]) -> None:
        async def read(cause: Cause) -> None:
            changed = await take_isr_changes(self._session, names)
            for topic in sorted({where.topic for where in changed}):
                await self._executor.read_again(topic, cause)

        if names:
            self._events.put("leaders changed their in-sync replicas", read, key="in-sync replicas")

    def _replicas_deleted(self, broker: int, partitions: list[TopicPartition], told: Cause) -> None:
        self._deleted.append((broker, partitions, told))
        if len(self._deleted) == 1:
            self._note_deletion()

    def _note_deletion(self) -> None:
        """One at a time: what clients ask of the controller comes in between."""
        broker, partitions, told = self._deleted[0]

        async def note(cause: Cause) -> None:
            await self._executor.act(self._state.replicas_deleted(broker, partitions), cause)
            self._deleted.popleft()
            if self._deleted:
                self._note_deletion()

        self._events.put_patient(f"broker {broker} deleted its replicas, as told in {told.id}", note)

    async def _balance(self, cause: Cause) -> None:
        """Give leadership back to preferred leaders that are in sync again."""
        await self._executor.act(self._state.preferred_leaders(), cause)

    async def _read_brokers(self) -> dict[int, Broker]:
        live = await live_brokers(self._session)
        return {
            i: Broker(
                BrokerEndpoint(i, found.host, found.port, found.rack, found.endpoints()),
                found.broker_epoch,
                found.data,
                found.reported,
                frozenset(where for name in found.lost_partitions if (where := partition_of(name)) is not None),
            )
            for i, found in live.items()
        }
