"""OffsetDelete: forget what a group has committed of topics that none of its members subscribes to."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from ottla.broker.api.later import later
from ottla.broker.api.offset_writes import has_partition, unknown_partition, written
from ottla.broker.api.parts import check_parts
from ottla.broker.api.slices import Slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import EMPTY, Groups
from ottla.broker.groups.mirror import all_subscribed_topics
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.consumer_protocol import PROTOCOL_TYPE
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import GroupSubscribedToTopic, NonEmptyGroup, NotCoordinator, OttlaError
from ottla.wire.groups import OffsetDeletePartResult, OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.names import TopicPartition
from ottla.zk.groups import GroupWrite

logger = logging.getLogger(__name__)


class OffsetDeleteHandler:
    """With its last offset a group without members is deleted too."""

    def __init__(self, groups: Groups, view: ClusterView) -> None:
        self._groups = groups
        self._view = view

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, OffsetDeleteRequest)
        check_parts(request.parts)
        return later(self._delete(request, is_long=incoming.is_long))

    async def _delete(self, request: OffsetDeleteRequest, *, is_long: bool) -> Reply:
        coordinated = await self._groups.get(request.group_id, make=False)
        subscribed = _subscribed(coordinated)
        results: list[OffsetDeletePartResult] = []
        places: dict[str, list[int]] = {}
        """By topic, where in the request those partitions stand whose offsets are deleted."""
        slices = Slices(enabled=is_long)
        for place, part in enumerate(request.parts):
            await slices.rest()
            where = TopicPartition(part.topic, part.partition)
            is_stored = where in coordinated.loaded.offsets
            error: OttlaError | None = None
            if not is_stored and not has_partition(
                self._view, *where
            ):  # offsets outlive their topic, and may be deleted
                error = unknown_partition(*where)
            elif part.topic in subscribed:
                error = _is_subscribed(request.group_id, part.topic)
            elif is_stored:
                places.setdefault(part.topic, []).append(place)
            code, message = (error.code, str(error)) if error is not None else (0, "")
            results.append(OffsetDeletePartResult(code, message, part.topic, part.partition))
        await self._refuse_subscribed_since(coordinated, places, results, slices)
        if places:
            await written(self._groups, coordinated, _forgetting(results, list(places.values())))
        await self._forget_if_unused(coordinated)
        return Reply(OffsetDeleteResponse(0, "", tuple(results)))

    async def _refuse_subscribed_since(
        self,
        coordinated: Coordinated,
        places: dict[str, list[int]],
        results: list[OffsetDeletePartResult],
        slices: Slices,
    ) -> None:
        """Refuse the topics that members have subscribed to since they were first looked at; remove them from ``places``.

        Invariant: no offset of a subscribed topic is deleted, and nothing is written for a group that has another
        coordinator. Nothing is awaited between the last look at the group and the return, nor after it before the write.
        """
        while True:
            if coordinated.over:
                raise NotCoordinator("another broker coordinates this group by now")
            refused = _subscribed(coordinated) & places.keys()
            if not refused:
                return
            for topic in refused:
                error = _is_subscribed(coordinated.group.group_id, topic)
                for place in places.pop(topic):
                    await slices.rest()
                    results[place] = OffsetDeletePartResult(error.code, str(error), topic, results[place].partition)

    async def _forget_if_unused(self, one: Coordinated) -> None:
        """Delete a group of which neither members nor offsets are left, as Kafka does."""
        # Invariant: nothing that was committed meanwhile goes with it. What is on its way counts, and nothing is awaited
        # between this check and the end of the group in Groups.delete.
        is_used = bool(one.loaded.offsets or one.loaded.unreadable or one.writing or one.committing)
        if one.over or is_used or one.group.state != EMPTY:
            return
        try:
            await self._groups.delete(one.group.group_id)
        except OttlaError as error:  # its offsets are gone, as was asked for; retention forgets the rest
            logger.info("group without offsets was not deleted group=%s error=%s", one.group.group_id, error)


def _subscribed(coordinated: Coordinated) -> set[str]:
    """The topics that the group's members subscribe to. NonEmptyGroup if nobody can know them."""
    record = coordinated.group.record()
    if record.members and record.protocol_type != PROTOCOL_TYPE:
        raise NonEmptyGroup(
            f"the members of {coordinated.group.group_id!r} are no consumers: nobody knows which offsets they use"
        )
    return all_subscribed_topics(record)


def _is_subscribed(group_id: str, topic: str) -> GroupSubscribedToTopic:
    return GroupSubscribedToTopic(f"members of {group_id!r} subscribe to {topic!r}")


def _forgetting(
    results: Sequence[OffsetDeletePartResult], places: Iterable[Sequence[int]]
) -> Callable[[GroupWrite], None]:
    """A write that forgets the offsets of these results."""

    def fill(write: GroupWrite) -> None:
        for place in chain.from_iterable(places):
            write.forget(TopicPartition(results[place].topic, results[place].partition))

    return fill
