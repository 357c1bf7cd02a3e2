"""Topics: CreateTopics, DeleteTopics, CreatePartitions."""

from typing import Any

from ottla.wire.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicResult,
    TopicToDelete,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, OttlaError
from ottla.wire.kafka.api import Asked, KafkaApi, Read
from ottla.wire.kafka.schemas import Values
from ottla.wire.kafka.topic_ids import to_bytes, to_text
from ottla.wire.messages import Api
from ottla.wire.names import NO_LEADER

TOLD_CONFIGS_FROM = 5
"""The version of CreateTopics that tells what the topic has come to be."""


def read_create(asked: Asked) -> Read:
    topics = [_new_topic(topic) for topic in asked.entity.topics]
    timeout_ms = asked.entity.timeout_ms
    return Read(CreateTopicsRequest(topics, timeout_ms, bool(asked.get("validate_only", False))))


def _new_topic(topic: Any) -> NewTopic:
    config = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    by_number = sorted((one.partition_index, list(one.broker_ids)) for one in topic.assignments)
    assignment = [brokers for _, brokers in by_number] or None
    if [number for number, _ in by_number] != list(range(len(by_number))):
        assignment = [
            [NO_LEADER]
        ]  # partitions are missing or named twice: what the controller refuses with the right error
    partitions = len(assignment) if assignment else topic.num_partitions
    factor = len(assignment[0]) if assignment else topic.replication_factor
    return NewTopic(topic.name, partitions, factor, config, assignment)


def write_create(request: IncomingRequest, message: CreateTopicsResponse) -> Values:
    asked = request.message
    assert isinstance(asked, CreateTopicsRequest)
    wanted = {topic.name: topic for topic in asked.topics}
    return {"topics": [{**_identified(topic), **_made(topic, wanted.get(topic.name))} for topic in message.topics]}


def _made(result: TopicResult, wanted: NewTopic | None) -> dict[str, Any]:
    if wanted is None or result.error_code != NO_ERROR:
        return {"num_partitions": -1, "replication_factor": -1, "configs": None}
    return {
        "num_partitions": wanted.partitions,
        "replication_factor": wanted.replication_factor,
        "configs": [{"name": name, "value": value, "config_source": 1} for name, value in wanted.config.items()],
    }


def _result(topic: TopicResult) -> dict[str, Any]:
    return {
        "name": topic.name,
        "error_code": topic.error_code,
        "error_message": topic.error_message if topic.error_code != NO_ERROR else None,
    }


def _identified(topic: TopicResult) -> dict[str, Any]:
    return {**_result(topic), "topic_id": to_bytes(topic.topic_id)}


def failed_create(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, CreateTopicsRequest)
    results = [TopicResult(error.code, str(error), topic.name) for topic in message.topics]
    return write_create(request, CreateTopicsResponse(results))


def read_delete(asked: Asked) -> Read:
    names = asked.get("topic_names")
    if names is not None:
        topics = [TopicToDelete(name) for name in names]
    else:
        topics = [
            TopicToDelete(topic.name or "", to_text(topic.topic_id) if topic.topic_id is not None else "")
            for topic in asked.entity.topics
        ]
    return Read(DeleteTopicsRequest(topics, asked.entity.timeout_ms))


def write_delete(request: IncomingRequest, message: DeleteTopicsResponse) -> Values:
    return {"responses": [_identified(topic) for topic in message.topics]}


def failed_delete(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, DeleteTopicsRequest)
    results = [TopicResult(error.code, str(error), topic.name, topic.topic_id) for topic in message.topics]
    return write_delete(request, DeleteTopicsResponse(results))


def read_create_partitions(asked: Asked) -> Read:
    topics = [
        NewPartitions(
            topic.name,
            topic.count,
            [list(one.broker_ids) for one in topic.assignments] if topic.assignments is not None else None,
        )
        for topic in asked.entity.topics
    ]
    timeout_ms = asked.entity.timeout_ms
    return Read(CreatePartitionsRequest(topics, timeout_ms, asked.entity.validate_only))


def write_create_partitions(request: IncomingRequest, message: CreatePartitionsResponse) -> Values:
    return {"results": [_result(topic) for topic in message.topics]}


def failed_create_partitions(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, CreatePartitionsRequest)
    results = [TopicResult(error.code, str(error), topic.name) for topic in message.topics]
    return write_create_partitions(request, CreatePartitionsResponse(results))


TOPIC_APIS = [
    KafkaApi(Api.CREATE_TOPICS, 2, 7, read_create, write_create, failed_create),
    KafkaApi(Api.DELETE_TOPICS, 1, 6, read_delete, write_delete, failed_delete),
    KafkaApi(Api.CREATE_PARTITIONS, 0, 3, read_create_partitions, write_create_partitions, failed_create_partitions),
]
