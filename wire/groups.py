"""What members of consumer groups, and those who look after groups, ask of the group's coordinator. Fields are Kafka's.

``metadata`` and ``assignment`` are Kafka's own consumer-protocol bytes (consumer_protocol.py): brokers pass them on, so that
any client of either dialect can be a member of the same group.
"""

from ottla.wire.messages import Api, Failure, Message, PartitionName, Request
from ottla.wire.names import NO_EPOCH

# --- FindCoordinator -----------------------------------------------------------------------------------------------------


class Coordinator(Failure):
    """Where the coordinator of a group is."""

    group_id: str
    broker_id: int = -1
    host: str = ""
    port: int = -1


class FindCoordinatorResponse(Message):
    coordinators: list[Coordinator]


class FindCoordinatorRequest(Request):
    """Who coordinates these groups? Any broker knows."""

    api = Api.FIND_COORDINATOR
    response = FindCoordinatorResponse
    groups: list[str]


# --- JoinGroup -----------------------------------------------------------------------------------------------------------


class GroupProtocol(Message):
    """An assignor that a member understands, and what it must know of the member: its subscription."""

    name: str
    metadata: bytes


class JoinedMember(Message):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(Failure):
    generation_id: int = -1
    protocol_type: str = ""
    protocol_name: str = ""
    leader: str = ""
    member_id: str = ""
    """Also in the error MEMBER_ID_REQUIRED: the id to join with."""
    members: tuple[JoinedMember, ...] = ()
    """Told the leader, who assigns."""
    skip_assignment: bool = False
    """The leader need not assign: what was assigned before stands."""


class JoinGroupRequest(Request):
    """Let me into the group, or: I am still in it. Answered when all members of the next generation have joined."""

    api = Api.JOIN_GROUP
    response = JoinGroupResponse
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[GroupProtocol]
    reason: str = ""
    needs_member_id: bool = True
    """Whether one that is new is first given an id, to join with: it is known by it if it asks again. Old clients are not."""


# --- SyncGroup -----------------------------------------------------------------------------------------------------------


class MemberAssignment(Message):
    member_id: str
    assignment: bytes


class SyncGroupResponse(Failure):
    protocol_type: str = ""
    protocol_name: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Request):
    """What is mine in this generation? The leader brings what is everybody's."""

    api = Api.SYNC_GROUP
    response = SyncGroupResponse
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocol_name: str
    assignments: list[MemberAssignment]


# --- Heartbeat, LeaveGroup -----------------------------------------------------------------------------------------------


class HeartbeatResponse(Failure):
    pass


class HeartbeatRequest(Request):
    """I am still here. Answered at once if the member must join again, else when ``max_wait_ms`` is over."""

    api = Api.HEARTBEAT
    response = HeartbeatResponse
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    max_wait_ms: int = 0
    """So a member hears of a rebalance when it begins, however seldom it says that it lives."""


class LeavingMember(Message):
    member_id: str
    """Or empty: whoever has the instance id."""
    group_instance_id: str | None
    reason: str = ""


class LeftMember(Failure):
    member_id: str
    group_instance_id: str | None


class LeaveGroupResponse(Failure):
    members: tuple[LeftMember, ...] = ()


class LeaveGroupRequest(Request):
    api = Api.LEAVE_GROUP
    response = LeaveGroupResponse
    group_id: str
    members: list[LeavingMember]


# --- offsets -------------------------------------------------------------------------------------------------------------

NO_OFFSET = -1
"""What OffsetFetch tells where nothing was committed."""


class OffsetCommitPart(Message):
    topic: str
    partition: int
    offset: int
    """The next one to be read."""
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    topic_id: str = ""
    """Of which topic, if that is known: another one may have its name by now, and is refused."""


class OffsetCommitPartResult(Failure):
    topic: str
    partition: int


class OffsetCommitResponse(Message):
    parts: list[OffsetCommitPartResult]


class OffsetCommitRequest(Request):
    """As a member, of its generation; or of generation -1 by somebody who is none, while the group has no members."""

    api = Api.OFFSET_COMMIT
    response = OffsetCommitResponse
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    parts: list[OffsetCommitPart]


class OffsetFetchGroup(Message):
    group_id: str
    parts: list[PartitionName] | None
    """None asks for everything that was ever committed."""
    member_id: str | None = None
    member_epoch: int = -1
    """Of a group whose coordinator assigns: who asks, if it is a member. One of an older epoch is told nothing."""


class OffsetFetchPartResult(Failure):
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class OffsetFetchGroupResult(Failure):
    group_id: str
    parts: tuple[OffsetFetchPartResult, ...] = ()


class OffsetFetchResponse(Message):
    groups: list[OffsetFetchGroupResult]


class OffsetFetchRequest(Request):
    api = Api.OFFSET_FETCH
    response = OffsetFetchResponse
    groups: list[OffsetFetchGroup]


class OffsetDeletePartResult(Failure):
    topic: str
    partition: int


class OffsetDeleteResponse(Failure):
    parts: tuple[OffsetDeletePartResult, ...] = ()


class OffsetDeleteRequest(Request):
    """Forget what was committed, of topics that no member subscribes to."""

    api = Api.OFFSET_DELETE
    response = OffsetDeleteResponse
    group_id: str
    parts: list[PartitionName]


# --- looking at groups ---------------------------------------------------------------------------------------------------

CLASSIC, CONSUMER_TYPE = "classic", "consumer"
"""Kafka's names for groups whose members assign, and for those whose coordinator does."""


class DescribedMember(Message):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(Failure):
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
    generation_id: int = -1
    group_type: str = CLASSIC


class DescribeGroupsResponse(Message):
    groups: list[DescribedGroup]


class DescribeGroupsRequest(Request):
    api = Api.DESCRIBE_GROUPS
    response = DescribeGroupsResponse
    groups: list[str]
    classic_only: bool = False
    """Whether groups whose coordinator assigns are not to be known: Kafka's clients ask for those by another request."""


class ListedGroup(Message):
    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


class ListGroupsResponse(Failure):
    groups: tuple[ListedGroup, ...] = ()


class ListGroupsRequest(Request):
    """The groups that this broker coordinates; all brokers together know all."""

    api = Api.LIST_GROUPS
    response = ListGroupsResponse
    states: list[str]
    """None named: in any state."""


class DeletedGroup(Failure):
    group_id: str


class DeleteGroupsResponse(Message):
    groups: list[DeletedGroup]


class DeleteGroupsRequest(Request):
    """Forget groups that have no members, with all that they committed."""

    api = Api.DELETE_GROUPS
    response = DeleteGroupsResponse
    groups: list[str]
