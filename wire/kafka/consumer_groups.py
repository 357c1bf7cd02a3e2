"""Groups whose coordinator assigns (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from typing import Any

from ottla.wire.consumer_groups import (
    AssignedTopic,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
    TopicPartitions,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, OttlaError
from ottla.wire.kafka.api import Asked, KafkaApi, Read, error_values, failed_at_top, host_of
from ottla.wire.kafka.operations import NOT_ASKED, OF_GROUP
from ottla.wire.kafka.primitives import NO_UUID
from ottla.wire.kafka.schemas import Values
from ottla.wire.kafka.topic_ids import to_bytes, to_text
from ottla.wire.messages import Api

OWN_IDS_FROM = 1
"""The version of the heartbeat in which members make their own ids."""

CONSUMER_MEMBER = 1
"""The type of a member that heeds the coordinator; Kafka lets groups have classic ones beside those."""


def read_heartbeat(asked: Asked) -> Read:
    entity = asked.entity
    names, owned = entity.subscribed_topic_names, entity.topic_partitions
    return Read(
        ConsumerGroupHeartbeatRequest(
            entity.group_id,
            entity.member_id,
            entity.member_epoch,
            entity.instance_id,
            entity.rack_id,
            entity.rebalance_timeout_ms,
            None if names is None else tuple(names),
            asked.get("subscribed_topic_regex"),
            entity.server_assignor,
            None if owned is None else tuple(map(_owned, owned)),
            brings_member_id=asked.version >= OWN_IDS_FROM,
        )
    )


def _owned(topic: Any) -> TopicPartitions:
    return TopicPartitions(to_text(topic.topic_id or NO_UUID), tuple(topic.partitions))


def write_heartbeat(request: IncomingRequest, message: ConsumerGroupHeartbeatResponse) -> Values:
    assignment = message.assignment
    return {
        "error_code": message.error_code,
        "error_message": message.error_message if message.error_code != NO_ERROR else None,
        "member_id": message.member_id,
        "member_epoch": message.member_epoch,
        "heartbeat_interval_ms": message.heartbeat_interval_ms,
        "assignment": None
        if assignment is None
        else {
            "topic_partitions": [
                {"topic_id": to_bytes(topic.topic_id), "partitions": list(topic.partitions)} for topic in assignment
            ]
        },
    }


def read_describe(asked: Asked) -> Read:
    with_operations = bool(asked.entity.include_authorized_operations)
    return Read(ConsumerGroupDescribeRequest(list(asked.entity.group_ids)), with_operations)


def write_describe(request: IncomingRequest, message: ConsumerGroupDescribeResponse) -> Values:
    return {
        "groups": [
            {
                "error_code": group.error_code,
                "error_message": group.error_message if group.error_code != NO_ERROR else None,
                "group_id": group.group_id,
                "group_state": group.state,
                "group_epoch": group.group_epoch,
                "assignment_epoch": group.assignment_epoch,
                "assignor_name": group.assignor,
                "members": [_member(member) for member in group.members],
                "authorized_operations": OF_GROUP if request.context and group.error_code == NO_ERROR else NOT_ASKED,
            }
            for group in message.groups
        ]
    }


def _member(member: DescribedConsumer) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": host_of(member.client_host),
        "subscribed_topic_names": list(member.topics),
        "subscribed_topic_regex": member.pattern,
        "assignment": _assignment(member.assignment),
        "target_assignment": _assignment(member.target),
        "member_type": CONSUMER_MEMBER,
    }


def _assignment(topics: tuple[AssignedTopic, ...]) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": to_bytes(one.topic_id), "topic_name": one.topic, "partitions": list(one.partitions)}
            for one in topics
            if one.topic
        ]
    }


def failed_describe(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, ConsumerGroupDescribeRequest)
    return {"groups": [{**error_values(error), "group_id": group} for group in message.groups]}


CONSUMER_GROUP_APIS = [
    KafkaApi(Api.CONSUMER_GROUP_HEARTBEAT, 0, 1, read_heartbeat, write_heartbeat, failed_at_top),
    KafkaApi(Api.CONSUMER_GROUP_DESCRIBE, 0, 1, read_describe, write_describe, failed_describe),
]
