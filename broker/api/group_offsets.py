"""OffsetCommit and OffsetFetch: what groups have read."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import structs

from ottla.broker.api.later import later
from ottla.broker.api.offset_writes import has_partition, unknown_partition, written
from ottla.broker.api.parts import check_parts
from ottla.broker.api.slices import Slices, in_slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.membership import SIMPLE
from ottla.broker.groups.new_groups import GroupsOfConnection, NewGroups
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentTopicId,
    InvalidRequest,
    NotCoordinator,
    OffsetMetadataTooLarge,
    OttlaError,
)
from ottla.wire.groups import (
    OffsetCommitPart,
    OffsetCommitPartResult,
    OffsetCommitRequest,
    OffsetCommitResponse,
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
from ottla.zk.znodes.consumers import CommitZnode, GroupZnode, LifeZnode
from ottla.zk.znodes.json_fields import MalformedZnode

GROUPS_MAX = 1000

PIECE_PARTS = 500
PIECE_BYTES = 200_000
"""As much of a commit is written at a time: others find room in the same multi, and ZooKeeper takes no more than a megabyte."""

_PART_BYTES = 400
"""What a part takes besides its names and metadata: two znodes, and the folders of a topic."""


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
        return later(self._commit(request, self._new_groups.of(connection), Slices(enabled=incoming.is_long)))

    async def _commit(self, request: OffsetCommitRequest, made_for: GroupsOfConnection, slices: Slices) -> Reply:
        results, good = await self._checked(request.parts, slices)
        pieces: list[list[OffsetCommitPart]] = []
        for piece in in_pieces(request.group_id, good):
            pieces.append(piece)
            await slices.rest()
        coordinated = await self._group_of(request, made_for, is_needed=bool(good))
        if coordinated is None:
            return Reply(OffsetCommitResponse(results))
        # Invariant: nothing is written for a member of an old generation. Nothing is awaited between this check and the write.
        if coordinated.over:
            raise NotCoordinator("another broker coordinates this group by now")
        coordinated.group.check_commit(
            request.member_id, request.group_instance_id, request.generation_id, time.monotonic()
        )
        errors = await self._write_in_pieces(coordinated, pieces)
        for place, part in enumerate(request.parts if errors else ()):
            await slices.rest()
            error = errors.get(TopicPartition(part.topic, part.partition))
            if error is not None:
                results[place] = OffsetCommitPartResult(error.code, str(error), part.topic, part.partition)
        return Reply(OffsetCommitResponse(results))

    async def _group_of(
        self, request: OffsetCommitRequest, made_for: GroupsOfConnection, *, is_needed: bool
    ) -> Coordinated | None:
        """The group of a commit, made where it does not exist and offsets are stored in it by who is no member; else None.

        Raises IllegalGeneration for a generation of a group that does not exist.
        """
        if is_needed and request.generation_id <= SIMPLE:
            return await made_for.get_or_make(self._groups, request.group_id)
        try:
            return await self._groups.get(request.group_id, make=False)
        except GroupIdNotFound:
            if request.generation_id <= SIMPLE:
                return None
            raise IllegalGeneration(
                f"group {request.group_id!r} does not exist, and has no generation {request.generation_id}"
            ) from None

    async def _checked(
        self, parts: Sequence[OffsetCommitPart], slices: Slices
    ) -> tuple[list[OffsetCommitPartResult], Collection[OffsetCommitPart]]:
        """A result for each part, and those that are to be written: where a partition is named several times, the last one."""
        results: list[OffsetCommitPartResult] = []
        good: dict[TopicPartition, OffsetCommitPart] = {}
        for part in parts:
            await slices.rest()
            error = self._why_not(part)
            if error is None:
                # Invariant: the topic is the one that the commit was checked for. While it waits to be written, the topic
                # may be deleted and made anew, and the first records of the new one would be skipped.
                named = structs.replace(part, topic_id=part.topic_id or self._view.topic_id_of(part.topic))
                good[TopicPartition(part.topic, part.partition)] = named
                results.append(OffsetCommitPartResult(0, "", part.topic, part.partition))
            else:
                results.append(OffsetCommitPartResult(error.code, str(error), part.topic, part.partition))
        return results, good.values()

    async def _write_in_pieces(
        self, coordinated: Coordinated, pieces: list[list[OffsetCommitPart]]
    ) -> dict[TopicPartition, OttlaError]:
        """Commit as much at a time as a multi takes; what could not be written, and why. Raises if nothing could.

        Every piece is fenced as any write is. All are put at once: nothing that the group decides later comes between them.
        """
        writes = [written(self._groups, coordinated, _filled(piece)) for piece in pieces]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None and (len(pieces) == 1 or not isinstance(outcome, OttlaError)):
                raise outcome
        failed = [(piece, why) for piece, why in zip(pieces, outcomes, strict=True) if isinstance(why, OttlaError)]
        if failed and len(failed) == len(pieces):
            raise failed[0][1]
        return {TopicPartition(part.topic, part.partition): why for piece, why in failed for part in piece}

    def _why_not(self, part: OffsetCommitPart) -> OttlaError | None:
        known = self._view.topic(part.topic)
        if known is None or not has_partition(self._view, part.topic, part.partition):
            return unknown_partition(part.topic, part.partition)
        if part.topic_id and part.topic_id != known.topic_id:
            return InconsistentTopicId(
                f"topic {part.topic!r} was made anew since that was read; nothing of it is committed"
            )
        # Negative offsets are stored, as by Kafka: clients commit -1 and -2 for the end and the beginning of a log.
        if not -(2**63) <= part.offset < 2**63:
            return InvalidRequest(f"offset {part.offset} does not fit into 64 bits")
        limit = self._groups.limits.offset_metadata_max_bytes
        if len(part.metadata.encode()) > limit:
            return OffsetMetadataTooLarge(f"{len(part.metadata)} characters; allowed are {limit} bytes")
        return None

    def fetch(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, OffsetFetchRequest)
        if len(request.groups) > GROUPS_MAX:
            raise InvalidRequest(f"{len(request.groups)} groups in one request; at most {GROUPS_MAX}")
        if len({group.group_id for group in request.groups}) != len(request.groups):
            raise InvalidRequest(f"{len(request.groups)} groups in one request, and some are named twice")
        for group in request.groups:
            check_parts(group.parts or ())
        return later(self._fetch_all(request.groups))

    async def _fetch_all(self, groups: list[OffsetFetchGroup]) -> Reply:
        return Reply(OffsetFetchResponse([await self._fetch(group) for group in groups]))

    async def _fetch(self, group: OffsetFetchGroup) -> OffsetFetchGroupResult:
        try:
            coordinated = await self._groups.get(group.group_id, make=False)
            if isinstance(coordinated.group, ConsumerGroup):
                coordinated.group.check_fetch(group.member_id, group.member_epoch)
            await self._check_still_mine(coordinated)
        except GroupIdNotFound:
            return OffsetFetchGroupResult(0, "", group.group_id, tuple(await _all_alike(group, 0)))
        except OttlaError as error:  # each part bears it too: old versions of Kafka's have no other place for it
            return OffsetFetchGroupResult(
                error.code, str(error), group.group_id, tuple(await _all_alike(group, error.code))
            )
        offsets = coordinated.loaded.offsets
        wanted = (
            await in_slices(lambda part: TopicPartition(part.topic, part.partition), group.parts)
            if group.parts is not None
            else sorted(offsets)
        )
        told = await in_slices(lambda where: _told(where, self._valid(where, offsets.get(where))), wanted)
        return OffsetFetchGroupResult(0, "", group.group_id, tuple(told))

    def _valid(self, where: TopicPartition, committed: Committed | None) -> Committed | None:
        """What was committed, unless it was of an earlier topic of that name: whoever went on there would skip records."""
        known, meant = self._view.topic_id_of(where.topic), committed.commit.topic_id if committed is not None else ""
        return None if known and meant and known != meant else committed

    async def _check_still_mine(self, coordinated: Coordinated) -> None:
        """What is at hand is what stands in ZooKeeper only as long as nobody else may write there."""
        loaded = coordinated.loaded
        path = GroupZnode.path(loaded.group)
        try:
            await self._session.sync("/")
            stat, life = await asyncio.gather(
                self._session.exists(path), self._session.exists(LifeZnode.path(loaded.group, loaded.znode.life))
            )
            if stat is not None and stat.version > loaded.version:
                # Of the writes that are on their way one may be another broker's, who took it over: its version does not tell.
                # (The record may be large: after a rebalance all members ask here, and it is not read for each of them.)
                data, stat = await self._session.get(path)
                if GroupZnode.coordinator_in(loaded.group, data) != self._groups.broker_id:
                    raise NotCoordinator("another broker coordinates this group by now")
        except NoNode:
            stat = None
        except (ZkError, MalformedZnode) as error:
            raise CoordinatorNotAvailable(f"ZooKeeper cannot be asked: {error}") from None
        if stat is None:
            raise NotCoordinator(f"group {loaded.group!r} was deleted meanwhile")
        if coordinated.over or life is None or stat.version > loaded.version + coordinated.writing:
            raise NotCoordinator("another broker coordinates this group by now")


async def _all_alike(group: OffsetFetchGroup, error_code: int) -> list[OffsetFetchPartResult]:
    return await in_slices(
        lambda part: OffsetFetchPartResult(error_code, "", part.topic, part.partition), group.parts or ()
    )


def _filled(piece: list[OffsetCommitPart]) -> Callable[[GroupWrite], None]:
    def fill(write: GroupWrite) -> None:
        for part in piece:
            commit = CommitZnode(part.leader_epoch, part.metadata, part.topic_id)
            write.commit(TopicPartition(part.topic, part.partition), Committed(part.offset, commit))

    return fill


def in_pieces(group: str, parts: Iterable[OffsetCommitPart]) -> Iterator[list[OffsetCommitPart]]:
    """What can be committed at a time."""
    of_group = 2 * len(GroupZnode.path(group))
    piece: list[OffsetCommitPart] = []
    size = 0
    for part in parts:
        count = of_group + _PART_BYTES + 2 * len(part.topic) + 6 * len(part.metadata)  # as json escapes the worst of it
        if piece and (len(piece) == PIECE_PARTS or size + count > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(part)
        size += count
    if piece:
        yield piece


def _told(where: TopicPartition, committed: Committed | None) -> OffsetFetchPartResult:
    if committed is None:
        return OffsetFetchPartResult(0, "", where.topic, where.partition)
    commit = committed.commit
    return OffsetFetchPartResult(
        0, "", where.topic, where.partition, committed.offset, commit.leader_epoch, commit.metadata
    )
