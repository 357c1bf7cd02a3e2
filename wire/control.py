"""What brokers ask of each other: the handshake that proves a broker, and the controller's orders."""

from ottla.wire.messages import Api, BrokerEndpoint, Done, Message, PartitionName, Request


class BrokerHandshakeResponse(Message):
    """The other side's proof, of its own kind, over the same nonces and brokers."""

    proof: bytes


class BrokerHandshakeRequest(Request):
    """A broker proves itself, and asks the other side to: HMACs by the cluster's secret over both nonces, both brokers and
    their lives, and the direction. ApiVersions gave the nonce of the other side; ``nonce`` is this side's."""

    api = Api.BROKER_HANDSHAKE
    response = BrokerHandshakeResponse
    broker_id: int
    broker_epoch: int
    to_broker: int
    to_epoch: int
    nonce: bytes
    proof: bytes


class WitnessResponse(Message):
    reachable: bool


class WitnessRequest(Request):
    """The controller cannot reach a broker: can you?"""

    api = Api.WITNESS
    response = WitnessResponse
    broker_id: int


class UnreachableLeadersRequest(Request):
    """A follower tells the controller which brokers it cannot fetch from, though it is to follow them."""

    api = Api.UNREACHABLE_LEADERS
    response = Done
    broker_id: int
    broker_epoch: int
    leaders: list[int]


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
    elr: list[int]
    """Eligible leader replicas: not in sync, but they have all that is committed."""
    lost: tuple[int, ...] = ()
    """Replicas that came back without their records, for want of which nobody leads."""


class TopicConfig(Message):
    topic: str
    topic_id: str
    config: dict[str, str]


class SettingsTold(Message):
    """What a broker was told while it runs, or all of them."""

    broker: str
    """Its number, or "" for all brokers."""
    config: dict[str, str]


class GroupSettings(Message):
    """What a group sets otherwise than the brokers' defaults."""

    group: str
    config: dict[str, str]


class ControlRequest(Request):
    """Base of what only a controller sends, fenced by its epoch and by the epoch of the broker that it means.

    Each ends with ``cause``, the id of the controller's event that led to it: for the log, not for any decision.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class LeaderAndIsrResponse(Message):
    """``failed`` names the partitions that the broker can neither lead nor follow: its disk does not let it."""

    failed: list[PartitionName]


class LeaderAndIsrRequest(ControlRequest):
    """Lead or follow these partitions."""

    api = Api.LEADER_AND_ISR
    response = LeaderAndIsrResponse
    partitions: list[PartitionState]
    topics: list[TopicConfig]
    cause: str = ""


class UpdateMetadataRequest(ControlRequest):
    """What every broker must know of the cluster. ``full`` replaces all that was known before, once its last piece is there."""

    api = Api.UPDATE_METADATA
    response = Done
    full: bool
    brokers: list[BrokerEndpoint]
    topics: list[TopicConfig]
    partitions: list[PartitionState]
    deleted: list[str]
    version: int = 0
    """Counts the changes that this controller told of: with its epoch, the version of what the broker knows then."""
    piece: int = 0
    """Which piece of a ``full`` one this is; the first begins anew."""
    more: bool = False
    """Whether another piece follows: until the last one has come, the broker knows no later version than before."""
    cause: str = ""
    settings: tuple[SettingsTold, ...] = ()
    """All that brokers were told while they run."""
    groups: tuple[GroupSettings, ...] | None = None
    """The settings of all groups that have some. None: they are as they were."""


class PeerMetadataResponse(Message):
    """One piece of what a broker knows of the cluster; no ``update`` if that is not newer than what was named."""

    has_zookeeper: bool
    """Whether its ZooKeeper session surely lives, so that the controller tells it what changes."""
    update: UpdateMetadataRequest | None = None


class PeerMetadataRequest(Request):
    """A broker that is cut off from ZooKeeper, whom no controller tells anything, asks another one what it knows."""

    api = Api.PEER_METADATA
    response = PeerMetadataResponse
    version: tuple[int, int]
    """The version of what the asking broker knows."""
    piece: int = 0


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
    damaged: list[PartitionName] | None = None
    """Its copies of these have a damaged batch: they must not count where another replica in sync can lead. ``failed`` is given
    with it, perhaps empty: a controller of an earlier version does not know this field."""


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
    cause: str = ""


Order = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
"""What a controller tells a broker to do."""
