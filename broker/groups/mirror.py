"""What a group's record says, for people and old tools: who is a member, who owns what, and a sentence for the log. Pure."""

from ottla.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla.wire.errors import InvalidRequest
from ottla.wire.names import TopicPartition
from ottla.zk.groups import legal_partitions
from ottla.zk.znodes.consumers import GroupZnode, MemberRecord, MemberZnode

SHOWN_BYTES_MAX = 100_000
"""What is written below ids, of all members, beside the record itself: with more, their topics are left out."""


def members_of(record: GroupZnode) -> dict[str, bytes]:
    """What is shown of each member."""
    shown = {member.member_id: _shown(record, member, topics=True) for member in record.members}
    if sum(map(len, shown.values())) > SHOWN_BYTES_MAX:
        shown = {member.member_id: _shown(record, member, topics=False) for member in record.members}
    return shown


def _shown(record: GroupZnode, member: MemberRecord, *, topics: bool) -> bytes:
    subscribed = subscribed_topics(record, dict(member.protocols)) if topics else ()
    return MemberZnode.encode(subscribed, member.client_id, member.client_host)


def subscribed_topics(record: GroupZnode, protocols: dict[str, bytes]) -> tuple[str, ...]:
    """What a member subscribes to, if that can be read."""
    if record.protocol_type != PROTOCOL_TYPE:
        return ()
    try:
        return decode_subscription(protocols.get(record.protocol, b"")).topics
    except InvalidRequest:
        return ()


def owners_of(record: GroupZnode) -> dict[TopicPartition, str]:
    """Who has what in this generation, as far as it can be read."""
    owners: dict[TopicPartition, str] = {}
    for member in record.members if record.protocol_type == PROTOCOL_TYPE else ():
        try:
            partitions = decode_assignment(member.assignment).partitions
        except InvalidRequest:
            continue
        owners |= dict.fromkeys(legal_partitions(partitions), member.member_id)
    return owners


def sentence(group_id: str, record: GroupZnode, why: str) -> str:
    """What has become of a group, as a person would say it."""
    if record.assigned:
        return (
            f"Group {group_id} is in generation {record.generation}: "
            f"{len(record.members)} members share its partitions by {record.protocol}."
        )
    if record.members:
        return f"Group {group_id} begins generation {record.generation} with {len(record.members)} members: {why}."
    return f"Group {group_id} has no members any more: {why}."
