"""Groups as an admin sees them."""

from dataclasses import dataclass

from ottla.wire.consumer_protocol import decode_assignment, decode_subscription
from ottla.wire.errors import InvalidRequest
from ottla.wire.groups import DescribedGroup, DescribedMember
from ottla.wire.names import TopicPartition


@dataclass(frozen=True)
class MemberDescription:
    """One member: who it is, what it wants, and what it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupDescription:
    """``state`` is Empty, PreparingRebalance, CompletingRebalance, Reconciling or Stable; ``strategy`` how partitions are
    shared.

    Reconciling is a group whose coordinator assigns (Kafka's group.protocol=consumer) while partitions change hands; its
    ``generation`` is its epoch.
    """

    group_id: str
    state: str
    generation: int
    strategy: str
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True)
class PartitionLag:
    """How far a group is behind in a partition. ``committed`` is None where it never committed anything."""

    committed: int | None
    begin: int
    end: int
    member: MemberDescription | None = None
    lag_seconds: float = 0.0
    """How long ago the first record was made that is yet to be read; 0 if there is none."""

    @property
    def lag(self) -> int:
        """Records that are yet to be read."""
        return max(0, self.end - (self.begin if self.committed is None else max(self.committed, self.begin)))


def describe(group: DescribedGroup) -> GroupDescription:
    members = tuple(_describe_member(member) for member in group.members)
    return GroupDescription(group.group_id, group.state, group.generation_id, group.protocol_name, members)


def _describe_member(member: DescribedMember) -> MemberDescription:
    try:
        topics = decode_subscription(member.metadata).topics
        partitions = decode_assignment(member.assignment).partitions
    except InvalidRequest:  # a group of another kind than consumers'
        topics, partitions = (), ()
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, topics, partitions
    )
