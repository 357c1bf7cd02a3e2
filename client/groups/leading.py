"""What the leader of a generation does for all: it shares the partitions among the members that have joined. Pure."""

import logging
from collections.abc import Mapping

from ottla.client.groups.assignors import ASSIGNORS
from ottla.wire.consumer_protocol import Assignment, Subscription, decode_subscription, encode_assignment
from ottla.wire.errors import InvalidRequest
from ottla.wire.groups import JoinGroupResponse, MemberAssignment

logger = logging.getLogger(__name__)


def subscriptions_of(joined: JoinGroupResponse) -> dict[str, Subscription]:
    """What the members want, by instance id or else by member id. One that says nothing sensible of itself gets nothing."""
    wants: dict[str, Subscription] = {}
    for member in joined.members:
        key = member.group_instance_id or member.member_id
        try:
            wants[key] = decode_subscription(member.metadata)
        except InvalidRequest as error:
            logger.warning("a member of the group cannot be understood member=%s error=%s", key, error)
            wants[key] = Subscription(())
    return wants


def share(joined: JoinGroupResponse, partitions: Mapping[str, int]) -> list[MemberAssignment]:
    """Who gets what, by the protocol that the group has chosen."""
    names = {member.group_instance_id or member.member_id: member.member_id for member in joined.members}
    shared = ASSIGNORS[joined.protocol_name].assign(partitions, subscriptions_of(joined))
    return [MemberAssignment(names[key], encode_assignment(Assignment(tuple(got)))) for key, got in shared.items()]
