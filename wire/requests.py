"""Requests and responses as handlers and clients see them, whatever dialect carried them.

Record bytes are never inside these objects: a request or response that moves records carries them beside it as
*attachments*, one per part in the same order, and each part says how many bytes are its own (``size``).
Fields are sent in the order they are declared; a new field goes at the end, with a default, so that old peers still
understand (they ignore what they do not know, and what they do not send takes the default).
"""

from enum import IntEnum
from typing import ClassVar

import msgspec

from ottla.wire.errors import NO_ERROR, OttlaError, error_for
from ottla.wire.names import NO_EPOCH, NO_LEADER

CONSUMER = -1
"""The replica id of a fetch that no broker sends."""

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1

LATEST, EARLIEST = -1, -2
"""Timestamps that ListOffsets takes for "the end" and "the beginning"."""


class Api(IntEnum):
    """What can be asked. Kafka's numbers; ours alone from 1000 on."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    ALTER_CONFIGS = 33
    CREATE_PARTITIONS = 37
    ELECT_LEADERS = 43
    ALTER_PARTITION_REASSIGNMENTS = 45
    BROKER_HANDSHAKE = 1000
    WITNESS = 1001


class Message(msgspec.Struct, array_like=True, gc=False):
    """Base of everything here: a fixed list of fields."""

    carries_records: ClassVar[bool] = False
    """Whether the message has ``parts`` whose ``size`` bytes travel as attachments."""


class Request(Message):
    """A question. ``api`` and ``versions`` say which one, and in which versions it is understood."""

    api: ClassVar[Api]
    versions: ClassVar[tuple[int, int]] = (0, 0)
    response: ClassVar[type[Message]]


class Failure(Message):
    """A part of a response that may have failed on its own."""

    error_code: int
    error_message: str

    def raise_if_failed(self, **where: str | int | None) -> None:
        if self.error_code != NO_ERROR:
            raise self.error(**where)

    def error(self, **where: str | int | None) -> OttlaError:
        return error_for(self.error_code, self.error_message, **where)


class Done(Message):
    """The answer of a request that has nothing to tell but that it was done."""


# --- ApiVersions ---------------------------------------------------------------------------------------------------------


class ApiRange(Message):
    api: int
    oldest: int
    newest: int


class ApiVersionsResponse(Message):
    apis: list[ApiRange]
    software: str
    broker_id: int
    cluster_id: str
    nonce: bytes = b""
    """What a broker that wants to prove itself must sign (BrokerHandshake)."""
    broker_epoch: int = NO_EPOCH
    """Which life of the broker answers."""


class ApiVersionsRequest(Request):
    api = Api.API_VERSIONS
    response = ApiVersionsResponse
    software: str


# --- Metadata ------------------------------------------------------------------------------------------------------------


class BrokerEndpoint(Message):
    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(Message):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    error_code: int = NO_ERROR


class TopicMetadata(Message):
    name: str
    topic_id: str
    partitions: list[PartitionMetadata]
    config: dict[str, str]
    error_code: int = NO_ERROR
    error_message: str = ""


class MetadataResponse(Message):
    cluster_id: str
    controller: int
    brokers: list[BrokerEndpoint]
    topics: list[TopicMetadata]


class MetadataRequest(Request):
    api = Api.METADATA
    response = MetadataResponse
    topics: list[str] | None
    """None asks for all topics, an empty list for none."""


# --- Produce -------------------------------------------------------------------------------------------------------------


class ProducePart(Message):
    topic: str
    partition: int
    size: int


class ProducePartResult(Failure):
    topic: str
    partition: int
    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    leader: int = NO_LEADER
    """Who leads, where the error is that this broker does not."""
    leader_epoch: int = NO_EPOCH


class ProduceResponse(Message):
    parts: list[ProducePartResult]


class ProduceRequest(Request):
    api = Api.PRODUCE
    carries_records = True
    response = ProduceResponse
    acks: int
    timeout_ms: int
    parts: list[ProducePart]


# --- Fetch ---------------------------------------------------------------------------------------------------------------


class FetchPart(Message):
    topic: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH


class FetchPartResult(Failure):
    topic: str
    partition: int
    size: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    diverging_epoch: int = NO_EPOCH
    """Where a follower's log is not the leader's: the largest epoch at the leader that is not newer than the follower's,"""
    diverging_end: int = -1
    """and the offset where that epoch ends."""


class FetchResponse(Message):
    carries_records = True
    parts: list[FetchPartResult]


class FetchRequest(Request):
    api = Api.FETCH
    response = FetchResponse
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    parts: list[FetchPart]
    replica_id: int = CONSUMER
    broker_epoch: int = NO_EPOCH


# --- InitProducerId -----------------------------------------------------------------------------------------------------


class InitProducerIdResponse(Message):
    producer_id: int
    producer_epoch: int


class InitProducerIdRequest(Request):
    """Give me a number by which the cluster knows my batches from everybody else's."""

    api = Api.INIT_PRODUCER_ID
    response = InitProducerIdResponse


# --- ListOffsets ---------------------------------------------------------------------------------------------------------


