"""ListOffsets: where a partition begins and ends, and which record was the first at a time."""

import asyncio

from ottla.broker.api.later import while_asked
from ottla.broker.api.parts import check_parts, client_error
from ottla.broker.api.slices import Slices
from ottla.broker.api.time_search import TimeSearches
from ottla.broker.cluster_view import ClusterView
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.batch import read_fields
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest, OttlaError
from ottla.wire.messages import EARLIEST, LATEST, MAX_TIMESTAMP
from ottla.wire.requests import ListOffsetsPart, ListOffsetsPartResult, ListOffsetsRequest, ListOffsetsResponse


class ListOffsetsHandler:
    """Ends and beginnings are answered at once; a search by time opens batches in a thread (time_search.py)."""

    def __init__(self, partitions: Partitions, view: ClusterView) -> None:
        self._partitions = partitions
        self._view = view
        self._searches = TimeSearches()

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ListOffsetsRequest)
        check_parts(request.parts)
        if incoming.is_long:
            return while_asked(self._search(request.parts, connection))
        if any(_is_searched(part) for part in request.parts):
            return while_asked(self._search(request.parts, connection))
        return Reply(ListOffsetsResponse([self._end_of(part) for part in request.parts]))

    async def _search(self, parts: list[ListOffsetsPart], peer: Peer) -> Reply:
        """Answer one after the other, and of each connection one request at a time: who asks for much waits longer."""
        slices = Slices()
        found: list[ListOffsetsPartResult] = []
        async with self._searches.turn_of(peer):
            for part in parts:
                found.append(await self._find(part) if _is_searched(part) else self._end_of(part))
                await slices.rest()
        return Reply(ListOffsetsResponse(found))

    def _end_of(self, part: ListOffsetsPart) -> ListOffsetsPartResult:
        try:
            partition = self._led(part)
            if part.timestamp_ms not in (LATEST, EARLIEST):
                raise InvalidRequest(
                    f"timestamp {part.timestamp_ms}; give {LATEST} (latest), {EARLIEST} (earliest),"
                    f" {MAX_TIMESTAMP} (largest timestamp) or a time in ms"
                )
            offset = partition.latest() if part.timestamp_ms == LATEST else partition.log.log_start_offset
            timestamp_ms = _timestamp_from(partition, part.from_offset) if part.from_offset >= 0 else -1
        except OttlaError as error:
            return self._failed(part, error)
        return ListOffsetsPartResult(0, "", part.topic, part.partition, offset, timestamp_ms, partition.leader_epoch)

    async def _find(self, part: ListOffsetsPart) -> ListOffsetsPartResult:
        try:
            partition = self._led(part)
            if part.timestamp_ms == MAX_TIMESTAMP:
                offset, timestamp_ms = await self._searches.youngest(partition)
            else:
                offset, timestamp_ms = await self._searches.first_since(partition, part.timestamp_ms)
        except OttlaError as error:
            return self._failed(part, error)
        return ListOffsetsPartResult(0, "", part.topic, part.partition, offset, timestamp_ms, partition.leader_epoch)

    def _led(self, part: ListOffsetsPart) -> Partition:
        return self._partitions.led(part.topic, part.partition, part.leader_epoch)

    def _failed(self, part: ListOffsetsPart, error: OttlaError) -> ListOffsetsPartResult:
        leader, _ = self._view.leader_of(part.topic, part.partition)
        error = client_error(error, part.topic, leader)
        return ListOffsetsPartResult(error.code, str(error), part.topic, part.partition)


def _is_searched(part: ListOffsetsPart) -> bool:
    """Whether records must be looked at."""
    return part.timestamp_ms >= 0 or part.timestamp_ms == MAX_TIMESTAMP


def _timestamp_from(partition: Partition, offset: int) -> int:
    """When the first committed record from ``offset`` on was made, as its batch's header tells it; -1 if there is none.

    That is the time of the batch's first record: older than the one asked for by no more than a batch is long.
    """
    offset = max(offset, partition.log.log_start_offset)
    while offset < partition.high_watermark:
        views = partition.read(offset, 1, at_least_one=True)
        if not views:
            break
        header = read_fields(views[0])
        if not header.is_gap:
            return header.first_timestamp
        offset = header.next_offset
    return -1
