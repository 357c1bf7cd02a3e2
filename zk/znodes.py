"""One class per znode: its path, how it is written and how it is read. Kafka's layout and JSON, plus our own three.

Ours are /brokers/epochs/<id>, whose *znode version* is the broker epoch (Kafka's czxid cannot be used in a conditional
write), /brokers/data/<id> and /ottla/secret; those of brokers are in broker_znodes.py. Readers ignore keys they do not know
and accept the older payloads that Kafka wrote.
"""

import base64
import binascii
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.wire.names import NO_LEADER, check_topic_name
from ottla.zk.broker_znodes import BrokerDataZnode as BrokerDataZnode
from ottla.zk.broker_znodes import BrokerEpochZnode as BrokerEpochZnode
from ottla.zk.broker_znodes import BrokerState as BrokerState
from ottla.zk.broker_znodes import BrokerZnode as BrokerZnode
from ottla.zk.broker_znodes import DataState as DataState
from ottla.zk.znode_json import Fields, decimal, encode_json
from ottla.zk.znode_json import MalformedZnode as MalformedZnode

PERSISTENT_PATHS = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/epochs",
    "/brokers/data",
    "/brokers/seqid",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/latest_producer_id_block",
    "/cluster",
    "/ottla",
)
"""What a broker makes sure of when it starts; parents are made on the way."""


def uuid_to_text(value: uuid.UUID) -> str:
    """A uuid in Kafka's spelling: 22 characters of base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> uuid.UUID:
    """Undo ``uuid_to_text``; ValueError if it is none."""
    try:
        return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is not a uuid in base64: {error}") from None


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """/brokers/topics/<topic>: which brokers hold each partition, the preferred leader first."""

    partitions: Mapping[int, tuple[int, ...]]
    topic_id: str | None = None
    adding_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    PARENT = "/brokers/topics"

    @classmethod
    def path(cls, topic: str) -> str:
        return f"{cls.PARENT}/{check_topic_name(topic)}"

    @classmethod
    def partitions_path(cls, topic: str) -> str:
        return f"{cls.path(topic)}/partitions"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 3,
                "partitions": _by_text(self.partitions),
                "adding_replicas": _by_text(self.adding_replicas),
                "removing_replicas": _by_text(self.removing_replicas),
                **({"topic_id": self.topic_id} if self.topic_id is not None else {}),
            }
        )

    @classmethod
    def decode(cls, topic: str, data: bytes) -> "TopicZnode":
        fields = Fields(cls.path(topic), data)
        topic_id = fields.text("topic_id") if "topic_id" in fields else None
        if topic_id is not None:
            try:
                uuid_from_text(topic_id)
            except ValueError as error:
                fields.refuse(f"topic_id {error}")
        return cls(
            partitions=fields.numbers_by_number("partitions"),
            topic_id=topic_id,
            adding_replicas=fields.numbers_by_number("adding_replicas", {}),
            removing_replicas=fields.numbers_by_number("removing_replicas", {}),
        )


def _by_text(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in sorted(replicas.items())}


@dataclass(frozen=True, slots=True)
class PartitionStateZnode:
    """/brokers/topics/<topic>/partitions/<n>/state: who leads and who is in sync; its znode version is the partition epoch.

    ``elr`` (eligible leader replicas, KIP-966) and ``lost`` are ours and written only when there are some. ``lost`` names
    members of the ISR that came back without their records: while nobody else has them, nobody leads.
    """

    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    recovering: bool = False
    lost: tuple[int, ...] = ()

    @classmethod
    def partition_path(cls, topic: str, partition: int) -> str:
        return f"{TopicZnode.partitions_path(topic)}/{partition}"

    @classmethod
    def path(cls, topic: str, partition: int) -> str:
        return f"{cls.partition_path(topic, partition)}/state"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "leader": self.leader,
                "leader_epoch": self.leader_epoch,
                "controller_epoch": self.controller_epoch,
                "isr": list(self.isr),
                **({"elr": list(self.elr)} if self.elr else {}),
                **({"lost": list(self.lost)} if self.lost else {}),
                **({"leader_recovery_state": 1} if self.recovering else {}),
            }
        )

    @classmethod
    def decode(cls, topic: str, partition: int, data: bytes) -> "PartitionStateZnode":
        fields = Fields(cls.path(topic, partition), data)
        leader = fields.number("leader")
        if leader < NO_LEADER:
            fields.refuse(f"leader {leader} is no broker id")
        return cls(
            leader=leader,
            leader_epoch=fields.number("leader_epoch"),
            controller_epoch=fields.number("controller_epoch"),
            isr=fields.numbers("isr"),
            elr=fields.numbers("elr", ()),
            recovering=fields.number("leader_recovery_state", 0) == 1,
            lost=fields.numbers("lost", ()),
        )


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """/controller, ephemeral: the broker that is the controller."""

    broker_id: int
    timestamp_ms: int

    PATH = "/controller"

    def encode(self) -> bytes:
        return encode_json({"version": 1, "brokerid": self.broker_id, "timestamp": str(self.timestamp_ms)})

    @classmethod
    def decode(cls, data: bytes) -> "ControllerZnode":
        fields = Fields(cls.PATH, data)
        return cls(fields.number("brokerid"), fields.number_or_text("timestamp", 0))


@dataclass(frozen=True, slots=True)
class ControllerEpochZnode:
    """/controller_epoch: how many controllers there have been; its znode version fences every controller write."""

    epoch: int

    PATH = "/controller_epoch"

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, data: bytes) -> "ControllerEpochZnode":
        return cls(decimal(cls.PATH, data.decode("ascii", "replace")))


@dataclass(frozen=True, slots=True)
class ClusterIdZnode:
    """/cluster/id: the name of this cluster, made up once."""

    cluster_id: str

    PATH = "/cluster/id"

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> "ClusterIdZnode":
        return cls(Fields(cls.PATH, data).text("id"))


@dataclass(frozen=True, slots=True)
class TopicConfigZnode:
    """/config/topics/<topic>: what this topic sets otherwise than the broker's defaults."""

    config: Mapping[str, str]

    PARENT = "/config/topics"

    @classmethod
    def path(cls, topic: str) -> str:
        return f"{cls.PARENT}/{check_topic_name(topic)}"

    def encode(self) -> bytes:
        return encode_json({"version": 1, "config": dict(self.config)})

    @classmethod
    def decode(cls, topic: str, data: bytes) -> "TopicConfigZnode":
        return cls(Fields(cls.path(topic), data).text_map("config"))


