"""Who leads and who holds partitions: ElectLeaders, and reassignments."""

from typing import Any

from ottla.wire.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    Reassignment,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, OttlaError
from ottla.wire.kafka.api import Asked, KafkaApi, Read, by_topic, failed_at_top
from ottla.wire.kafka.schemas import Values
from ottla.wire.messages import Api, PartitionName


def read_elect(asked: Asked) -> Read:
    topics = asked.entity.topic_partitions
    names = (
        [PartitionName(topic.topic, number) for topic in topics for number in topic.partitions]
        if topics is not None
        else None
    )
    kind = asked.get("election_type", int(ElectionType.PREFERRED))
    return Read(ElectLeadersRequest(kind, names, asked.entity.timeout_ms))


def write_elect(request: IncomingRequest, message: ElectLeadersResponse) -> Values:
    return {
        "replica_election_results": [
            {"topic": topic, "partition_result": [{"partition_id": part.partition, **_error(part)} for part in parts]}
            for topic, parts in by_topic(message.partitions).items()
        ]
    }


def _error(part: PartitionResult) -> dict[str, Any]:
    message = part.error_message if part.error_code != NO_ERROR else None
    return {"error_code": part.error_code, "error_message": message}


def failed_elect(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, ElectLeadersRequest)
    failed = [PartitionResult(error.code, str(error), one.topic, one.partition) for one in message.partitions or ()]
    return {**write_elect(request, ElectLeadersResponse(failed)), "error_code": error.code}


def read_reassign(asked: Asked) -> Read:
    moves = [
        Reassignment(topic.name, one.partition_index, list(one.replicas) if one.replicas is not None else None)
        for topic in asked.entity.topics
        for one in topic.partitions
    ]
    return Read(AlterPartitionReassignmentsRequest(moves, asked.entity.timeout_ms))


def write_reassign(request: IncomingRequest, message: AlterPartitionReassignmentsResponse) -> Values:
    return {
        "responses": [
            {"name": topic, "partitions": [{"partition_index": part.partition, **_error(part)} for part in parts]}
            for topic, parts in by_topic(message.partitions).items()
        ]
    }


def read_reassignments(asked: Asked) -> Read:
    topics = asked.entity.topics
    names = (
        [PartitionName(topic.name, number) for topic in topics for number in topic.partition_indexes]
        if topics is not None
        else None
    )
    return Read(ListPartitionReassignmentsRequest(names, asked.entity.timeout_ms))


def write_reassignments(request: IncomingRequest, message: ListPartitionReassignmentsResponse) -> Values:
    return {
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": part.partition,
                        "replicas": part.replicas,
                        "adding_replicas": part.adding,
                        "removing_replicas": part.removing,
                    }
                    for part in parts
                ],
            }
            for topic, parts in by_topic(message.partitions).items()
        ]
    }


LEADERSHIP_APIS = [
    KafkaApi(Api.ELECT_LEADERS, 0, 2, read_elect, write_elect, failed_elect),
    KafkaApi(Api.ALTER_PARTITION_REASSIGNMENTS, 0, 1, read_reassign, write_reassign, failed_at_top),
    KafkaApi(Api.LIST_PARTITION_REASSIGNMENTS, 0, 0, read_reassignments, write_reassignments, failed_at_top),
]
