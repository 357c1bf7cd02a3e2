"""What a group's record says, for people and old tools: who is a member, who owns what, and a sentence for the log. Pure.

Of both kinds of groups: those whose members assign, and those whose coordinator does.
"""

from ottla.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla.wire.errors import InvalidRequest
from ottla.wire.names import TopicPartition
from ottla.zk.groups import legal_partitions
from ottla.zk.znodes.consumer_members import ConsumerRecord
from ottla.zk.znodes.consumers import CONSUMER_KIND, GroupZnode, MemberRecord, MemberZnode

SHOWN_BYTES_MAX = 100_000
"""What is written below ids, of all members, beside the record itself: with more, their topics are left out."""

OWNERS_MAX = 2000
"""With more partitions than that, who owns which is not shown below /consumers/<group>/owners."""


def members_of(record: GroupZnode) -> dict[str, bytes]:
    """What is shown of each member."""
    members = _members(record)
    shown = {member.member_id: _shown(record, member, topics=True) for member in members}
    if sum(map(len, shown.values())) > SHOWN_BYTES_MAX:
        shown = {member.member_id: _shown(record, member, topics=False) for member in members}
    return shown


def _members(record: GroupZnode) -> list[MemberRecord | ConsumerRecord]:
    """Of either kind."""
    return [*record.members, *record.consumers]


def _shown(record: GroupZnode, member: MemberRecord | ConsumerRecord, *, topics: bool) -> bytes:
    subscribed = _topics_of(record, member) if topics else ()
    return MemberZnode.encode(subscribed, member.client_id, member.client_host)


def _topics_of(record: GroupZnode, member: MemberRecord | ConsumerRecord) -> tuple[str, ...]:
    """What a member subscribes to; of one that does so by a pattern, what it is to have of that."""
    if isinstance(member, MemberRecord):
        return subscribed_topics(record, dict(member.protocols))
    names = dict(record.topic_names)
    return tuple({*member.topics, *(names.get(topic_id, "") for topic_id, _ in member.target)} - {""})


def all_subscribed_topics(record: GroupZnode) -> set[str]:
    return {topic for member in _members(record) for topic in _topics_of(record, member)}


def subscribed_topics(record: GroupZnode, protocols: dict[str, bytes]) -> tuple[str, ...]:
    """What a member subscribes to, if that can be read."""
    if record.protocol_type != PROTOCOL_TYPE:
        return ()
    try:
        return decode_subscription(protocols.get(record.protocol, b"")).topics
    except InvalidRequest:
        return ()


def shown_owners(record: GroupZnode) -> dict[TopicPartition, str]:
    """What is shown of who has what."""
    owners = owners_of(record)
    return owners if len(owners) <= OWNERS_MAX else {}


def owners_of(record: GroupZnode) -> dict[TopicPartition, str]:
    """Who has what in this generation, as far as it can be read."""
    if record.kind == CONSUMER_KIND:
        return _held_by(record)
    owners: dict[TopicPartition, str] = {}
    for member in record.members if record.protocol_type == PROTOCOL_TYPE else ():
        try:
            partitions = decode_assignment(member.assignment).partitions
        except InvalidRequest:
            continue
        owners |= dict.fromkeys(legal_partitions(partitions), member.member_id)
    return owners


def _held_by(record: GroupZnode) -> dict[TopicPartition, str]:
    """What is being revoked still is its old owner's."""
    names = dict(record.topic_names)
    return {
        TopicPartition(names[topic_id], number): member.member_id
        for member in record.consumers
        for topic_id, number in member.assigned | member.revoking
        if names.get(topic_id)
    }


def sentence(group_id: str, record: GroupZnode, why: str) -> str:
    """What has become of a group, as a person would say it."""
    if record.consumers:
        held = sum(len(member.assigned) for member in record.consumers)
        wanted = sum(len(member.target) for member in record.consumers)
        return (
            f"Group {group_id} is in epoch {record.generation}: {len(record.consumers)} members have {held} of "
            f"{wanted} partitions by {record.protocol} ({why or 'as before'})."
        )
    if record.assigned:
        return (
            f"Group {group_id} is in generation {record.generation}: "
            f"{len(record.members)} members share its partitions by {record.protocol}."
        )
    if record.members:
        return f"Group {group_id} begins generation {record.generation} with {len(record.members)} members: {why}."
    return f"Group {group_id} has no members any more: {why}."
