"""What brokers have on disk: DeleteRecords, DescribeLogDirs, AlterReplicaLogDirs, DescribeProducers."""

from typing import Any

from ottla.wire.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribedLogDir,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    PartitionResult,
    RecordsToDelete,
    ReplicaToMove,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError
from ottla.wire.kafka.api import Asked, KafkaApi, Read, by_topic, failed_at_top
from ottla.wire.kafka.schemas import Values
from ottla.wire.messages import Api, PartitionName
from ottla.wire.names import NO_EPOCH
from ottla.wire.requests import (
    DescribeProducersPartResult,
    DescribeProducersRequest,
    DescribeProducersResponse,
)

NO_TRANSACTION = -1


def read_delete_records(asked: Asked) -> Read:
    parts = [
        RecordsToDelete(topic.name, one.partition_index, one.offset)
        for topic in asked.entity.topics
        for one in topic.partitions
    ]
    return Read(DeleteRecordsRequest(parts, asked.entity.timeout_ms))


def write_delete_records(request: IncomingRequest, message: DeleteRecordsResponse) -> Values:
    return {
        "topics": [
            {"name": topic, "partitions": [_deleted(part) for part in parts]}
            for topic, parts in by_topic(message.partitions).items()
        ]
    }


def _deleted(part: DeletedRecords) -> dict[str, Any]:
    return {"partition_index": part.partition, "low_watermark": part.low_watermark, "error_code": part.error_code}


def failed_delete_records(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, DeleteRecordsRequest)
    failed = [DeletedRecords(error.code, str(error), part.topic, part.partition) for part in message.partitions]
    return write_delete_records(request, DeleteRecordsResponse(failed))


def read_describe_log_dirs(asked: Asked) -> Read:
    topics = asked.entity.topics
    names = (
        [PartitionName(topic.topic, number) for topic in topics for number in topic.partitions]
        if topics is not None
        else None
    )
    return Read(DescribeLogDirsRequest(names))


def write_describe_log_dirs(request: IncomingRequest, message: DescribeLogDirsResponse) -> Values:
    return {"results": [_folder(folder) for folder in message.folders]}


def _folder(folder: DescribedLogDir) -> dict[str, Any]:
    return {
        "error_code": folder.error_code,
        "log_dir": folder.folder,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": one.partition, "partition_size": one.size, "offset_lag": one.lag}
                    for one in replicas
                ],
            }
            for topic, replicas in by_topic(folder.replicas).items()
        ],
        "total_bytes": folder.total_bytes,
        "usable_bytes": folder.usable_bytes,
    }


def read_describe_producers(asked: Asked) -> Read:
    names = [PartitionName(topic.name, number) for topic in asked.entity.topics for number in topic.partition_indexes]
    return Read(DescribeProducersRequest(names))


def write_describe_producers(request: IncomingRequest, message: DescribeProducersResponse) -> Values:
    return {
        "topics": [
            {"name": topic, "partitions": [_producers(part) for part in parts]}
            for topic, parts in by_topic(message.parts).items()
        ]
    }


def _producers(part: DescribeProducersPartResult) -> dict[str, Any]:
    message = part.error_message
    if part.left_out:
        message = f"{part.left_out} producers that wrote before these are left out"
    return {
        "partition_index": part.partition,
        "error_code": part.error_code,
        "error_message": message or None,
        "active_producers": [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "last_sequence": one.last_sequence,
                "last_timestamp": one.last_timestamp_ms,
                "coordinator_epoch": NO_EPOCH,
                "current_txn_start_offset": NO_TRANSACTION,
            }
            for one in part.producers
        ],
    }


def failed_describe_producers(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, DescribeProducersRequest)
    failed = [DescribeProducersPartResult(error.code, str(error), part.topic, part.partition) for part in message.parts]
    return write_describe_producers(request, DescribeProducersResponse(failed))


def read_alter_log_dirs(asked: Asked) -> Read:
    moves = [
        ReplicaToMove(topic.name, number, folder.path)
        for folder in asked.entity.dirs
        for topic in folder.topics
        for number in topic.partitions
    ]
    return Read(AlterReplicaLogDirsRequest(moves))


def write_alter_log_dirs(request: IncomingRequest, message: AlterReplicaLogDirsResponse) -> Values:
    return {
        "results": [
            {
                "topic_name": topic,
                "partitions": [{"partition_index": part.partition, "error_code": part.error_code} for part in parts],
            }
            for topic, parts in by_topic(message.partitions).items()
        ]
    }


def failed_alter_log_dirs(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, AlterReplicaLogDirsRequest)
    failed = [PartitionResult(error.code, str(error), part.topic, part.partition) for part in message.partitions]
    return write_alter_log_dirs(request, AlterReplicaLogDirsResponse(failed))


LOG_APIS = [
    KafkaApi(Api.ALTER_REPLICA_LOG_DIRS, 1, 2, read_alter_log_dirs, write_alter_log_dirs, failed_alter_log_dirs),
    KafkaApi(Api.DELETE_RECORDS, 0, 2, read_delete_records, write_delete_records, failed_delete_records),
    KafkaApi(Api.DESCRIBE_LOG_DIRS, 1, 5, read_describe_log_dirs, write_describe_log_dirs, failed_at_top),
    KafkaApi(
        Api.DESCRIBE_PRODUCERS, 0, 0, read_describe_producers, write_describe_producers, failed_describe_producers
    ),
]
