"""The znodes of topics: who holds and who leads their partitions, and which of them are to be deleted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.wire.names import NO_EPOCH, NO_LEADER, check_topic_name
from ottla.zk.znodes.json_fields import Fields, encode_json
from ottla.zk.znodes.uuids import uuid_from_text


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

    ``elr`` (eligible leader replicas, KIP-966), ``lost`` and ``leader_broker_epoch`` are ours and written only when there is
    something to say. ``lost`` names members of the ISR that came back without their records: while nobody else has them,
    nobody leads. ``leader_broker_epoch`` is the broker epoch of the incarnation that was elected: a later incarnation of the
    same broker does not lead in this leader epoch [I10]. NO_EPOCH: nobody leads, or an older version of Ottla wrote the state.
    """

    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    recovering: bool = False
    lost: tuple[int, ...] = ()
    leader_broker_epoch: int = NO_EPOCH

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
                **({"leader_broker_epoch": self.leader_broker_epoch} if self.leader_broker_epoch != NO_EPOCH else {}),
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
            leader_broker_epoch=fields.number("leader_broker_epoch", NO_EPOCH),
        )


class DeleteTopicZnode:
    """/admin/delete_topics/<topic>: a mark without data: the topic is to be deleted."""

    PARENT = "/admin/delete_topics"

    @classmethod
    def path(cls, topic: str) -> str:
        return f"{cls.PARENT}/{check_topic_name(topic)}"
