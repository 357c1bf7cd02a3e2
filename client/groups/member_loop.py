"""The task of a group's member: it joins, takes what it is given, stays while all is well, and joins again when it must."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Protocol

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.connections import HEARTBEAT_LANE, JOIN_LANE
from ottla.client.groups.assignors import ASSIGNORS
from ottla.client.groups.commits import Commits
from ottla.client.groups.coordinator import GroupCoordinator
from ottla.client.groups.hand_over import Change, Step, Steps
from ottla.client.groups.leading import share, subscriptions_of
from ottla.client.groups.topics import GroupTopics
from ottla.net.retry import backoff
from ottla.wire.consumer_protocol import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from ottla.wire.errors import (
    IllegalGeneration,
    MemberIdRequired,
    OttlaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.wire.groups import (
    GroupProtocol,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

SLACK_S = 5.0
"""How much longer than it has to an answer may take."""

LEAVE_S = 2.0
SETTLED_CHECK_S = 0.005
POLLS_CHECK_S = 0.05
COMMITTED_S = 30.0


class Reader(Protocol):
    """Whoever reads the partitions: the consumer."""

    def owned(self) -> set[TopicPartition]: ...
    def begin(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Read these too, each from there, or from where it would begin without a group."""

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more, and give nothing more of them. (What is revoked ends when the reader takes that step.)"""

    def hold_up(self, error: OttlaError | None) -> None:
        """Why nothing can be read at the moment; an error that is not retriable stays."""


class GroupMember:
    """One member of one group. Owns a task from ``start`` to ``stop``."""

    def __init__(self, config: ConsumerConfig, cluster: Cluster, reader: Reader, steps: Steps) -> None:
        self.group_id = config.group_id
        self.instance_id = config.group_instance_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.polled_at = time.monotonic()
        self.polling = False
        """Whether somebody waits for records just now: then it polls, however long that takes."""
        self._config = config
        self._cluster = cluster
        self._reader = reader
        self._steps = steps
        self._coordinator = GroupCoordinator(cluster, config.group_id)
        self.commits = Commits(self._coordinator, config.group_id, self)
        self._topics = GroupTopics(cluster, config.metadata_max_age_ms / 1000)
        self._assignors = [ASSIGNORS[name] for name in config.assignors]
        self._cooperative = all(assignor.cooperative for assignor in self._assignors)
        self._changed = asyncio.Event()
        self._reached = True
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._committing: asyncio.Task[None] | None = None

    # --- for the consumer ------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None = None) -> None:
        self._topics.want(topics, pattern)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"member of {self.group_id}")

    async def settled(self, timeout_s: float) -> bool:
        """Wait until no rebalance is under way. False if the reader must poll first, or it takes too long."""
        deadline = time.monotonic() + timeout_s
        while not self._settled.is_set():
            if self._task is None or self._task.done() or time.monotonic() > deadline or self._steps.holds_up:
                return False
            await asyncio.sleep(SETTLED_CHECK_S)
        return True

    @property
    def _is_read(self) -> bool:
        return self.polling or time.monotonic() - self.polled_at <= self._config.max_poll_interval_ms / 1000

    def soon(self, commit: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Commit without waiting for it; on the event loop's thread. One at a time: it goes on while there is more."""
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(commit())

    async def committed_all(self, timeout_s: float) -> None:
        """Wait, at most so long, for what is committed without anybody waiting for it."""
        if self._committing is not None:
            await asyncio.wait([self._committing], timeout=timeout_s)

    async def stop(self) -> None:
        """Leave the group. A static member stays in it: it is expected back."""
        tasks = [task for task in (self._task, self._committing) if task is not None]
        self._task = self._committing = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.instance_id is None:
            await self._leave("the consumer was closed")

    def cancel(self) -> None:
        """Nobody has the consumer any more."""
        for task in (self._task, self._committing):
            if task is not None:
                task.cancel()

    # --- the task --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        waits = self._new_backoff()
        while True:
            try:
                await self._be_member()
                waits = self._new_backoff()
            except (UnknownMemberId, IllegalGeneration) as error:
                await self._lose(error)
            except OttlaError as error:
                if not error.retriable and not self._cluster.only_hung_up(error):
                    await self._lose(error)
                    self._reader.hold_up(error)
                    logger.error("Group %s: this member cannot go on: %s", self.group_id, error)
                    return
                self._reader.hold_up(error)
                await asyncio.sleep(next(waits))
            except Exception:
                logger.exception("the member of group %s failed", self.group_id)
                await asyncio.sleep(next(waits))

    async def _be_member(self) -> None:
        """One generation, from joining it to the news that there will be another."""
        await self._until_somebody_polls()
        self._changed.clear()
        await self._topics.look()
        topics = tuple(self._topics.names)
        await self._revoke(self._to_revoke_before_joining(topics))
        joined = await self._join(topics)
        try:
            assignment = await self._sync(joined)
        except RebalanceInProgress:
            return
        if not await self._take(set(assignment.partitions)):
            await self._stay()

    # --- joining ---------------------------------------------------------------------------------------------------------

    def _to_revoke_before_joining(self, topics: tuple[str, ...]) -> set[TopicPartition]:
        """Everything, unless the group rebalances cooperatively: then only partitions of topics that are not subscribed.

        Invariant [I22]: a member owns nothing that it does not subscribe to while the group decides who gets what. A leader may
        take such a partition for free and assign it while this member still reads it and may commit (Kafka's assignors do).
        """
        return {where for where in self._reader.owned() if not self._cooperative or where.topic not in topics}

    async def _join(self, topics: tuple[str, ...]) -> JoinGroupResponse:
        """Join with these topics, even if the subscription changes meanwhile: then this member joins once more afterwards."""
        rebalance_s = self._config.max_poll_interval_ms / 1000
        while True:
            owned = tuple(sorted(self._reader.owned()))
            metadata = encode_subscription(Subscription(topics, None, owned, self.generation))
            request = JoinGroupRequest(
                self.group_id, self._config.session_timeout_ms, self._config.max_poll_interval_ms, self.member_id,
                self.instance_id, PROTOCOL_TYPE,
                [GroupProtocol(assignor.name, metadata) for assignor in self._assignors],
            )  # fmt: skip
            answer = await self._coordinator.ask(request, JoinGroupResponse, rebalance_s + SLACK_S, JOIN_LANE)
            if answer.error_code == MemberIdRequired.code:
                self.member_id = answer.member_id
            elif answer.error_code != RebalanceInProgress.code:
                break
        answer.raise_if_failed()
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> Assignment:
        assignments: list[MemberAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            topics = {topic for wants in subscriptions_of(joined).values() for topic in wants.topics}
            assignments = share(joined, await self._topics.count(topics))
            logger.info(
                "Group %s: this member leads generation %d and shares the partitions among %d members by %s.",
                self.group_id, joined.generation_id, len(joined.members), joined.protocol_name,
            )  # fmt: skip
        request = SyncGroupRequest(
            self.group_id, self.generation, self.member_id, self.instance_id, joined.protocol_type, joined.protocol_name,
            assignments,
        )  # fmt: skip
        timeout_s = self._config.max_poll_interval_ms / 1000 + SLACK_S
        answer = await self._coordinator.ask(request, SyncGroupResponse, timeout_s, JOIN_LANE)
        answer.raise_if_failed()
        return decode_assignment(answer.assignment)

    # --- partitions come and go ------------------------------------------------------------------------------------------

    async def _take(self, given: set[TopicPartition]) -> bool:
        """Read what was given. Whether something was let go of for it: then the group must share anew."""
        owned = self._reader.owned()
        await self._revoke(owned - given)
        new = given - owned
        committed = await self.commits.committed(sorted(new), COMMITTED_S)
        self._reader.begin({where: committed[where].offset if where in committed else None for where in new})
        self._reader.hold_up(None)
        self._steps.put(Change.ASSIGNED, new)
        logger.info(
            "Group %s, generation %d: this member reads %d partitions: %d are new, %d were given up.",
            self.group_id, self.generation, len(given), len(new), len(owned - given),
        )  # fmt: skip
        return self._cooperative and bool(owned - given)

    async def _revoke(self, partitions: set[TopicPartition]) -> None:
        """Let go: wait until the reader polls, has done what it must, and reads them no more."""
        if partitions:
            await self._hand_over(self._steps.put(Change.REVOKED, partitions))

    async def _hand_over(self, step: Step) -> None:
        deadline = time.monotonic() + self._config.max_poll_interval_ms / 1000
        while not step.taken.is_set():
            if time.monotonic() >= deadline:
                why = f"nobody has polled for {self._config.max_poll_interval_ms} ms, so its partitions are given up"
                await self._leave(why)  # or the others would wait until its session is over
                raise UnknownMemberId(why)
            try:
                async with asyncio.timeout(self._config.heartbeat_interval_ms / 1000):
                    await step.taken.wait()
            except TimeoutError:
                await self._heartbeat(0)

    async def _lose(self, why: OttlaError) -> None:
        """The group has gone on without this member: what it had may be another's already."""
        owned = self._reader.owned()
        self._reader.end(owned)
        if isinstance(why, UnknownMemberId):
            self.member_id = ""
        self.generation = NO_GENERATION
        if owned:
            logger.warning("Group %s: this member has lost its %d partitions: %s", self.group_id, len(owned), why)
        self._steps.lose(owned)

    # --- staying ---------------------------------------------------------------------------------------------------------

    async def _stay(self) -> None:
        """Say now and then that this member lives, until the group begins its next generation."""
        self._settled.set()
        try:
            await self._beat()
        finally:
            self._settled.clear()

    async def _beat(self) -> None:
        interval_s = self._config.heartbeat_interval_ms / 1000
        while True:
            began = time.monotonic()
            beat = asyncio.ensure_future(self._heartbeat(self._config.heartbeat_interval_ms))
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([beat, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                if not beat.done():
                    beat.cancel()
            if self._changed.is_set():
                return
            if not beat.result():
                return
            await self._leave_if_nobody_polls()
            if await self._topics.have_changed():
                logger.info("Group %s: topics have changed, so it is shared anew.", self.group_id)
                return
            if self._reached:  # a broker that does not wait has answered at once
                await asyncio.sleep(max(0.0, min(interval_s, began + interval_s - time.monotonic())))

    async def _heartbeat(self, max_wait_ms: int) -> bool:
        """False if this member must join again. A coordinator that cannot be reached is no reason to."""
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id, max_wait_ms)
        try:
            waits_s = max_wait_ms / 1000
            answer = await self._coordinator.ask(request, HeartbeatResponse, waits_s + SLACK_S, HEARTBEAT_LANE, waits_s)
            answer.raise_if_failed()
            self._reached = True
        except RebalanceInProgress as error:
            logger.info("Group %s is shared anew: %s.", self.group_id, error)
            return False
        except OttlaError as error:
            if not error.retriable and not self._cluster.only_hung_up(error):
                raise
            self._reached = False
            logger.debug("heartbeat failed group=%s error=%s", self.group_id, error)
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)
        return True

    async def _leave_if_nobody_polls(self) -> None:
        limit_s = self._config.max_poll_interval_ms / 1000
        if self._is_read:
            return
        why = f"it has not polled for {limit_s:g} s (max_poll_interval_ms)"
        logger.warning("Group %s: this member leaves, because %s.", self.group_id, why)
        await self._leave(why)
        await self._lose(UnknownMemberId(why))
        self._changed.set()

    async def _until_somebody_polls(self) -> None:
        """A member that takes partitions and does not read them would only keep them from others."""
        while not self._is_read:  # noqa: ASYNC110  # the reader may be in another thread
            await asyncio.sleep(POLLS_CHECK_S)

    async def _leave(self, why: str) -> None:
        """Tell the others at once, if that can be done quickly: else they wait until the session is over."""
        if not self.member_id:
            return
        request = LeaveGroupRequest(self.group_id, [LeavingMember(self.member_id, self.instance_id, why)])
        member_id, self.member_id = self.member_id, ""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._coordinator.ask(request, LeaveGroupResponse, LEAVE_S)
        except (OttlaError, TimeoutError) as error:
            logger.info("Group %s: leaving it was not heard: %s", self.group_id, error)
        except asyncio.CancelledError:
            self.member_id = member_id  # whoever ends this member for good may say so once more
            raise

    def _new_backoff(self) -> Iterator[float]:
        return backoff(self._config.retry_backoff_ms / 1000, self._config.retry_backoff_max_ms / 1000)
