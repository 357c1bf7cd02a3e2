"""The members of a group whose coordinator assigns: who they are, what they want, what they hold. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.broker.groups.server_assignors import ASSIGNORS
from ottla.wire.consumer_groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED_MS,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.wire.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from ottla.zk.znodes.consumer_members import ConsumerRecord, TopicIdPartition
from ottla.zk.znodes.json_fields import encode_json

Partitions = frozenset[TopicIdPartition]
NONE: Partitions = frozenset()

AWAY = LEAVE_STATIC_EPOCH
"""The epoch of a static member that has left and may come back."""


class ConsumerState(StrEnum):
    """Kafka's names."""

    STABLE = "stable"
    UNREVOKED = "unrevoked_partitions"
    """It was told to let go of something, and has not said that it did."""
    UNRELEASED = "unreleased_partitions"
    """It is to have something that others have not let go of yet."""


@dataclass
class Consumer:
    """One member."""

    member_id: str
    instance_id: str | None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = 0
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    """What it says as long as it has not heard of the present one."""
    assigned: Partitions = NONE
    revoking: Partitions = NONE
    target: Partitions = NONE
    deadline: float = field(default=0.0, compare=False)
    """When its session ends, unless it is heard of before,"""
    revoking_until: float = field(default=0.0, compare=False)
    """and when it is out, unless it has let go of ``revoking`` before."""
    size: int = field(default=0, compare=False)
    """How many bytes it takes to write what it tells of itself."""

    def __post_init__(self) -> None:
        self.measure()

    def measure(self) -> None:
        names = self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host
        self.size = written_size(*names, self.pattern, *self.topics)

    @property
    def name(self) -> str:
        """For people, and in line for partitions."""
        return self.instance_id or self.member_id

    def state(self, group_epoch: int) -> ConsumerState:
        if self.revoking:
            return ConsumerState.UNREVOKED
        done = self.epoch in (group_epoch, AWAY) and self.assigned == self.target
        return ConsumerState.STABLE if done else ConsumerState.UNRELEASED

    def subscribe(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Note what the member says of itself; whether that is news."""
        before = self.rack_id, self.rebalance_timeout_ms, self.topics, self.pattern, self.assignor
        if request.rack_id is not None:
            self.rack_id = request.rack_id
        if request.rebalance_timeout_ms != UNCHANGED_MS:
            self.rebalance_timeout_ms = request.rebalance_timeout_ms
        if request.topics is not None:
            self.topics = tuple(sorted(set(request.topics)))
        if request.pattern is not None:
            self.pattern = request.pattern or None
        if request.assignor is not None:
            self.assignor = request.assignor
        is_news = before != (self.rack_id, self.rebalance_timeout_ms, self.topics, self.pattern, self.assignor)
        if is_news or request.member_epoch == JOIN_EPOCH:
            self.measure()
        return is_news

    def check_epoch(self, epoch: int, owned: Partitions | None) -> None:
        """FencedMemberEpoch unless it is the member's, or the one before and the answer with its own may have been lost."""
        if epoch in (JOIN_EPOCH, self.epoch):
            return
        if epoch == self.previous_epoch and owned is not None and owned <= self.assigned:
            return
        raise FencedMemberEpoch(f"member {self.member_id} is in epoch {self.epoch}, not {epoch}: it must join again")


class Consumers:
    """All of one group, in the order in which they came."""

    def __init__(self, group_id: str, make_id: Callable[[str], str], max_size: int, max_metadata_bytes: int) -> None:
        self._group_id = group_id
        self._make_id = make_id
        self.max_size = max_size
        self._max_metadata_bytes = max_metadata_bytes
        self._members: dict[str, Consumer] = {}
        self._instances: dict[str, Consumer] = {}
        self._holders: dict[TopicIdPartition, Consumer] = {}

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._members.values()))

    def __len__(self) -> int:
        return len(self._members)

    def get(self, member_id: str) -> Consumer | None:
        return self._members.get(member_id)

    def load(self, records: Iterable[ConsumerRecord]) -> None:
        for one in records:
            member = Consumer(
                one.member_id, one.instance_id, one.rack_id, one.client_id, one.client_host, one.rebalance_timeout_ms,
                one.topics, one.pattern, one.assignor, one.epoch, one.previous_epoch, NONE, NONE, one.target,
            )  # fmt: skip
            self._add(member)
            self.hold(member, one.assigned, one.revoking)

    def records(self) -> tuple[ConsumerRecord, ...]:
        return tuple(
            ConsumerRecord(
                one.member_id, one.instance_id, one.rack_id, one.client_id, one.client_host, one.rebalance_timeout_ms,
                one.topics, one.pattern, one.assignor, one.epoch, one.previous_epoch,
                one.assigned, one.revoking, one.target,
            )
            for one in self
        )  # fmt: skip

    # --- who is it? ------------------------------------------------------------------------------------------------------

    def known(self, member_id: str, instance_id: str | None) -> Consumer:
        """The member that speaks; raises if it is none any more, or another one has its instance id."""
        if instance_id is not None:
            static = self._instances.get(instance_id)
            if static is None:
                raise UnknownMemberId(f"group {self._group_id!r} has no member with instance id {instance_id[:100]!r}")
            if static.member_id != member_id:
                raise FencedInstanceId(f"another member has the instance id {instance_id!r} by now")
            return static
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self._group_id!r} has no member {member_id[:100]!r}")
        return member

    def named(self, member_id: str, instance_id: str | None) -> Consumer:
        """As ``known``; a static member may be named by its instance id alone."""
        if not member_id and instance_id is not None and instance_id in self._instances:
            return self._instances[instance_id]
        return self.known(member_id, instance_id)

    def find_to_join(self, request: ConsumerGroupHeartbeatRequest) -> Consumer | None:
        """Whose place somebody takes that joins: its own, or that of a static member that is away; None for a new one."""
        member = self._members.get(request.member_id)
        if member is not None and member.instance_id != request.instance_id:
            # Of two members with one id the other would be lost, and what it has with it.
            raise InvalidRequest(
                f"member id {request.member_id[:100]!r} is that of "
                + (f"instance {member.instance_id[:100]!r}" if member.instance_id is not None else "a dynamic member")
            )
        if request.instance_id is not None:
            static = self._instances.get(request.instance_id)
            if static is not None and static.member_id != request.member_id and static.epoch != AWAY:
                raise UnreleasedInstanceId(f"member {static.member_id} has the instance id {request.instance_id!r}")
            return static
        return member

    def add(self, request: ConsumerGroupHeartbeatRequest) -> Consumer:
        if len(self._members) >= self.max_size:
            raise GroupMaxSizeReached(f"group {self._group_id!r} has {len(self)} members, as many as it may have")
        member = Consumer(request.member_id or self._make_id(request.instance_id or ""), request.instance_id)
        self._add(member)
        return member

    def check_size(self, request: ConsumerGroupHeartbeatRequest, client_id: str, own: Consumer | None) -> None:
        """Raise if what all members tell of themselves would not fit into the group's znode any more.

        ``own``: the member that it is, if it is one.
        """
        if not request.topics and not request.pattern:
            return  # nearly all heartbeats
        names = request.member_id, request.instance_id, request.rack_id, client_id
        mine = written_size(*names, request.pattern, *(request.topics or ()))
        others = sum(member.size for member in self._members.values() if member is not own)
        if others + mine > self._max_metadata_bytes:
            raise GroupMaxSizeReached(
                f"group {self._group_id!r}: what its members tell of themselves, and another {mine} bytes, are more than "
                f"the {self._max_metadata_bytes} bytes that a group may have",
                hint="subscribe to fewer topics, or by a pattern",
            )

    def _add(self, member: Consumer) -> None:
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member

    def rename(self, member: Consumer, member_id: str) -> None:
        """A static member has come back under another id: what it had is its own again."""
        old, member.member_id = member.member_id, member_id or self._make_id(member.name)
        self._members = {member.member_id if key == old else key: each for key, each in self._members.items()}

    def remove(self, member: Consumer) -> None:
        self.hold(member, NONE, NONE)
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]

    # --- who has what? ---------------------------------------------------------------------------------------------------

    def holder(self, partition: TopicIdPartition) -> Consumer | None:
        """Who has it, or has not confirmed yet that it let go of it."""
        return self._holders.get(partition)

    def hold(self, member: Consumer, assigned: Partitions, revoking: Partitions) -> None:
        """What a member has from now on, and what of it is only waited for."""
        for one in (member.assigned | member.revoking) - assigned - revoking:
            if self._holders.get(one) is member:
                del self._holders[one]
        for one in assigned | revoking:
            self._holders.setdefault(one, member)
        member.assigned, member.revoking = assigned, revoking


