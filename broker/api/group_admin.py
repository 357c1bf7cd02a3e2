"""Looking after groups: DescribeGroups, ListGroups and DeleteGroups."""

import asyncio
import logging

from ottla.broker.api.later import later, while_asked
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.kinds import AnyGroup
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import GroupIdNotFound, InvalidRequest, OttlaError
from ottla.wire.groups import (
    CONSUMER_TYPE,
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

GROUPS_MAX = 1000
UNREADABLE = "Unknown"
"""Kafka's name for the state of a group of which nothing can be told."""


class GroupAdminHandlers:
    """Each group by itself: what cannot be told of one does not keep the others."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def describe(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DescribeGroupsRequest)
        _check_count(request.groups)

        async def describe_all() -> Reply:
            described = [await self._describe(group, request.classic_only) for group in request.groups]
            return Reply(DescribeGroupsResponse(described))

        return while_asked(describe_all())

    async def _describe(self, group_id: str, classic_only: bool) -> DescribedGroup:
        try:
            group = (await self._groups.get(group_id, make=False)).group
            if isinstance(group, ConsumerGroup):
                if classic_only:
                    raise GroupIdNotFound(f"group {group_id!r} is not a classic one: its coordinator assigns")
                return _described(group)
        except OttlaError as error:
            return DescribedGroup(error.code, str(error), group_id)
        members = tuple(
            DescribedMember(
                member.member_id, member.instance_id, member.client_id, member.client_host,
                member.metadata_of(group.protocol), member.assignment,
            )
            for member in group.members
        )  # fmt: skip
        return DescribedGroup(
            0, "", group_id, str(group.state), group.protocol_type, group.protocol, members, group.generation
        )

    def list(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ListGroupsRequest)

        wanted = {state.lower() for state in request.states}

        async def list_all() -> Reply:
            listed = []
            for name in await self._groups.names():
                try:
                    group = (await self._groups.get(name, make=False)).group
                except OttlaError as error:
                    if not wanted and not isinstance(error, GroupIdNotFound):
                        listed.append(ListedGroup(name, "", UNREADABLE))
                    logger.info("group cannot be listed group=%s error=%s", name, error)
                    continue
                if not wanted or str(group.state).lower() in wanted:
                    listed.append(_listed(group))
            return Reply(ListGroupsResponse(0, "", tuple(listed)))

        return while_asked(list_all())

    def delete(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DeleteGroupsRequest)
        _check_count(request.groups)

        async def delete_all() -> Reply:
            return Reply(DeleteGroupsResponse([await self._delete(group) for group in request.groups]))

        return later(delete_all())

    async def _delete(self, group_id: str) -> DeletedGroup:
        try:
            await self._groups.delete(group_id)
        except OttlaError as error:
            return DeletedGroup(error.code, str(error), group_id)
        return DeletedGroup(0, "", group_id)


def _listed(group: AnyGroup) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, PROTOCOL_TYPE, str(group.state), CONSUMER_TYPE)
    return ListedGroup(group.group_id, group.protocol_type, str(group.state))


def _described(group: ConsumerGroup) -> DescribedGroup:
    """As if its members had assigned: what they want and have, in the bytes of that protocol."""
    members = tuple(
        DescribedMember(
            member.member_id, member.instance_id, member.client_id, member.client_host,
            encode_subscription(Subscription(member.topics)),
            encode_assignment(Assignment(tuple(
                TopicPartition(group.topic_name(topic_id), number) for topic_id, number in sorted(member.assigned)
            ))),
        )
        for member in group.members
    )  # fmt: skip
    return DescribedGroup(
        0, "", group.group_id, str(group.state), PROTOCOL_TYPE, group.assignor, members, group.epoch, CONSUMER_TYPE
    )


def _check_count(groups: "list[str]") -> None:
    if len(groups) > GROUPS_MAX:
        raise InvalidRequest(f"{len(groups)} groups in one request; at most {GROUPS_MAX}")
