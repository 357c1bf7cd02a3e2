"""Requests and responses between clients and brokers, as handlers and clients see them, whatever dialect carried them.

What operators ask for stands in admin.py.
"""

from ottla.wire.errors import NO_ERROR
from ottla.wire.messages import CONSUMER, Api, BrokerEndpoint, Failure, Message, PartitionName, Request
from ottla.wire.names import NO_EPOCH, NO_LEADER

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


class PartitionMetadata(Message):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    error_code: int = NO_ERROR
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: not in sync, but they have all that is committed."""
    lost: tuple[int, ...] = ()
    """Replicas that came back without their records, for want of which nobody leads."""


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
    version: tuple[int, int] = (0, 0)
    """How new this is: the epoch of the controller that told it, and its count. Of two answers, the larger is the later one."""
    departed: tuple[BrokerEndpoint, ...] = ()
    """Brokers that left a moment ago: Kafka's clients are told of them a little longer (cluster_view.py), ours need not be."""
    in_doubt: bool = False
    """Whether the broker is cut off from ZooKeeper and from all brokers that are not: others may know more."""


class MetadataRequest(Request):
    api = Api.METADATA
    response = MetadataResponse
    topics: list[str] | None
    """None asks for all topics, an empty list for none."""
    auto_create: bool = False
    """Whether those that do not exist shall be made, where auto.create.topics.enable says so. (Kafka's clients ask for it.)"""


# --- Produce -------------------------------------------------------------------------------------------------------------


class ProducePart(Message):
    topic: str
    partition: int
    size: int
    topic_id: str = ""
    """The topic's id, where the client named the topic by it: another one may have the same name by now. Empty otherwise."""


class ProducePartResult(Failure):
    topic: str
    partition: int
    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    leader: int = NO_LEADER
    """Who leads: where the error is that this broker does not, and in a receipt."""
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    """In a receipt: who was in sync at the acknowledgement,"""
    high_watermark: int = -1
    """and up to where was committed."""
    topic_id: str = ""
    """Of which topic the leader is named, where the error is that this broker does not lead. Never once something was written:
    clients tell by it that nothing was."""


class ProduceResponse(Message):
    parts: list[ProducePartResult]


class ProduceRequest(Request):
    api = Api.PRODUCE
    carries_records = True
    response = ProduceResponse
    acks: int
    timeout_ms: int
    parts: list[ProducePart]
    receipts: bool = False
    """Whether the answer shall tell leader, epoch, in-sync replicas and high watermark as they were at the acknowledgement."""


class TransactionalProduceRequest(ProduceRequest):
    """Records of a transaction, which Kafka's clients may send. Never spoken natively, and refused: there are none here."""

    transactional_id: str = ""


# --- Fetch ---------------------------------------------------------------------------------------------------------------


class FetchPart(Message):
    topic: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    high_watermark: int = -1
    """What a follower knows to be committed."""
    topic_id: str = ""
    """The topic that a follower has: another one may have had the same name."""
    log_start_offset: int = -1
    """Where a follower's log begins, as it stands on its disk."""
    damaged: bool = False
    """Whether the batch at ``offset`` came damaged to a follower: the leader looks at its own copy."""


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
    topic_id: str = ""
    """In an error: of which topic leader and epoch are told. Another one may have the same name by now."""


class FetchResponse(Message):
    carries_records = True
    parts: list[FetchPartResult]
    kept: bool = False
    """To a consumer that wants it: what was named is kept, and the parts are those that there is something to say of."""


class FetchDrop(Message):
    topic: str
    partition: int


class FetchRequest(Request):
    """Followers, and consumers that ``keep``, name what has changed since their last fetch; others name all, each time."""

    api = Api.FETCH
    response = FetchResponse
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    parts: list[FetchPart]
    replica_id: int = CONSUMER
    broker_epoch: int = NO_EPOCH
    since_last: bool = False
    """What was named before over this connection and is not named here still stands, and the answer has only those parts that
    there is something to say of. A part that was answered with records or an error must be named again before it is answered
    again. From a consumer: only if the answer before said that it was ``kept``."""
    dropped: tuple[FetchDrop, ...] = ()
    """With ``since_last``: what is fetched no more."""
    keep: bool = False
    """From a consumer that begins: keep what is named here for the fetches that follow."""


NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1


class NumberedFetchResponse(FetchResponse):
    session_id: int = NO_SESSION
    """What is kept has this number, if it is kept."""


class NumberedFetchRequest(FetchRequest):
    """A fetch of Kafka's clients, who number what is kept for them and the fetches of it (KIP-227). Never spoken natively.

    FIRST_EPOCH and FINAL_EPOCH name all, and the first asks to have it kept; other epochs go on, and name what has changed.
    """

    response = NumberedFetchResponse
    session_id: int = NO_SESSION
    session_epoch: int = FINAL_EPOCH
    by_id: bool = False
    """Topics are named by their ids: by those alone what is kept is found again, and ``dropped`` has them in place of names.
    A part whose id no topic has, as far as is known here, has no topic."""


# --- InitProducerId -----------------------------------------------------------------------------------------------------


class InitProducerIdResponse(Message):
    producer_id: int
    producer_epoch: int


class InitProducerIdRequest(Request):
    """Give me a number by which the cluster knows my batches from everybody else's."""

    api = Api.INIT_PRODUCER_ID
    response = InitProducerIdResponse


# --- DescribeProducers ---------------------------------------------------------------------------------------------------


class DescribedProducer(Message):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    """When the broker that is asked wrote its last batch, by that broker's clock."""


class DescribeProducersPartResult(Failure):
    topic: str
    partition: int
    producers: tuple[DescribedProducer, ...] = ()
    """The one that wrote last comes first."""
    left_out: int = 0
    """How many more there are: those that wrote before."""


class DescribeProducersResponse(Message):
    parts: list[DescribeProducersPartResult]


class DescribeProducersRequest(Request):
    """Which idempotent producers have written to these partitions, as far as this broker remembers?"""

    api = Api.DESCRIBE_PRODUCERS
    response = DescribeProducersResponse
    parts: list[PartitionName]


# --- ListOffsets ---------------------------------------------------------------------------------------------------------


class ListOffsetsPart(Message):
    topic: str
    partition: int
    timestamp_ms: int
    leader_epoch: int = NO_EPOCH
    from_offset: int = -1
    """With LATEST: how old is the first record from this offset on? Its timestamp is in the answer, -1 if there is none."""


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


# --- OffsetForLeaderEpoch ------------------------------------------------------------------------------------------------


class EpochEndPart(Message):
    topic: str
    partition: int
    leader_epoch: int
    """Whose end is asked for."""
    current_leader_epoch: int = NO_EPOCH
    """The epoch in which who asks believes that the broker leads."""


class EpochEndPartResult(Failure):
    topic: str
    partition: int
    leader_epoch: int = NO_EPOCH
    """The largest one that the leader knows and that is not newer than what was asked for,"""
    end_offset: int = -1
    """and where it ends: who has read further has read what was cut since."""


class OffsetForLeaderEpochResponse(Message):
    parts: list[EpochEndPartResult]


class OffsetForLeaderEpochRequest(Request):
    """Where do the records of these epochs end? A reader learns by it that the log was cut behind it."""

    api = Api.OFFSET_FOR_LEADER_EPOCH
    response = OffsetForLeaderEpochResponse
    parts: list[EpochEndPart]
