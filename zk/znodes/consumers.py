"""The znodes of consumer groups, below /consumers/<group>: Kafka's old layout, and what the group's coordinator knows.

    /consumers/<group>                              the generation and its members; its znode version fences coordinators
    /consumers/<group>/life-<id>                    of this group, and of no later one of that name, whose versions begin anew
    /consumers/<group>/ids/<member>                 a member, for people and old tools
    /consumers/<group>/owners/<topic>/<partition>   the member that has the partition
    /consumers/<group>/offsets/<topic>/<partition>  the next offset to be read, in decimal digits
    /consumers/<group>/commits/<topic>/<partition>  what else was committed with it: topic id, leader epoch, metadata

A group id, or a member's, may have letters that no znode's name can have: those are written as %XX.
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import quote, unquote

from ottla.wire.names import NO_EPOCH, check_topic_name
from ottla.zk.znodes.consumer_members import (
    ConsumerRecord,
    consumer_from_json,
    consumers_to_json,
    size_at_most,
    text_size,
)
from ottla.zk.znodes.json_fields import Fields, encode_json

PARENT = "/consumers"
CLASSIC_KIND, CONSUMER_KIND = "classic", "consumer"
"""Whose members assign, and whose coordinator does."""
_PLAIN = " !$&'()*+,;=:@"
"""What stays as it is besides letters, digits and _.-~"""


def name_in_path(text: str) -> str:
    quoted = quote(text, safe=_PLAIN)
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """One member of a generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupZnode:
    """/consumers/<group>: a generation as it was decided; ``assigned`` once its leader has told who gets what.

    A group of the other kind, whose coordinator assigns, has ``consumers``, and its epoch is the ``generation``.
    """

    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    assigned: bool = False
    members: tuple[MemberRecord, ...] = ()
    coordinator: int = -1
    touched_ms: int = 0
    """When the group was last known to be used."""
    life: str = ""
    """Which group of this name it is: one may be deleted and come again. Empty where it was made by hand."""
    kind: str = CLASSIC_KIND
    consumers: tuple[ConsumerRecord, ...] = ()
    topic_names: tuple[tuple[str, str], ...] = ()
    """The id and name of each topic that the consumers have, or are to have, partitions of."""
    _written: bytes = field(default=b"", init=False, repr=False, compare=False)

    @classmethod
    def path(cls, group: str) -> str:
        return f"{PARENT}/{name_in_path(group)}"

    @classmethod
    def group_of(cls, name: str) -> str:
        return unquote(name)

    def encode(self) -> bytes:
        """Written once: for a group of a thousand members it takes tens of milliseconds."""
        if not self._written:
            object.__setattr__(self, "_written", self._encode())
        return self._written

    def _encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "coordinator": self.coordinator,
                "generation": self.generation,
                "protocol_type": self.protocol_type,
                "protocol": self.protocol,
                "leader": self.leader,
                "assigned": self.assigned,
                "touched": self.touched_ms,
                **({"life": self.life} if self.life else {}),
                "members": [_member_to_json(member) for member in self.members],
                **(self._consumers_to_json() if self.kind == CONSUMER_KIND else {}),
            }
        )

    def size_at_most(self) -> int:
        """How many bytes it takes, and perhaps some more, where that is known without writing it all down."""
        if self.kind != CONSUMER_KIND:
            return len(self.encode())
        topics = sum(60 + text_size(topic_id) + text_size(name) for topic_id, name in self.topic_names)
        return 1000 + topics + sum(size_at_most(one, len(self.topic_names)) for one in self.consumers)

    def is_larger_than(self, limit: int) -> bool:
        return self.size_at_most() > limit and len(self.encode()) > limit

    def _consumers_to_json(self) -> dict[str, object]:
        places = {topic_id: place for place, (topic_id, _) in enumerate(self.topic_names)}
        return {
            "kind": self.kind,
            "topics": [{"id": topic_id, "name": name} for topic_id, name in self.topic_names],
            "consumers": consumers_to_json(self.consumers, places),
        }

    @classmethod
    def coordinator_in(cls, group: str, data: bytes) -> int:
        """Of all that was written only the coordinator."""
        return Fields(cls.path(group), data).number("coordinator", -1) if data else -1

    @classmethod
    def decode(cls, group: str, data: bytes) -> "GroupZnode":
        """An old consumer makes the znode without data: a group of which nothing is known but perhaps its offsets."""
        if not data:
            return cls()
        fields = Fields(cls.path(group), data)
        topics = [(one.text("id"), one.text("name")) for one in fields.objects("topics")] if "topics" in fields else []
        ids = [topic_id for topic_id, _ in topics]
        return cls(
            generation=fields.number("generation", 0),
            protocol_type=fields.text("protocol_type", ""),
            protocol=fields.text("protocol", ""),
            leader=fields.text("leader", ""),
            assigned=fields.flag("assigned", False),
            members=tuple(_member_from_json(member) for member in fields.objects("members"))
            if "members" in fields
            else (),
            coordinator=fields.number("coordinator", -1),
            touched_ms=fields.number("touched", 0),
            life=fields.text("life", ""),
            kind=fields.text("kind", CLASSIC_KIND),
            consumers=tuple(consumer_from_json(one, ids) for one in fields.objects("consumers"))
            if "consumers" in fields
            else (),
            topic_names=tuple(topics),
        )


