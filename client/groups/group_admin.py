"""What an operator asks of groups: which there are, who is in them, how far they are; and to move or forget their offsets."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.groups.commits import Commits, OffsetAndMetadata
from ottla.client.groups.coordinator import GroupCoordinator
from ottla.client.groups.descriptions import GroupDescription, PartitionLag, describe
from ottla.client.offsets import age_s, list_offsets
from ottla.wire.errors import OttlaError, UnknownTopicOrPartition
from ottla.wire.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.wire.messages import EARLIEST, LATEST, Failure, Message, PartitionName, Request
from ottla.wire.names import TopicPartition

M = TypeVar("M", bound=Message)

ATTEMPT_S = 10.0


class _Nobody:
    """Whoever commits for a group without being in it."""

    member_id = ""
    generation = -1
    instance_id: str | None = None


class GroupAdmin:
    """All groups of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_all(self, states: Iterable[str], timeout_s: float) -> dict[str, str]:
        """All groups with their states; every broker knows those that it coordinates."""

        async def attempt() -> dict[str, str]:
            await self._cluster.refresh()
            answers = await asyncio.gather(*(self._list_at(broker, list(states)) for broker in self._cluster.brokers))
            return {group.group_id: group.state for answer in answers for group in answer.groups}

        return dict(sorted((await self._cluster.retry(attempt, timeout_s, "groups were not listed")).items()))

    async def _list_at(self, broker: int, states: list[str]) -> ListGroupsResponse:
        channel = await self._cluster.channel(broker)
        answer = await channel.ask(ListGroupsRequest(states), ListGroupsResponse, ATTEMPT_S)
        answer.raise_if_failed()
        return answer

    async def describe(self, group_id: str, timeout_s: float) -> GroupDescription:
        answer = await self._ask(group_id, DescribeGroupsRequest([group_id]), DescribeGroupsResponse, timeout_s)
        return describe(answer.groups[0])

    async def offsets(self, group_id: str, timeout_s: float) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group has committed."""
        request = OffsetFetchRequest([OffsetFetchGroup(group_id, None)])
        answer = await self._ask(group_id, request, OffsetFetchResponse, timeout_s)
        return {
            TopicPartition(part.topic, part.partition): OffsetAndMetadata(part.offset, part.metadata, part.leader_epoch)
            for part in answer.groups[0].parts
            if part.offset >= 0  # other clients commit negative ones, which tell no place
        }

    async def lag(self, group_id: str, timeout_s: float) -> dict[TopicPartition, PartitionLag]:
        """Of all partitions that a group has committed anything of, or has a member for."""
        group, offsets = await asyncio.gather(self.describe(group_id, timeout_s), self.offsets(group_id, timeout_s))
        owners = {where: member for member in group.members for where in member.partitions}
        there = await self._existing(sorted({*offsets, *owners}), timeout_s)
        found = await list_offsets(self._cluster, dict.fromkeys(there, EARLIEST), timeout_s)
        begins = {where: offset for where, (offset, _) in found.items()}
        places = {where: max(offsets[where].offset if where in offsets else 0, begins[where]) for where in there}
        ends = await list_offsets(self._cluster, dict.fromkeys(there, LATEST), timeout_s, places)
        return {
            where: PartitionLag(
                offsets[where].offset if where in offsets else None,
                begins[where],
                ends[where][0],
                owners.get(where),
                age_s(ends[where][1]),
            )
            for where in there
        }

    async def _existing(self, partitions: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        """Those that exist: a group may have committed something of a topic that is gone."""
        there = []
        for topic in dict.fromkeys(where.topic for where in partitions):
            try:
                count = len((await self._cluster.topic(topic, min(timeout_s, 1.0))).partitions)
            except UnknownTopicOrPartition:
                continue
            there += [where for where in partitions if where.topic == topic and where.partition < count]
        return there

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Let a group without members go on from there."""
        commits = Commits(GroupCoordinator(self._cluster, group_id), group_id, _Nobody())
        await commits.commit({where: OffsetAndMetadata(offset) for where, offset in offsets.items()}, {}, timeout_s)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition], timeout_s: float) -> None:
        parts = [PartitionName(where.topic, where.partition) for where in partitions]
        answer = await self._ask(group_id, OffsetDeleteRequest(group_id, parts), OffsetDeleteResponse, timeout_s)
        for part in answer.parts:
            part.raise_if_failed(topic=part.topic, partition=part.partition)

    async def delete(self, group_id: str, timeout_s: float) -> None:
        """Forget a group that has no members, and all that it committed."""
        await self._ask(group_id, DeleteGroupsRequest([group_id]), DeleteGroupsResponse, timeout_s)

    async def _ask(self, group_id: str, request: Request, kind: type[M], timeout_s: float) -> M:
        """Ask the group's coordinator; the error of the one group that is asked about is raised."""
        coordinator = GroupCoordinator(self._cluster, group_id)

        async def attempt() -> M:
            answer = await coordinator.ask(request, kind, ATTEMPT_S)
            one = answer.groups[0] if hasattr(answer, "groups") else answer
            try:
                if isinstance(one, Failure):
                    one.raise_if_failed()
            except OttlaError as error:
                if error.retriable:
                    coordinator.forget()
                raise
            return answer

        return await self._cluster.retry(attempt, timeout_s, f"group {group_id!r} could not be asked about")
