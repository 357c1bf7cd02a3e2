"""OffsetForLeaderEpoch: where the records of a leader's epoch end, so that a reader knows whether what it has read was cut."""

import asyncio

from ottla.broker.api.later import while_asked
from ottla.broker.api.parts import check_parts, client_error
from ottla.broker.api.slices import in_slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError
from ottla.wire.requests import (
    EpochEndPart,
    EpochEndPartResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)


class OffsetForLeaderEpochHandler:
    """Leaders answer; followers here ask by their fetches, and have no need of it."""

    def __init__(self, partitions: Partitions, view: ClusterView) -> None:
        self._partitions = partitions
        self._view = view

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, OffsetForLeaderEpochRequest)
        check_parts(request.parts)
        if incoming.is_long:
            return while_asked(self._ends_of(request.parts))
        return Reply(OffsetForLeaderEpochResponse([self._end_of(part) for part in request.parts]))

    async def _ends_of(self, parts: list[EpochEndPart]) -> Reply:
        return Reply(OffsetForLeaderEpochResponse(await in_slices(self._end_of, parts)))

    def _end_of(self, part: EpochEndPart) -> EpochEndPartResult:
        try:
            partition = self._partitions.led(part.topic, part.partition, part.current_leader_epoch)
        except OttlaError as error:
            leader, _ = self._view.leader_of(part.topic, part.partition)
            error = client_error(error, part.topic, leader)
            return EpochEndPartResult(error.code, str(error), part.topic, part.partition)
        epoch, end = partition.log.end_offset_for_epoch(part.leader_epoch)
        return EpochEndPartResult(0, "", part.topic, part.partition, epoch, end)
