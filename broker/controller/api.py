"""The controller's api: what clients and brokers ask of it. Everything is done as an event of its loop, in turn."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from ottla.broker.controller.decisions.actions import Action
from ottla.broker.controller.decisions.election_results import Results
from ottla.broker.controller.decisions.state import ControllerState
from ottla.broker.controller.events import Cause, Events
from ottla.broker.controller.executor import Executor
from ottla.broker.controller.links import Links, OrderAnswers
from ottla.broker.controller.removals import Removals
from ottla.broker.dynamic_config import NOT_ENFORCED
from ottla.wire.admin import (
    ConfigAlteration,
    ConfigOperation,
    ConfigReplacement,
    ElectionType,
    NewPartitions,
    NewTopic,
    OngoingReassignment,
)
from ottla.wire.errors import RequestTimedOut
from ottla.wire.names import TopicPartition
from ottla.zk.znodes.uuids import uuid_to_text

logger = logging.getLogger(__name__)

VERIFY_AGAIN_S = 1.0
"""All brokers are asked whether they reach a leader at most so often."""


class Asked(NamedTuple):
    """Who asks for something, how long it may take, and whether that includes what the brokers make of it."""

    by: str
    timeout_s: float
    waits_for_brokers: bool = True
    """False: the answer tells what stands in ZooKeeper, and comes before any broker has heard of it."""


class ControllerApi:
    """One term's. What may be done is decided in decisions/requests.py."""

    def __init__(
        self, state: ControllerState, executor: Executor, events: Events, removals: Removals, links: Links
    ) -> None:
        self._state = state
        self._requests = state.requests
        self._executor = executor
        self._events = events
        self._removals = removals
        self._links = links
        self._verified_at: dict[int, float] = {}
        self._warned_of_throttles = False

    # --- brokers -------------------------------------------------------------------------------------------------------

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int, asked: Asked) -> list[TopicPartition]:
        """Move leadership away from a broker that is about to stop; gives the partitions that it still leads."""

        async def leave(cause: Cause) -> OrderAnswers:
            self._requests.check_life(broker_id, broker_epoch)
            told = await self._executor.act(self._state.broker_shuts_down(broker_id), cause)
            return told + await self._executor.act(self._state.stop_replicas_of(broker_id), cause)

        await self._do(f"broker {broker_id} is about to stop", leave, asked, urgent=True)
        return self._state.led_by(broker_id)

    async def replicas_failed(
        self, broker_id: int, broker_epoch: int, partitions: list[TopicPartition], asked: Asked
    ) -> None:
        """Move leadership of partitions away from a broker whose disk failed under them."""

        async def elect(cause: Cause) -> OrderAnswers:
            self._requests.check_life(broker_id, broker_epoch)
            told = await self._executor.read_states(partitions, cause)  # the ISR as its leader last wrote it
            return told + await self._executor.act(self._state.replicas_failed(broker_id, partitions), cause)

        kind = f"a disk of broker {broker_id} failed under {len(partitions)} partitions"
        await self._do(kind, elect, asked, urgent=True)

    async def replicas_damaged(
        self, broker_id: int, broker_epoch: int, partitions: list[TopicPartition], asked: Asked
    ) -> None:
        """Take replicas of a broker that have a damaged batch out of the ISR, where another one in sync can lead."""

        async def elect(cause: Cause) -> OrderAnswers:
            self._requests.check_life(broker_id, broker_epoch)
            told = await self._executor.read_states(partitions, cause)  # the ISR as its leader last wrote it
            return told + await self._executor.act(self._state.replicas_damaged(broker_id, partitions), cause)

        await self._do(
            f"broker {broker_id} has damaged batches in {len(partitions)} partitions", elect, asked, urgent=True
        )

    async def leaders_unreachable(
        self, broker_id: int, broker_epoch: int, unreachable: Sequence[int], asked: Asked
    ) -> None:
        """A follower cannot fetch from these leaders: ask all brokers whether they reach them, and elect others if need be."""
        self._requests.check_life(broker_id, broker_epoch)
        now = time.monotonic()
        for leader in sorted(self._state.brokers.keys() & set(unreachable)):
            # All followers of a leader report it at about the same time: they are asked once.
            if now - self._verified_at.get(leader, -VERIFY_AGAIN_S) >= VERIFY_AGAIN_S:
                self._verified_at[leader] = now
                await self._verify_unreachable(leader, asked)

    async def _verify_unreachable(self, leader: int, asked: Asked) -> None:
        reached = await self._links.reach(leader)
        cut_off = {broker for broker, reaches in reached.items() if reaches is False}

        async def replace(cause: Cause) -> OrderAnswers:
            told = await self._executor.read_states(
                self._state.led_by(leader), cause
            )  # the ISR as the leader last wrote it
            return told + await self._executor.act(self._state.leader_unreachable(leader, cut_off), cause)

        if cut_off:
            kind = f"brokers {sorted(cut_off)} do not reach broker {leader}, which leads partitions that they follow"
            await self._events.in_turn(kind, replace, asked.timeout_s, urgent=True)

    # --- partitions ------------------------------------------------------------------------------------------------------

    async def elect_leaders(
        self, election: ElectionType, partitions: list[TopicPartition] | None, asked: Asked
    ) -> Results:
        """Give leadership back to preferred leaders, or let whoever lives lead where nobody does."""
        state, executor = self._state, self._executor
        results: Results = {}

        async def elect(cause: Cause) -> OrderAnswers:
            nonlocal results
            told: OrderAnswers = []
            if election is ElectionType.PREFERRED:
                # Leaders may have let replicas in that we have not heard of yet, where somebody else leads.
                told = await executor.read_states(state.not_preferred(partitions), cause)
            results = state.elections_needed(election, partitions)
            elections = state.unclean_leaders if election is ElectionType.UNCLEAN else state.preferred_leaders
            told += await executor.act(elections(partitions), cause)
            results = state.elections_held(election, results)
            return told

        await self._do(f"{election.name.lower()} leaders wanted by {asked.by}", elect, asked)
        return results

    async def reassign(self, where: TopicPartition, replicas: Sequence[int] | None, asked: Asked) -> None:
        """Begin to move a partition to other brokers, which goes on in the background; or call that off."""
        await self._change(f"{where} moved by {asked.by}", lambda: self._requests.reassign(where, replicas), asked)

    def reassignments(self, wanted: Sequence[TopicPartition] | None) -> list[OngoingReassignment]:
        return self._requests.reassignments(wanted)

    # --- topics --------------------------------------------------------------------------------------------------------

    async def create_topic(self, topic: NewTopic, asked: Asked, *, validate_only: bool = False) -> str:
        """Create a topic and wait until all live brokers know it; gives its id."""
        topic_id = "" if validate_only else topic.topic_id or uuid_to_text(uuid.uuid4())
        await self._change(
            f"topic {topic.name!r} created by {asked.by}",
            lambda: self._requests.create_topic(topic, topic_id),
            asked,
            validate_only=validate_only,
        )
        self._warn_of_throttles(topic.config)
        return topic_id

    async def delete_topic(self, name: str, asked: Asked, *, topic_id: str = "") -> str:
        """Mark a topic for deletion and wait until it is gone; when time is over, it goes on being deleted. Returns its name.

        By name, by id, or by both: then another topic of that name stays.
        """
        if not name and topic_id:
            name = self._requests.name_of(topic_id)

        async def mark(cause: Cause) -> OrderAnswers:
            return await self._executor.act(self._requests.delete_topic(name, topic_id), cause)

        until = time.monotonic() + asked.timeout_s
        with self._removals.of(name) as gone:
            await self._events.in_turn(f"topic {name!r} deleted by {asked.by}", mark, asked.timeout_s, patient=True)
            if not asked.waits_for_brokers:
                return name
            await asyncio.wait([gone], timeout=_left_s(until))
            if not gone.done():
                raise RequestTimedOut(
                    f"topic {name!r} is still being deleted: a broker that holds some of it does not answer"
                )
            await _heard(gone.result(), until)
        return name

    async def create_partitions(self, new: NewPartitions, asked: Asked, *, validate_only: bool = False) -> None:
        """Let a topic have more partitions than it has."""
        kind = f"{new.count} partitions of topic {new.name!r} wanted by {asked.by}"
        await self._change(kind, lambda: self._requests.create_partitions(new), asked, validate_only=validate_only)

    async def replace_config(self, new: ConfigReplacement, asked: Asked, *, validate_only: bool = False) -> None:
        """Replace all settings of a topic."""
        kind = f"settings of {new.name!r} replaced by {asked.by}"
        await self._change(kind, lambda: self._requests.replace_config(new), asked, validate_only=validate_only)
        self._warn_of_throttles(new.config)

    async def alter_config(self, new: ConfigAlteration, asked: Asked, *, validate_only: bool = False) -> None:
        """Change some settings of a topic."""
        kind = f"settings of {new.name!r} changed by {asked.by}"
        await self._change(kind, lambda: self._requests.alter_config(new), asked, validate_only=validate_only)
        self._warn_of_throttles(change.key for change in new.changes if change.operation != ConfigOperation.DELETE)

    def _warn_of_throttles(self, keys: Iterable[str]) -> None:
        """Once in a term: Kafka's tools set throttles whenever they move a replica."""
        named = sorted(NOT_ENFORCED.intersection(keys))
        if named and not self._warned_of_throttles:
            self._warned_of_throttles = True
            logger.warning(
                "replication throttles are stored but not enforced: moves use all bandwidth settings=%s", named
            )

    # --- inside --------------------------------------------------------------------------------------------------------

    async def _change(
        self, kind: str, decide: Callable[[], list[Action]], asked: Asked, *, validate_only: bool = False
    ) -> None:
        """Decide in turn, and do it unless it is only to be seen whether it could be done."""

        async def change(cause: Cause) -> OrderAnswers:
            actions = decide()
            return [] if validate_only else await self._executor.act(actions, cause)

        await self._do(kind, change, asked)

    async def _do(
        self, kind: str, work: Callable[[Cause], Awaitable[OrderAnswers]], asked: Asked, *, urgent: bool = False
    ) -> None:
        """Do something in turn, and wait until the brokers have heard what follows from it."""
        until = time.monotonic() + asked.timeout_s
        told = await self._events.in_turn(kind, work, asked.timeout_s, urgent=urgent)
        if asked.waits_for_brokers:
            await _heard(told, until)


async def _heard(told: OrderAnswers, until: float) -> None:
    if told:
        await asyncio.wait(told, timeout=_left_s(until))


def _left_s(until: float) -> float:
    return max(0.0, until - time.monotonic())
