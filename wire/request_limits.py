"""How long a request may be, and how many elements it may have, by api, in both dialects. docs/protocol.md lists the limits.

An *element* is an element of an array, at any depth, or a tagged field: each becomes an object or a step of a loop, however few
bytes it takes. So the limits bound what it costs to read a request, before anything is known of who sent it.
"""

from typing import Final, NamedTuple

from ottla.wire.messages import Api

KIB: Final = 1024
MIB: Final = 1024 * 1024

PARTS_MAX: Final = 200_000
"""Partitions in one request: more than a broker has."""

FIRST_FRAME_MAX: Final = 64 * KIB
"""Of any request, and of all of a connection until it has sent a valid one. (Produce is the exception: net/connection.py.)"""


class LongRequest(Exception):
    """A request has more elements than may be read on the event loop."""


class RequestLimit(NamedTuple):
    frame_max: int
    """Bytes of the frame, without its length."""
    elements_max: int


INLINE_ELEMENTS_MAX: Final = 500
"""A request with more elements is *long*: it is read in a thread, and handled in slices (net/connection.py)."""

INLINE_RECORDS_MAX: Final = 2_000
"""The same for Produce and Fetch, which come often and whose reading is compiled."""

INLINE_RESOURCES_MAX: Final = 20
"""The same for DescribeConfigs: each resource that it names has dozens of settings."""

INLINE_MAX: Final[dict[int, int]] = {
    Api.PRODUCE: INLINE_RECORDS_MAX,
    Api.FETCH: INLINE_RECORDS_MAX,
    Api.DESCRIBE_CONFIGS: INLINE_RESOURCES_MAX,
}
"""All others: ``INLINE_ELEMENTS_MAX``."""

INLINE_HEAD_MAX: Final = 64 * KIB
"""The same for the head of a native request, whose elements are not counted."""

ANY_FRAME: Final = 2**31 - 1
"""As long as ``socket.request.max.bytes`` allows."""

SMALL: Final = RequestLimit(FIRST_FRAME_MAX, 1_000)
"""For what has no lists, or short ones."""

PARTITIONS: Final = RequestLimit(16 * MIB, 400_000)
"""For 200,000 partitions (broker/api/parts.py), each of which may be the only one of its topic."""

NAMES: Final = RequestLimit(MIB, 4_000)
"""For 1,000 names of groups, topics or keys, which is as many as their handlers take, with tagged fields."""

TOPIC_NAMES: Final = RequestLimit(4 * MIB, 40_000)
"""For 10,000 names of topics, with tagged fields."""

ADMIN: Final = RequestLimit(2 * MIB, 100_000)
"""For 1,000 topics or resources with settings, or with the replicas of each of their partitions."""

LIMITS: Final[dict[int, RequestLimit]] = {
    Api.PRODUCE: RequestLimit(ANY_FRAME, 400_000),
    Api.FETCH: PARTITIONS,
    Api.LIST_OFFSETS: PARTITIONS,
    Api.METADATA: TOPIC_NAMES,
    Api.LEADER_AND_ISR: PARTITIONS,
    Api.STOP_REPLICA: PARTITIONS,
    Api.UPDATE_METADATA: PARTITIONS,
    Api.CONTROLLED_SHUTDOWN: PARTITIONS,
    Api.OFFSET_COMMIT: PARTITIONS,
    Api.OFFSET_FETCH: PARTITIONS,
    Api.FIND_COORDINATOR: NAMES,
    # A member may tell 64 KB of itself. One that tells more is refused by the handler, which can say why.
    # With so few elements (it has 50 protocols at most), it is never long.
    Api.JOIN_GROUP: RequestLimit(MIB, 500),
    Api.LEAVE_GROUP: NAMES,
    Api.SYNC_GROUP: RequestLimit(4 * MIB, 20_000),  # the assignments of all members
    Api.DESCRIBE_GROUPS: NAMES,
    Api.CREATE_TOPICS: ADMIN,
    Api.DELETE_TOPICS: NAMES,
    Api.DELETE_RECORDS: PARTITIONS,
    Api.OFFSET_FOR_LEADER_EPOCH: PARTITIONS,
    Api.DESCRIBE_CONFIGS: ADMIN,
    Api.ALTER_CONFIGS: ADMIN,
    Api.ALTER_REPLICA_LOG_DIRS: ADMIN,
    Api.DESCRIBE_LOG_DIRS: PARTITIONS,
    Api.CREATE_PARTITIONS: ADMIN,
    Api.DELETE_GROUPS: NAMES,
    Api.ELECT_LEADERS: PARTITIONS,
    Api.INCREMENTAL_ALTER_CONFIGS: ADMIN,
    Api.ALTER_PARTITION_REASSIGNMENTS: PARTITIONS,
    Api.LIST_PARTITION_REASSIGNMENTS: PARTITIONS,
    Api.OFFSET_DELETE: PARTITIONS,
    Api.DESCRIBE_PRODUCERS: PARTITIONS,
    Api.CONSUMER_GROUP_HEARTBEAT: RequestLimit(4 * MIB, 150_000),  # 100,000 partitions that the member owns
    Api.CONSUMER_GROUP_DESCRIBE: NAMES,
    Api.PEER_METADATA: PARTITIONS,
    Api.UNREACHABLE_LEADERS: PARTITIONS,
    75: TOPIC_NAMES,  # Kafka's DescribeTopicPartitions, which is read as Metadata
}
"""All others are ``SMALL``."""


def limit_of(api: int) -> RequestLimit:
    return LIMITS.get(api, SMALL)
