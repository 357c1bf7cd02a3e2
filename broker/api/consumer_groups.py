"""Groups whose coordinator assigns: ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

import asyncio
import time

from ottla.broker.api.group_work import GroupWork
from ottla.broker.api.later import while_asked
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.consumers import Consumer, Partitions, by_topic
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.membership import Client
from ottla.broker.groups.new_groups import NewGroups
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.consumer_groups import (
    JOIN_EPOCH,
    AssignedTopic,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import GroupIdNotFound, InvalidRequest, OttlaError, UnknownMemberId

GROUPS_MAX = 1000
OWNED_MAX = 100_000
"""Partitions that a member may say to own: no group has so many, and they are gone through on the event loop."""


class ConsumerGroupHandlers:
    """Whatever is asked of a group that is at hand is decided at once; one that is not is read first."""

    def __init__(self, groups: Groups, new_groups: NewGroups) -> None:
        self._groups = groups
        self._work = GroupWork(groups, new_groups)

    def heartbeat(self, incoming: IncomingRequest, connection: Peer) -> Later:
        request = incoming.message
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        self._check_size(request)
        client = Client(incoming.client_id, connection.ip)
        joins = request.member_epoch == JOIN_EPOCH
        wait = Later()

        def heartbeat(one: Coordinated) -> None:
            if joins and wait.abandoned:
                return  # it has hung up while the group was read: it is let in when it asks again
            if not joins and not one.group.members:  # of either kind; as a classic one it would be the end of a client
                raise UnknownMemberId(f"group {request.group_id!r} has no members: join it again")
            before = one.group
            group = self._groups.consumer(one) if joins else _consumer(one)
            effects = group.heartbeat(wait, request, client, time.monotonic())
            if joins and not group.members:
                one.group = before  # who was not let in has not changed what kind of group it is
            self._groups.apply(one, effects)

        if joins:
            return self._work.on(request.group_id, wait, heartbeat, maker=connection)
        gone = UnknownMemberId(f"group {request.group_id!r} does not exist: join it again")
        return self._work.on(request.group_id, wait, heartbeat, if_gone=Reply(None, error=gone))

    def _check_size(self, request: ConsumerGroupHeartbeatRequest) -> None:
        limit = self._groups.limits.metadata_max_bytes
        names = [request.member_id, request.instance_id or "", request.rack_id or "", request.pattern or ""]
        size = sum(map(len, names)) + sum(map(len, request.topics or ()))
        if size > limit:
            raise InvalidRequest(f"a member that tells {size} bytes of itself; allowed are {limit}")
        owned = sum(len(topic.partitions) for topic in request.owned or ())
        if owned > OWNED_MAX:
            raise InvalidRequest(f"a member that owns {owned} partitions; allowed are {OWNED_MAX}")

    def describe(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ConsumerGroupDescribeRequest)
        if len(request.groups) > GROUPS_MAX:
            raise InvalidRequest(f"{len(request.groups)} groups in one request; at most {GROUPS_MAX}")

        async def describe_all() -> Reply:
            return Reply(ConsumerGroupDescribeResponse([await self._describe(group) for group in request.groups]))

        return while_asked(describe_all())

    async def _describe(self, group_id: str) -> DescribedConsumerGroup:
        try:
            group = _consumer(await self._groups.get(group_id, make=False))
        except OttlaError as error:
            return DescribedConsumerGroup(error.code, str(error), group_id)
        members = tuple(_described(group, member) for member in group.members)
        return DescribedConsumerGroup(
            0, "", group_id, str(group.state), group.epoch, group.epoch, group.assignor, members
        )


def _consumer(one: Coordinated) -> ConsumerGroup:
    if not isinstance(one.group, ConsumerGroup):
        raise GroupIdNotFound(f"group {one.group.group_id!r} is a classic one, whose members assign")
    return one.group


def _described(group: ConsumerGroup, member: Consumer) -> DescribedConsumer:
    return DescribedConsumer(
        member.member_id, member.instance_id, member.rack_id, member.epoch, member.client_id, member.client_host,
        member.topics, member.pattern, _named(group, member.assigned), _named(group, member.target),
    )  # fmt: skip


def _named(group: ConsumerGroup, partitions: Partitions) -> tuple[AssignedTopic, ...]:
    return tuple(
        AssignedTopic(topic.topic_id, group.topic_name(topic.topic_id), topic.partitions)
        for topic in by_topic(partitions)
    )