class ListOffsetsPart(Message):
    topic: str
    partition: int
    timestamp_ms: int
    leader_epoch: int = NO_EPOCH


class ListOffsetsPartResult(Failure):
    topic: str
    partition: int
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


class ListOffsetsResponse(Message):
    parts: list[ListOffsetsPartResult]


class ListOffsetsRequest(Request):
    api = Api.LIST_OFFSETS
    response = ListOffsetsResponse
    parts: list[ListOffsetsPart]


# --- CreateTopics, DeleteTopics --------------------------------------------------------------------------------------------


class NewTopic(Message):
    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]
    assignment: list[list[int]] | None = None


class TopicResult(Failure):
    name: str
    topic_id: str = ""


class CreateTopicsResponse(Message):
    topics: list[TopicResult]


class CreateTopicsRequest(Request):
    api = Api.CREATE_TOPICS
    response = CreateTopicsResponse
    topics: list[NewTopic]
    timeout_ms: int
    validate_only: bool = False


class DeleteTopicsResponse(Message):
    topics: list[TopicResult]


class DeleteTopicsRequest(Request):
    api = Api.DELETE_TOPICS
    response = DeleteTopicsResponse
    names: list[str]
    timeout_ms: int


class CreatePartitionsRequest(Request):
    """Let a topic have more partitions."""

    api = Api.CREATE_PARTITIONS
    response = Done
    name: str
    count: int
    timeout_ms: int


class AlterConfigsRequest(Request):
    """Replace a topic's settings."""

    api = Api.ALTER_CONFIGS
    response = Done
    name: str
    config: dict[str, str]
    timeout_ms: int


class ReassignRequest(Request):
    """Move a partition to other brokers."""

    api = Api.ALTER_PARTITION_REASSIGNMENTS
    response = Done
    topic: str
    partition: int
    replicas: list[int]
    timeout_ms: int


# --- among brokers: handshake and control --------------------------------------------------------------------------------


class BrokerHandshakeRequest(Request):
    """A broker proves itself: HMAC over the nonce that ApiVersions gave this connection, by the cluster's secret."""

    api = Api.BROKER_HANDSHAKE
    response = Done
    broker_id: int
    broker_epoch: int
    proof: bytes


class WitnessResponse(Message):
    reachable: bool


class WitnessRequest(Request):
    """The controller cannot reach a broker: can you?"""

    api = Api.WITNESS
    response = WitnessResponse
    broker_id: int


class PartitionState(Message):
    """What the controller decided about one partition."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    version: int
    """Of the state's znode: which of two decisions is the later one."""
    controller_epoch: int = 0
    eligible: list[int] = []  # msgspec copies defaults


class TopicConfig(Message):
    topic: str
    topic_id: str
    config: dict[str, str]


class ControlRequest(Request):
    """Base of what only a controller sends, fenced by its epoch and by the epoch of the broker that it means."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class LeaderAndIsrRequest(ControlRequest):
    """Lead or follow these partitions."""

    api = Api.LEADER_AND_ISR
    response = Done
    partitions: list[PartitionState]
    topics: list[TopicConfig]


class UpdateMetadataRequest(ControlRequest):
    """What every broker must know of the cluster. ``full`` replaces all that was known before."""

    api = Api.UPDATE_METADATA
    response = Done
    full: bool
    brokers: list[BrokerEndpoint]
    topics: list[TopicConfig]
    partitions: list[PartitionState]
    deleted: list[str]


class PartitionName(Message):
    topic: str
    partition: int


class ControlledShutdownResponse(Message):
    still_led: list[PartitionName]


class ControlledShutdownRequest(Request):
    """A broker is about to stop: move leadership away from it first."""

    api = Api.CONTROLLED_SHUTDOWN
    response = ControlledShutdownResponse
    broker_id: int
    broker_epoch: int


class ElectLeadersRequest(Request):
    """Give leadership back to preferred leaders; of all partitions if none are named."""

    api = Api.ELECT_LEADERS
    response = Done
    partitions: list[PartitionName] | None
    timeout_ms: int


class StopReplicaPart(Message):
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    delete: bool


class StopReplicaRequest(ControlRequest):
    """Stop leading or following these partitions, and perhaps delete them."""

    api = Api.STOP_REPLICA
    response = Done
    parts: list[StopReplicaPart]


REQUESTS: dict[int, type[Request]] = {
    cls.api: cls
    for cls in (
        ApiVersionsRequest,
        MetadataRequest,
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        InitProducerIdRequest,
        CreatePartitionsRequest,
        AlterConfigsRequest,
        ReassignRequest,
        BrokerHandshakeRequest,
        WitnessRequest,
        ControlledShutdownRequest,
        ElectLeadersRequest,
        LeaderAndIsrRequest,
        UpdateMetadataRequest,
        StopReplicaRequest,
    )
}
"""Every request that a broker understands, by api."""

API_RANGES = [
    ApiRange(api=int(api), oldest=cls.versions[0], newest=cls.versions[1]) for api, cls in sorted(REQUESTS.items())
]
