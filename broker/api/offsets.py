"""ListOffsets: where a partition begins and ends, and which record was the first at a time."""

from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.net.connection import Connection, Reply
from ottla.wire.connection import IncomingRequest
from ottla.wire.errors import InvalidRequest, OttlaError
from ottla.wire.records import RecordBatch, find_offset_by_timestamp
from ottla.wire.requests import (
    EARLIEST,
    LATEST,
    ListOffsetsPart,
    ListOffsetsPartResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

PARTS_MAX = 10_000


class ListOffsetsHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def __call__(self, incoming: IncomingRequest, connection: Connection) -> Reply:
        request = incoming.message
        assert isinstance(request, ListOffsetsRequest)
        if len(request.parts) > PARTS_MAX:
            raise InvalidRequest(f"{len(request.parts)} parts in one request; at most {PARTS_MAX}")
        return Reply(ListOffsetsResponse([self._find(part) for part in request.parts]))

    def _find(self, part: ListOffsetsPart) -> ListOffsetsPartResult:
        try:
            partition = self._partitions.led(part.topic, part.partition, part.leader_epoch)
            offset, timestamp = find(partition, part.timestamp_ms)
        except OttlaError as error:
            return ListOffsetsPartResult(error.code, str(error), part.topic, part.partition)
        return ListOffsetsPartResult(0, "", part.topic, part.partition, offset, timestamp, partition.leader_epoch)


def find(partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    """Offset and timestamp of the first committed record that is not older; -1 and -1 if all are."""
    if timestamp_ms == LATEST:
        return partition.latest(), -1
    if timestamp_ms == EARLIEST:
        return partition.log.log_start_offset, -1
    if timestamp_ms < 0:
        raise InvalidRequest(f"timestamp {timestamp_ms}; give -1 (latest), -2 (earliest) or a time in ms")
    view = partition.log.find_by_timestamp(timestamp_ms)
    found = find_offset_by_timestamp(RecordBatch(view, verify=False), timestamp_ms) if view is not None else None
    return found if found is not None and found[0] < partition.high_watermark else (-1, -1)
