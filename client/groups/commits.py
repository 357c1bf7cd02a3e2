"""What a group has read: committing it, and asking what was committed."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from ottla.client.groups.coordinator import MOVED, GroupCoordinator
from ottla.wire.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InvalidRequest,
    OttlaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.wire.groups import (
    OffsetCommitPart,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.wire.messages import PartitionName
from ottla.wire.names import NO_EPOCH, TopicPartition

ATTEMPT_S = 5.0

OUTDATED = (IllegalGeneration, UnknownMemberId, FencedInstanceId, RebalanceInProgress)
"""The group has gone on without this member, or is about to."""


class OffsetAndMetadata(NamedTuple):
    """What is committed of a partition: the next offset to read, and a text beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class Membership(Protocol):
    """As whom is committed."""

    member_id: str
    generation: int
    instance_id: str | None


class Commits:
    """Of one group."""

    def __init__(self, coordinator: GroupCoordinator, group_id: str, member: Membership) -> None:
        self._coordinator = coordinator
        self._group_id = group_id
        self._member = member

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], topic_ids: Mapping[str, str], timeout_s: float
    ) -> None:
        """Commit; raises what was refused. IllegalGeneration and its like: these partitions may be another member's by now.

        ``topic_ids``: of which topics these are offsets, as far as known: others may have their names by now.
        """
        if not offsets:
            return
        for where, one in offsets.items():
            if one.offset < 0:
                raise InvalidRequest(f"offset {one.offset} of {where} cannot be committed", hint="an offset from 0 on")
        parts = [
            OffsetCommitPart(*where, one.offset, one.leader_epoch, one.metadata, topic_ids.get(where.topic, ""))
            for where, one in offsets.items()
        ]

        # Invariant: however often it is tried, it is a commit of this generation. In a later one these partitions may have been
        # another member's, which has come further.
        member = self._member
        request = OffsetCommitRequest(self._group_id, member.generation, member.member_id, member.instance_id, parts)

        async def attempt() -> OffsetCommitResponse:
            answer = await self._coordinator.ask(request, OffsetCommitResponse, ATTEMPT_S)
            for part in answer.parts:
                error = part.error(topic=part.topic, partition=part.partition) if part.error_code else None
                if isinstance(
                    error, MOVED
                ):  # very many are written in pieces, and not all were: those that were may be again
                    self._coordinator.forget()
                    raise error
            return answer

        try:
            answer = await self._coordinator.retry(
                attempt, timeout_s, f"offsets of {self._group_id!r} were not committed"
            )
        except OUTDATED as error:
            raise type(error)(
                f"{error}; nothing was committed", hint="what was read since the last commit will be read again"
            ) from None
        for part in answer.parts:
            part.raise_if_failed(topic=part.topic, partition=part.partition)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was committed of these; those of which nothing was are missing."""
        names = [PartitionName(where.topic, where.partition) for where in partitions]
        if not names:
            return {}

        async def attempt() -> OffsetFetchResponse:
            request = OffsetFetchRequest([OffsetFetchGroup(self._group_id, names)])
            answer = await self._coordinator.ask(request, OffsetFetchResponse, ATTEMPT_S)
            try:
                answer.groups[0].raise_if_failed()
            except OttlaError as error:
                if error.retriable:
                    self._coordinator.forget()
                raise
            return answer

        answer = await self._coordinator.retry(attempt, timeout_s, f"offsets of {self._group_id!r} were not told")
        found = {}
        for part in answer.groups[0].parts:
            part.raise_if_failed(topic=part.topic, partition=part.partition)
            if part.offset >= 0:  # other clients commit negative ones, which tell no place
                where = TopicPartition(part.topic, part.partition)
                found[where] = OffsetAndMetadata(part.offset, part.metadata, part.leader_epoch)
        return found
