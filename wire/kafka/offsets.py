"""ListOffsets, OffsetForLeaderEpoch and InitProducerId."""

from typing import Any

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError, TransactionalIdAuthorizationFailed
from ottla.wire.kafka.api import Asked, KafkaApi, Read, by_topic, failed_at_top
from ottla.wire.kafka.schemas import Values
from ottla.wire.messages import EARLIEST, LATEST, Api
from ottla.wire.names import NO_EPOCH
from ottla.wire.requests import (
    EpochEndPart,
    EpochEndPartResult,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPart,
    ListOffsetsPartResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

EARLIEST_LOCAL = -4
IN_OTHER_STORAGE = (-5, -6)
"""Where tiered storage ends, and what waits for it: there is none, so all is local, and nothing is there."""


def read_list_offsets(asked: Asked) -> Read:
    parts: list[ListOffsetsPart] = []
    nowhere: set[tuple[str, int]] = set()
    for topic in asked.entity.topics:
        for one in topic.partitions:
            timestamp = EARLIEST if one.timestamp == EARLIEST_LOCAL else one.timestamp
            if timestamp in IN_OTHER_STORAGE:
                timestamp = LATEST
                nowhere.add((topic.name, one.partition_index))
            epoch = getattr(one, "current_leader_epoch", NO_EPOCH)
            parts.append(ListOffsetsPart(topic.name, one.partition_index, timestamp, epoch))
    return Read(ListOffsetsRequest(parts), nowhere)


def write_list_offsets(request: IncomingRequest, message: ListOffsetsResponse) -> Values:
    return {
        "topics": [
            {"name": topic, "partitions": [_offset(part, request.context) for part in parts]}
            for topic, parts in by_topic(message.parts).items()
        ]
    }


def _offset(part: ListOffsetsPartResult, nowhere: set[tuple[str, int]]) -> dict[str, Any]:
    if (part.topic, part.partition) in nowhere:
        return {"partition_index": part.partition, "error_code": part.error_code}
    return {
        "partition_index": part.partition,
        "error_code": part.error_code,
        "timestamp": part.timestamp_ms,
        "offset": part.offset,
        "leader_epoch": part.leader_epoch,
    }


def failed_list_offsets(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, ListOffsetsRequest)
    parts = [ListOffsetsPartResult(error.code, str(error), part.topic, part.partition) for part in message.parts]
    return write_list_offsets(request, ListOffsetsResponse(parts))


def read_init_producer_id(asked: Asked) -> Read:
    return Read(InitProducerIdRequest(), asked.entity.transactional_id)


def write_init_producer_id(request: IncomingRequest, message: InitProducerIdResponse) -> Values:
    if request.context is not None:  # a producer with transactions
        return {"error_code": TransactionalIdAuthorizationFailed.code, "producer_epoch": -1}
    return {"producer_id": message.producer_id, "producer_epoch": message.producer_epoch}


def read_epoch_ends(asked: Asked) -> Read:
    parts = [
        EpochEndPart(topic.topic, one.partition, one.leader_epoch, one.current_leader_epoch)
        for topic in asked.entity.topics
        for one in topic.partitions
    ]
    return Read(OffsetForLeaderEpochRequest(parts))


def write_epoch_ends(request: IncomingRequest, message: OffsetForLeaderEpochResponse) -> Values:
    return {
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {
                        "error_code": part.error_code,
                        "partition": part.partition,
                        "leader_epoch": part.leader_epoch,
                        "end_offset": part.end_offset,
                    }
                    for part in parts
                ],
            }
            for topic, parts in by_topic(message.parts).items()
        ]
    }


def failed_epoch_ends(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, OffsetForLeaderEpochRequest)
    parts = [EpochEndPartResult(error.code, str(error), part.topic, part.partition) for part in message.parts]
    return write_epoch_ends(request, OffsetForLeaderEpochResponse(parts))


OFFSET_APIS = [
    KafkaApi(Api.LIST_OFFSETS, 1, 11, read_list_offsets, write_list_offsets, failed_list_offsets),
    KafkaApi(Api.OFFSET_FOR_LEADER_EPOCH, 2, 4, read_epoch_ends, write_epoch_ends, failed_epoch_ends),
    KafkaApi(Api.INIT_PRODUCER_ID, 0, 6, read_init_producer_id, write_init_producer_id, failed_at_top),
]
