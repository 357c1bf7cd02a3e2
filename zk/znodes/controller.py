"""The znodes of the controller: who it is, and how many there have been."""

from dataclasses import dataclass

from ottla.zk.znodes.json_fields import Fields, decimal, encode_json


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
