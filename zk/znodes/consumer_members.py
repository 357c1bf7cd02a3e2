"""The members of a group whose coordinator assigns, as they stand in the group's znode.

Partitions are many, so they are written short: the topics stand once in the znode, and a member has ``{"0": "0-5,7"}``, by a
topic's place there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.zk.znodes.json_fields import Fields, decimal

TopicIdPartition = tuple[str, int]
"""A partition by its topic's id."""

PARTITIONS_MAX = 1_000_000
"""No topic has more: a znode that says so would only take our memory."""


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """One member."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    pattern: str | None
    assignor: str | None
    epoch: int
    previous_epoch: int
    assigned: frozenset[TopicIdPartition] = field(default_factory=frozenset)
    """What it has, or is about to be told that it has."""
    revoking: frozenset[TopicIdPartition] = field(default_factory=frozenset)
    """What it was told to let go of, and has not confirmed."""
    target: frozenset[TopicIdPartition] = field(default_factory=frozenset)
    """What it is to have."""


def consumers_to_json(members: Iterable[ConsumerRecord], places: Mapping[str, int]) -> list[dict[str, object]]:
    """``places``: of topics, by id."""
    return [_to_json(member, places) for member in members]


def _to_json(member: ConsumerRecord, places: Mapping[str, int]) -> dict[str, object]:
    optional = {
        "instance": member.instance_id, "rack": member.rack_id, "pattern": member.pattern, "assignor": member.assignor,
    }  # fmt: skip
    return {
        "id": member.member_id,
        **{key: value for key, value in optional.items() if value is not None},
        "client_id": member.client_id,
        "host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topics": list(member.topics),
        "epoch": member.epoch,
        "previous_epoch": member.previous_epoch,
        "assigned": _partitions_to_json(member.assigned, places),
        **({"revoking": _partitions_to_json(member.revoking, places)} if member.revoking else {}),
        **({"target": _partitions_to_json(member.target, places)} if member.target != member.assigned else {}),
    }


def size_at_most(member: ConsumerRecord, topics: int) -> int:
    """How many bytes it takes in the znode of a group with so many topics, and perhaps some more. Nothing is written for it."""
    texts = "".join((
        member.member_id, member.instance_id or "", member.rack_id or "", member.client_id, member.client_host,
        member.pattern or "", member.assignor or "", *member.topics,
    ))  # fmt: skip
    target: frozenset[TopicIdPartition] = member.target if member.target is not member.assigned else frozenset()
    size = _MEMBER_SIZE + text_size(texts) + 3 * len(member.topics)
    for some in (member.assigned, member.revoking, target):
        if some:
            size += _NUMBER_SIZE * len(some) + _TOPIC_SIZE * min(len(some), topics)
    return size


_MEMBER_SIZE = 300
"""The keys and numbers of a member,"""
_NUMBER_SIZE = 8
"""a partition's number and what is between it and the next,"""
_TOPIC_SIZE = 14
"""and a topic's place, as a key."""
_ESCAPED_SIZE = 12
"""What JSON may make of one letter."""


def text_size(text: str) -> int:
    """At most. Of what can be printed only quotes and backslashes are escaped, by one letter each."""
    return (2 if text.isascii() and text.isprintable() else _ESCAPED_SIZE) * len(text)


def consumer_from_json(fields: Fields, topic_ids: list[str]) -> ConsumerRecord:
    assigned = _partitions_from_json(fields, "assigned", topic_ids)
    return ConsumerRecord(
        fields.text("id"),
        _optional(fields, "instance"),
        _optional(fields, "rack"),
        fields.text("client_id", ""),
        fields.text("host", ""),
        fields.number("rebalance_timeout_ms"),
        fields.texts("topics", ()),
        _optional(fields, "pattern"),
        _optional(fields, "assignor"),
        fields.number("epoch"),
        fields.number("previous_epoch"),
        assigned,
        _partitions_from_json(fields, "revoking", topic_ids) if "revoking" in fields else frozenset(),
        _partitions_from_json(fields, "target", topic_ids) if "target" in fields else assigned,
    )


def _optional(fields: Fields, key: str) -> str | None:
    return fields.text(key) if key in fields else None


def _partitions_to_json(partitions: Iterable[TopicIdPartition], places: Mapping[str, int]) -> dict[str, str]:
    by_topic: dict[str, list[int]] = {}
    for topic_id, number in partitions:
        by_topic.setdefault(topic_id, []).append(number)
    return {str(places[topic_id]): _to_ranges(sorted(numbers)) for topic_id, numbers in sorted(by_topic.items())}


def _to_ranges(numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, one)) for one in ranges)


def _partitions_from_json(fields: Fields, key: str, topic_ids: list[str]) -> frozenset[TopicIdPartition]:
    found: set[TopicIdPartition] = set()
    for place, ranges in fields.text_map(key).items():
        number = decimal(fields.path, place)
        if not 0 <= number < len(topic_ids):
            fields.refuse(f"{key!r} names topic {number} of {len(topic_ids)}")
        for one in ranges.split(","):
            first, dash, last = one.partition("-")
            low = decimal(fields.path, first)
            high = decimal(fields.path, last) if dash else low
            if not 0 <= low <= high < PARTITIONS_MAX:
                fields.refuse(f"{key!r} has partitions {one[:40]!r}")
            found.update((topic_ids[number], each) for each in range(low, high + 1))
    return frozenset(found)
