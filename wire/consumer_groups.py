"""Groups whose coordinator assigns (Kafka's KIP-848): one heartbeat is all that a member says. Fields are Kafka's.

Topics are named by their ids, for another one may get a name meanwhile.
"""

from ottla.wire.messages import Api, Failure, Message, Request

JOIN_EPOCH = 0
"""The member epoch of whoever wants in,"""
LEAVE_EPOCH = -1
"""leaves,"""
LEAVE_STATIC_EPOCH = -2
"""or leaves and will be back under the same instance id."""

UNCHANGED_MS = -1


class TopicPartitions(Message):
    topic_id: str
    partitions: tuple[int, ...]


class ConsumerGroupHeartbeatResponse(Failure):
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicPartitions, ...] | None = None
    """What the member is to have; None where nothing has changed."""


class ConsumerGroupHeartbeatRequest(Request):
    """I am still here, or: let me in, or out. What is None has not changed since the heartbeat before."""

    api = Api.CONSUMER_GROUP_HEARTBEAT
    response = ConsumerGroupHeartbeatResponse
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: tuple[TopicPartitions, ...] | None = None
    """All that the member has: what is missing it has let go."""
    brings_member_id: bool = True
    """Whether members make their own ids; the first version of Kafka's lets the coordinator make them."""


# --- looking at groups ---------------------------------------------------------------------------------------------------


class AssignedTopic(Message):
    topic_id: str
    topic: str
    partitions: tuple[int, ...]


class DescribedConsumer(Message):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    pattern: str | None
    assignment: tuple[AssignedTopic, ...]
    """What it has,"""
    target: tuple[AssignedTopic, ...]
    """and what it will have, once others have let go of it."""


class DescribedConsumerGroup(Failure):
    group_id: str
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class ConsumerGroupDescribeResponse(Message):
    groups: list[DescribedConsumerGroup]


class ConsumerGroupDescribeRequest(Request):
    """Who is in these groups, and who has what? Of groups whose members assign, DescribeGroups tells."""

    api = Api.CONSUMER_GROUP_DESCRIBE
    response = ConsumerGroupDescribeResponse
    groups: list[str]