def _member_to_json(member: MemberRecord) -> dict[str, object]:
    return {
        "id": member.member_id,
        **({"instance": member.instance_id} if member.instance_id is not None else {}),
        "client_id": member.client_id,
        "host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [{"name": name, "metadata": _to_text(metadata)} for name, metadata in member.protocols],
        "assignment": _to_text(member.assignment),
    }


def _member_from_json(fields: Fields) -> MemberRecord:
    return MemberRecord(
        fields.text("id"),
        fields.text("instance") if "instance" in fields else None,
        fields.text("client_id", ""),
        fields.text("host", ""),
        fields.number("session_timeout_ms"),
        fields.number("rebalance_timeout_ms"),
        tuple((one.text("name"), _from_text(one, "metadata")) for one in fields.objects("protocols")),
        _from_text(fields, "assignment"),
    )


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_text(fields: Fields, key: str) -> bytes:
    try:
        return base64.b64decode(fields.text(key), validate=True)
    except (binascii.Error, ValueError):
        fields.refuse(f"{key!r} is not base64")


class LifeZnode:
    """/consumers/<group>/life-<id>: empty, made with the group or when it is first taken over, deleted before all else."""

    @staticmethod
    def path(group: str, life: str) -> str:
        return f"{GroupZnode.path(group)}/life-{name_in_path(life)}"


class MemberZnode:
    """/consumers/<group>/ids/<member>: as old consumers wrote it."""

    @staticmethod
    def parent(group: str) -> str:
        return f"{GroupZnode.path(group)}/ids"

    @classmethod
    def path(cls, group: str, member_id: str) -> str:
        return f"{cls.parent(group)}/{name_in_path(member_id)}"

    @staticmethod
    def encode(topics: tuple[str, ...], client_id: str, host: str) -> bytes:
        subscription = dict.fromkeys(sorted(topics), 1)
        return encode_json(
            {"version": 1, "subscription": subscription, "pattern": "static", "client_id": client_id, "host": host}
        )


class _OfPartition:
    """/consumers/<group>/<folder>/<topic>/<partition>."""

    __slots__ = ()
    FOLDER: ClassVar[str]

    @classmethod
    def parent(cls, group: str) -> str:
        return f"{GroupZnode.path(group)}/{cls.FOLDER}"

    @classmethod
    def topic_path(cls, group: str, topic: str) -> str:
        return f"{cls.parent(group)}/{check_topic_name(topic)}"

    @classmethod
    def path(cls, group: str, topic: str, partition: int) -> str:
        return f"{cls.topic_path(group, topic)}/{partition}"


class OwnerZnode(_OfPartition):
    """/consumers/<group>/owners/<topic>/<partition>: the id of the member that has the partition."""

    FOLDER = "owners"


class OffsetZnode(_OfPartition):
    """/consumers/<group>/offsets/<topic>/<partition>: decimal digits."""

    FOLDER = "offsets"

    @staticmethod
    def encode(offset: int) -> bytes:
        return b"%d" % offset


@dataclass(frozen=True, slots=True)
class CommitZnode(_OfPartition):
    """/consumers/<group>/commits/<topic>/<partition>: made when there is something to say."""

    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    topic_id: str = ""
    """Of which topic the offset is: another one may get the same name."""

    FOLDER = "commits"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "metadata": self.metadata,
                **({"topic_id": self.topic_id} if self.topic_id else {}),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> "CommitZnode":
        fields = Fields(path, data)
        return cls(fields.number("leader_epoch", NO_EPOCH), fields.text("metadata", ""), fields.text("topic_id", ""))
