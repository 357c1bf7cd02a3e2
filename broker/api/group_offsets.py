"""What groups have read: OffsetCommit, OffsetFetch and OffsetDelete."""

import asyncio
import time
from collections.abc import Callable

from ottla.broker.api.later import later
from ottla.broker.api.parts import check_parts
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.groups_loop import Coordinated, Groups
from ottla.broker.groups.mirror import subscribed_topics
from ottla.broker.groups.new_groups import NewGroups
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRequest,
    NotCoordinator,
    OffsetMetadataTooLarge,
    OttlaError,
    UnknownTopicOrPartition,
)
from ottla.wire.groups import (
    OffsetCommitPart,
    OffsetCommitPartResult,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeletePartResult,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchGroupResult,
    OffsetFetchPartResult,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.wire.names import TopicPartition
from ottla.zk.errors import NoNode, ZkError
from ottla.zk.groups import Committed, GroupWrite
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import CommitZnode, GroupZnode

GROUPS_MAX = 1000


class GroupOffsetHandlers:
    """Offsets are acknowledged when they stand in ZooKeeper, and told only by who can still write there."""

    def __init__(self, groups: Groups, view: ClusterView, session: ZkSession, new_groups: NewGroups) -> None:
        self._groups = groups
        self._new_groups = new_groups
        self._view = view
        self._session = session

    def commit(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, OffsetCommitRequest)
        check_parts(request.parts)
        if self._groups.loaded(request.group_id) is None:
            self._new_groups.count(connection, request.group_id)
        return later(self._commit(request))

    async def _commit(self, request: OffsetCommitRequest) -> Reply:
        coordinated = await self._groups.get(request.group_id)
        coordinated.group.check_commit(
            request.member_id, request.group_instance_id, request.generation_id, time.monotonic()
        )
        results: list[OffsetCommitPartResult] = []
        good: list[OffsetCommitPart] = []
        for part in request.parts:
            error = self._why_not(part)
            if error is None:
                good.append(part)
                results.append(OffsetCommitPartResult(0, "", part.topic, part.partition))
            else:
                results.append(OffsetCommitPartResult(error.code, str(error), part.topic, part.partition))

        def fill(write: GroupWrite) -> None:
            for part in good:
                where = TopicPartition(part.topic, part.partition)
                write.commit(where, Committed(part.offset, CommitZnode(part.leader_epoch, part.metadata)))

        if good:
            await self._written(coordinated, fill)
        return Reply(OffsetCommitResponse(results))

    def _why_not(self, part: OffsetCommitPart) -> OttlaError | None:
        known = self._view.topic(part.topic)
        if known is None or not 0 <= part.partition < len(known.partitions):
            return UnknownTopicOrPartition(f"there is no {part.topic[:100]}-{part.partition}")
        if not 0 <= part.offset < 2**63:
            return InvalidRequest(f"offset {part.offset}")
        limit = self._groups.limits.offset_metadata_max_bytes
        if len(part.metadata.encode()) > limit:
            return OffsetMetadataTooLarge(f"{len(part.metadata)} characters; allowed are {limit} bytes")
        return None

    async def _written(self, coordinated: Coordinated, fill: Callable[[GroupWrite], None]) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: OttlaError | None) -> None:
            if not written.done():
                if error is not None:
                    written.set_exception(error)
                else:
                    written.set_result(None)

        self._groups.commit(coordinated, fill, done)
        await written

    def fetch(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, OffsetFetchRequest)
        if len(request.groups) > GROUPS_MAX:
            raise InvalidRequest(f"{len(request.groups)} groups in one request; at most {GROUPS_MAX}")
        for group in request.groups:
            check_parts(group.parts or ())
        return later(self._fetch_all(request.groups))

    async def _fetch_all(self, groups: list[OffsetFetchGroup]) -> Reply:
        return Reply(OffsetFetchResponse([await self._fetch(group) for group in groups]))

    async def _fetch(self, group: OffsetFetchGroup) -> OffsetFetchGroupResult:
        try:
            coordinated = await self._groups.get(group.group_id, make=False)
            await self._check_still_mine(coordinated)
        except GroupIdNotFound:
            missing = [OffsetFetchPartResult(0, "", part.topic, part.partition) for part in group.parts or ()]
            return OffsetFetchGroupResult(0, "", group.group_id, tuple(missing))
        except OttlaError as error:
            return OffsetFetchGroupResult(error.code, str(error), group.group_id)
        offsets = coordinated.loaded.offsets
        wanted = (
            [TopicPartition(part.topic, part.partition) for part in group.parts]
            if group.parts is not None
            else sorted(offsets)
        )
        return OffsetFetchGroupResult(
            0, "", group.group_id, tuple(_told(where, offsets.get(where)) for where in wanted)
        )

    async def _check_still_mine(self, coordinated: Coordinated) -> None:
        """What is at hand is what stands in ZooKeeper only as long as nobody else may write there."""
        try:
            await self._session.sync("/")
            stat = await self._session.exists(GroupZnode.path(coordinated.group.group_id))
        except NoNode:
            stat = None
        except ZkError as error:
            raise CoordinatorNotAvailable(f"ZooKeeper cannot be asked: {error}") from None
        newest = coordinated.loaded.version + coordinated.writing
        if coordinated.over or stat is None or stat.version > newest:
            raise NotCoordinator("another broker coordinates this group by now")

    def delete(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, OffsetDeleteRequest)
        check_parts(request.parts)
        return later(self._delete(request))

    async def _delete(self, request: OffsetDeleteRequest) -> Reply:
        coordinated = await self._groups.get(request.group_id, make=False)
        record = coordinated.group.record()
        subscribed = {topic for member in record.members for topic in subscribed_topics(record, dict(member.protocols))}
        results: list[OffsetDeletePartResult] = []
        good: list[TopicPartition] = []
        for part in request.parts:
            where = TopicPartition(part.topic, part.partition)
            if part.topic in subscribed:
                error = GroupSubscribedToTopic(f"members of {request.group_id!r} subscribe to {part.topic!r}")
                results.append(OffsetDeletePartResult(error.code, str(error), part.topic, part.partition))
                continue
            if where in coordinated.loaded.offsets:
                good.append(where)
            results.append(OffsetDeletePartResult(0, "", part.topic, part.partition))

        def fill(write: GroupWrite) -> None:
            for where in good:
                write.forget(where)

        if good:
            await self._written(coordinated, fill)
        return Reply(OffsetDeleteResponse(0, "", tuple(results)))


def _told(where: TopicPartition, committed: Committed | None) -> OffsetFetchPartResult:
    if committed is None:
        return OffsetFetchPartResult(0, "", where.topic, where.partition)
    commit = committed.commit
    return OffsetFetchPartResult(
        0, "", where.topic, where.partition, committed.offset, commit.leader_epoch, commit.metadata
    )
