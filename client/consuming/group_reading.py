"""A consumer as a member of a group: what the group does to its partitions, and what it has read of them."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.consuming.fetch_loop import FetchLoop
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.subscription import UNKNOWN, Assigned, Subscription
from ottla.client.groups.commits import OffsetAndMetadata
from ottla.client.groups.hand_over import Change, Step, Steps, hears_something
from ottla.client.groups.member_loop import GroupMember
from ottla.client.records import Record
from ottla.wire.errors import ClientTimeout, ConfigError, IllegalGeneration, OttlaError, RebalanceInProgress
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, "int | OffsetAndMetadata"]
"""What a caller commits: the next offset to read of each partition."""

CLOSE_COMMIT_S = 5.0


class GroupReading:
    """Between a group's member and the parts of a consumer. Its methods run on the event loop, but where it says otherwise."""

    def __init__(
        self, config: ConsumerConfig, cluster: Cluster, subscription: Subscription, inbox: Inbox, fetch_loop: FetchLoop
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._inbox = inbox
        self._fetch_loop = fetch_loop
        self.steps = Steps(lambda: inbox.on_data())
        self.member = GroupMember(config, cluster, self, self.steps)
        self.listener: object | None = None
        self.trouble: OttlaError | None = None
        """Why the group gives nothing to read at the moment."""
        self._shares = False
        self._commit_at = time.monotonic() + config.auto_commit_interval_ms / 1000
        self._committed: dict[TopicPartition, tuple[str, int]] = {}
        """What is known to be committed: of which topic (another one may have the same name by now), and the offset."""
        self._soon: dict[TopicPartition, OffsetAndMetadata] = {}
        """What is to be committed without anybody waiting for it."""
        self._committing = asyncio.Lock()

    def subscribe(self, topics: Iterable[str], pattern: "re.Pattern[str] | None", listener: object | None) -> None:
        if listener is not None and not hears_something(listener):
            raise ConfigError(
                f"the listener {listener!r} would hear nothing",
                hint="give an object with on_partitions_assigned, on_partitions_revoked or on_partitions_lost",
            )
        self.listener = listener
        if not self._shares:
            self._shares = True
            self._subscription.assign([])
        self.member.subscribe(topics, pattern)

    @property
    def shares(self) -> bool:
        """Whether the group says what to read; else the caller did."""
        return self._shares

    # --- for the member (groups.member_loop.Reader) ----------------------------------------------------------------------

    def owned(self) -> set[TopicPartition]:
        return set(self._subscription.assigned)

    def begin(self, positions: Mapping[TopicPartition, int | None]) -> None:
        self._subscription.add(positions)
        self._note_committed({where: offset for where, offset in positions.items() if offset is not None})
        self._fetch_loop.start()

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        self._subscription.remove(partitions)
        self._inbox.take_back()
        for where in partitions:
            self._committed.pop(where, None)
            self._soon.pop(where, None)
        self._fetch_loop.poke()

    def hold_up(self, error: OttlaError | None) -> None:
        self.trouble = error
        if error is not None and not error.retriable:
            self._inbox.on_data()

    # --- when somebody polls ---------------------------------------------------------------------------------------------

    def polls(self) -> None:
        """From any thread."""
        self.member.polled_at = time.monotonic()
        if self.trouble is not None and not self.trouble.retriable:
            raise self.trouble

    def commits_before(self, step: Step) -> bool:
        """Whether what was read of partitions must be committed before they go. From any thread."""
        return step.change is Change.REVOKED and self._config.enable_auto_commit

    async def commit_revoked(self, step: Step, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        going = {where: offset for where, offset in offsets.items() if where in step.partitions}
        await self.commit(going, self._config.request_timeout_ms / 1000, quietly=True)

    async def finish(self, step: Step) -> None:
        """The reader has done what it must: the group may go on."""
        if step.change is Change.REVOKED:  # what was lost has ended, and some of it may have come back since
            self.end(step.partitions)
        self._inbox.drop_stale()
        self.steps.taken(step)

    def due_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is to be committed by itself now, if it is time for that. In the caller's thread, before it is given more."""
        if not self._config.enable_auto_commit or time.monotonic() < self._commit_at:
            return {}
        self._commit_at = time.monotonic() + self._config.auto_commit_interval_ms / 1000
        return self.positions()

    def positions(self, *, known_too: bool = False) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was given so far and is not committed; with ``known_too`` all of it. In the caller's thread.

        Who asks for a commit gets one: somebody else may have changed what stands there.
        """
        found = {}
        for where, state in list(self._subscription.assigned.items()):
            position = self._inbox.position(state) if state.position != UNKNOWN else UNKNOWN
            if position != UNKNOWN and (known_too or self._committed.get(where) != (state.topic_id, position)):
                found[where] = OffsetAndMetadata(position)
        return found

    def check_heard(self, where: TopicPartition) -> None:
        """IllegalGeneration for a partition that was lost, of which the caller has not heard yet. From any thread."""
        if self._shares and where in self.steps.unheard_losses():
            raise IllegalGeneration(
                f"{where} was lost, and may be another member's", hint="poll: then it is known what is read"
            )

    # --- commits -----------------------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, quietly: bool = False
    ) -> None:
        for where in offsets:
            self._soon.pop(where, None)  # this is said later
        try:
            await self._commit(offsets, timeout)
        except OttlaError as error:
            if not quietly:
                raise
            logger.warning("Group %s: offsets were not committed: %s", self.member.group_id, error)
            return
        self._note_committed({where: one.offset for where, one in offsets.items()})

    def _note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for where, offset in offsets.items():
            state = self._subscription.assigned.get(where)
            if state is not None:
                self._committed[where] = (state.topic_id, offset)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """One after the other: one that has to be tried again must not undo what was committed after it.

        Partitions may stay this member's though the group has begun its next generation: then they are committed in that.
        """
        deadline = time.monotonic() + timeout
        states = self._states_of(offsets)
        topic_ids = {where.topic: state.topic_id for where, state in states.items() if state is not None}
        try:
            async with asyncio.timeout(timeout):
                await self._committing.acquire()
        except TimeoutError:
            text = (
                f"offsets of {self.member.group_id!r} were not committed within {timeout:g} s: others were before them"
            )
            raise ClientTimeout(text) from None
        try:
            self._check_mine(states)
            try:
                await self.member.commits.commit(offsets, topic_ids, max(0.0, deadline - time.monotonic()))
            except (IllegalGeneration, RebalanceInProgress):
                left_s = max(0.0, deadline - time.monotonic())
                if not await self.member.settled(left_s) or states != self._states_of(offsets):
                    raise
                await self.member.commits.commit(offsets, topic_ids, max(0.0, deadline - time.monotonic()))
        finally:
            self._committing.release()

    def _states_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Assigned | None]:
        return {where: self._subscription.assigned.get(where) for where in partitions}

    def _check_mine(self, states: Mapping[TopicPartition, Assigned | None]) -> None:
        """Invariant: a member commits only what it has had ever since it read it: nobody else has read it meanwhile.

        What it has lost and has again may have been another one's: as long as the caller has not heard of that, it means
        what it read before.
        """
        if not self._shares:
            return
        unheard = self.steps.unheard_losses()
        gone = [
            where
            for where, state in states.items()
            if state is None or where in unheard or self._subscription.assigned.get(where) is not state
        ]
        if gone:
            raise IllegalGeneration(
                f"{', '.join(map(str, gone[:5]))}: not this member's; nothing was committed",
                hint="what was read since the last commit will be read again",
            )

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Without waiting for it; of several for a partition, the last. What fails is told in the log."""
        self._soon |= offsets
        self.member.soon(self._commit_soon)

    async def _commit_soon(self) -> None:
        while self._soon:
            offsets = dict(self._soon)
            gone = [where for where, state in self._states_of(offsets).items() if self._shares and state is None]
            if gone:
                logger.warning("Group %s: not this member's any more: %s", self.member.group_id, gone[:5])
            for where in gone:
                del self._soon[where], offsets[where]
            await self.commit(offsets, self._config.request_timeout_ms / 1000, quietly=True)

    def last_revocation(self) -> Callable[[set[TopicPartition]], object] | None:
        """What to call before the consumer is closed, if it reads anything and somebody wants to hear of it. Any thread."""
        if not self._shares or not self._subscription.assigned:
            return None
        return Step.listener_call_for(Change.REVOKED, self.listener)

    def abandon(self) -> None:
        """Nobody has the consumer any more. From any thread."""
        self._fetch_loop.call_there(self.member.cancel)

    async def close(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit the last of it, and leave."""
        deadline = time.monotonic() + CLOSE_COMMIT_S
        await self.member.committed_all(CLOSE_COMMIT_S)
        if self._config.enable_auto_commit and self._shares:
            await self.commit(offsets, max(0.1, deadline - time.monotonic()), quietly=True)
        await self.member.stop()


def as_offsets(what: "Record | Offsets") -> dict[TopicPartition, OffsetAndMetadata]:
    """What a caller wants to be committed: a record stands for all up to it."""
    if isinstance(what, Record):
        return {TopicPartition(what.topic, what.partition): OffsetAndMetadata(what.offset + 1)}
    if not isinstance(what, Mapping):
        raise ConfigError(f"commit({what!r})", hint="give a record, or {TopicPartition(topic, 0): offset}")
    return {
        TopicPartition(*where): OffsetAndMetadata(one) if isinstance(one, int) else OffsetAndMetadata(*one)
        for where, one in what.items()
    }