class DeleteTopicZnode:
    """/admin/delete_topics/<topic>: a mark without data: the topic is to be deleted."""

    PARENT = "/admin/delete_topics"

    @classmethod
    def path(cls, topic: str) -> str:
        return f"{cls.PARENT}/{check_topic_name(topic)}"


@dataclass(frozen=True, slots=True)
class ProducerIdBlockZnode:
    """/latest_producer_id_block: the producer ids that were given to a broker last, both ends included."""

    broker_id: int
    block_start: int
    block_end: int

    PATH = "/latest_producer_id_block"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.block_start),
                "block_end": str(self.block_end),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "ProducerIdBlockZnode | None":
        """None if no block has been given out yet: the znode is made without data."""
        if not data:
            return None
        fields = Fields(cls.PATH, data)
        block = cls(fields.number("broker"), fields.number_or_text("block_start"), fields.number_or_text("block_end"))
        if block.block_end < block.block_start:
            fields.refuse(f"the block ends at {block.block_end}, before its start {block.block_start}")
        return block


class SecretZnode:
    """/ottla/secret, ours: what brokers prove to know to each other, as hexadecimal text."""

    PATH = "/ottla/secret"

    @classmethod
    def decode(cls, data: bytes) -> str:
        text = data.decode("ascii", "replace")
        if len(text) < 32 or any(c not in "0123456789abcdef" for c in text):
            raise MalformedZnode(cls.PATH, "not at least 32 hexadecimal digits")
        return text