def check_heartbeat(request: ConsumerGroupHeartbeatRequest) -> None:
    """InvalidRequest, or UnsupportedAssignor, for what makes no sense whoever says it."""
    epoch = request.member_epoch
    if not request.member_id and (request.brings_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH):
        raise InvalidRequest("a member must have an id")
    if request.instance_id == "" or request.rack_id == "":
        raise InvalidRequest("an instance id, or a rack id, without a letter")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms < 0:
            raise InvalidRequest("who joins must tell its rebalance timeout")
        if request.owned is None or request.owned:
            raise InvalidRequest("who joins must have no partitions, and say so")
        if request.topics is None and request.pattern is None:
            raise InvalidRequest("who joins must tell topics or a pattern")
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise InvalidRequest("only who has an instance id can leave for a while")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequest(f"member epoch {epoch}")
    if request.rebalance_timeout_ms < UNCHANGED_MS:
        raise InvalidRequest(f"rebalance timeout of {request.rebalance_timeout_ms} ms")
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(f"{request.assignor[:40]!r}; there are {', '.join(ASSIGNORS)}")


def written_size(*texts: str | None) -> int:
    """As JSON: some letters take twelve bytes, and short ones have more around them than in them."""
    return len(encode_json(texts))


def partitions_of(told: Iterable[TopicPartitions] | None) -> Partitions | None:
    if told is None:
        return None
    return frozenset((topic.topic_id, number) for topic in told for number in topic.partitions)


def by_topic(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    found: dict[str, list[int]] = {}
    for topic_id, number in sorted(partitions):
        found.setdefault(topic_id, []).append(number)
    return tuple(TopicPartitions(topic_id, tuple(numbers)) for topic_id, numbers in found.items())


def is_whole(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says all that it can: it does not know what was heard of it."""
    subscribed = request.topics is not None or request.pattern is not None
    return subscribed and request.owned is not None and request.rebalance_timeout_ms != UNCHANGED_MS
