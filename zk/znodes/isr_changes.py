"""The znodes by which leaders tell the controller that they changed an ISR."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.wire.names import TopicPartition
from ottla.zk.znodes.json_fields import Fields, encode_json


@dataclass(frozen=True, slots=True)
class IsrChangeZnode:
    """/isr_change_notification/isr_change_<number>, short-lived: the partitions whose ISR was changed."""

    partitions: Sequence[TopicPartition]

    PARENT = "/isr_change_notification"
    PREFIX = f"{PARENT}/isr_change_"
    """ZooKeeper appends the number."""

    @classmethod
    def path(cls, name: str) -> str:
        return f"{cls.PARENT}/{name}"

    def encode(self) -> bytes:
        named = [{"topic": where.topic, "partition": where.partition} for where in self.partitions]
        return encode_json({"version": 1, "partitions": named})

    @classmethod
    def decode(cls, name: str, data: bytes) -> "IsrChangeZnode":
        fields = Fields(cls.path(name), data)
        return cls([TopicPartition(one.text("topic"), one.number("partition")) for one in fields.objects("partitions")])
