"""What brokers ask of each other: the handshake that proves a broker, and the controller's orders."""

from ottla.wire.messages import Api, BrokerEndpoint, Done, Message, Request


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
    controller_epoch: int
    eligible: list[int]


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
    """What every broker must know of the cluster. ``full`` replaces all that was known before, once its last piece is there."""

    api = Api.UPDATE_METADATA
    response = Done
    full: bool
    brokers: list[BrokerEndpoint]
    topics: list[TopicConfig]
    partitions: list[PartitionState]
    deleted: list[str]
    piece: int = 0
    """Which piece of a ``full`` one this is; the first begins anew."""
    more: bool = False
    """Whether another piece follows."""


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
    failed: list[PartitionName] | None = None
    """The broker does not stop, but its disk failed under these: move those away."""


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
