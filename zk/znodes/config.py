"""The znodes below /config: what is set otherwise than in the brokers' own files."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from ottla.wire.names import check_topic_name
from ottla.zk.znodes.consumers import name_in_path
from ottla.zk.znodes.json_fields import Fields, encode_json


@dataclass(frozen=True, slots=True)
class BrokerConfigZnode:
    """/config/brokers/<id>: what this broker was told while it runs; /config/brokers/<default>: what all were."""

    config: Mapping[str, str]

    PARENT = "/config/brokers"
    DEFAULT = "<default>"

    @classmethod
    def path(cls, broker: str) -> str:
        """``broker`` is its number, or "" for all of them."""
        return f"{cls.PARENT}/{broker or cls.DEFAULT}"

    @classmethod
    def broker_of(cls, child: str) -> str:
        return "" if child == cls.DEFAULT else child

    def encode(self) -> bytes:
        return encode_json({"version": 1, "config": dict(self.config)})

    @classmethod
    def decode(cls, broker: str, data: bytes) -> "BrokerConfigZnode":
        return cls(Fields(cls.path(broker), data).settings("config"))


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
        return cls(Fields(cls.path(topic), data).settings("config"))


@dataclass(frozen=True, slots=True)
class GroupConfigZnode:
    """/config/groups/<group>: what this group sets otherwise than the brokers' defaults."""

    config: Mapping[str, str]

    PARENT = "/config/groups"

    @classmethod
    def path(cls, group: str) -> str:
        return f"{cls.PARENT}/{name_in_path(group)}"

    @classmethod
    def group_of(cls, child: str) -> str:
        return unquote(child)

    def encode(self) -> bytes:
        return encode_json({"version": 1, "config": dict(self.config)})

    @classmethod
    def decode(cls, group: str, data: bytes) -> "GroupConfigZnode":
        return cls(Fields(cls.path(group), data).settings("config"))
