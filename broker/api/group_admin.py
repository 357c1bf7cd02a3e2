"""Looking after groups: DescribeGroups, ListGroups and DeleteGroups."""

import asyncio
import logging

from ottla.broker.api.later import later, while_asked
from ottla.broker.groups.groups_loop import Groups
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import GroupIdNotFound, InvalidRequest, OttlaError
from ottla.wire.groups import (
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
            return Reply(DescribeGroupsResponse([await self._describe(group) for group in request.groups]))

        return while_asked(describe_all())

    async def _describe(self, group_id: str) -> DescribedGroup:
        try:
            group = (await self._groups.get(group_id, make=False)).group
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

        async def list_all() -> Reply:
            listed = []
            for name in await self._groups.names():
                try:
                    group = (await self._groups.get(name, make=False)).group
                except OttlaError as error:
                    if not request.states and not isinstance(error, GroupIdNotFound):
                        listed.append(ListedGroup(name, "", UNREADABLE))
                    logger.info("group cannot be listed group=%s error=%s", name, error)
                    continue
                if not request.states or str(group.state) in request.states:
                    listed.append(ListedGroup(name, group.protocol_type, str(group.state)))
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


def _check_count(groups: "list[str]") -> None:
    if len(groups) > GROUPS_MAX:
        raise InvalidRequest(f"{len(groups)} groups in one request; at most {GROUPS_MAX}")
