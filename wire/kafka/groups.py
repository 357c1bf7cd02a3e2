"""Consumer groups: members of both dialects share them, for their subscriptions and assignments are the same bytes."""

from typing import Any

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, GroupIdNotFound, OttlaError
from ottla.wire.groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupProtocol,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.wire.kafka.api import Asked, KafkaApi, Read, error_values, failed_at_top, host_of
from ottla.wire.kafka.operations import OF_GROUP
from ottla.wire.kafka.schemas import Values
from ottla.wire.messages import Api


def read_join(asked: Asked) -> Read:
    entity = asked.entity
    session_ms = entity.session_timeout_ms
    rebalance_ms = asked.get("rebalance_timeout_ms")
    return Read(
        JoinGroupRequest(
            entity.group_id,
            session_ms,
            rebalance_ms if rebalance_ms is not None else session_ms,
            entity.member_id,
            asked.get("group_instance_id"),
            entity.protocol_type,
            [GroupProtocol(protocol.name, protocol.metadata) for protocol in entity.protocols],
            asked.get("reason") or "",
            # Before version 4 a member joins with its first request; since then it is given its id first.
            needs_member_id=asked.version >= 4,
        )
    )


def write_join(request: IncomingRequest, message: JoinGroupResponse) -> Values:
    return {
        "error_code": message.error_code,
        "generation_id": message.generation_id,
        "protocol_type": message.protocol_type or None,
        "protocol_name": message.protocol_name if message.protocol_name or request.version < 7 else None,
        "leader": message.leader,
        "skip_assignment": message.skip_assignment,
        "member_id": message.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in message.members
        ],
    }


def failed_join(request: IncomingRequest, error: OttlaError) -> Values:
    return write_join(request, JoinGroupResponse(error.code, str(error)))


def read_sync(asked: Asked) -> Read:
    entity = asked.entity
    return Read(
        SyncGroupRequest(
            entity.group_id,
            entity.generation_id,
            entity.member_id,
            asked.get("group_instance_id"),
            asked.get("protocol_type") or "",
            asked.get("protocol_name") or "",
            [MemberAssignment(one.member_id, one.assignment) for one in entity.assignments],
        )
    )


def write_sync(request: IncomingRequest, message: SyncGroupResponse) -> Values:
    return {
        "error_code": message.error_code,
        "protocol_type": message.protocol_type or None,
        "protocol_name": message.protocol_name or None,
        "assignment": message.assignment,
    }


def read_heartbeat(asked: Asked) -> Read:
    entity = asked.entity
    return Read(
        HeartbeatRequest(entity.group_id, entity.generation_id, entity.member_id, asked.get("group_instance_id"))
    )


def write_heartbeat(request: IncomingRequest, message: HeartbeatResponse) -> Values:
    return {"error_code": message.error_code}


def read_leave(asked: Asked) -> Read:
    members = asked.get("members")
    if members is None:
        return Read(LeaveGroupRequest(asked.entity.group_id, [LeavingMember(asked.entity.member_id, None)]))
    leaving = [
        LeavingMember(member.member_id, member.group_instance_id, getattr(member, "reason", None) or "")
        for member in members
    ]
    return Read(LeaveGroupRequest(asked.entity.group_id, leaving))


def write_leave(request: IncomingRequest, message: LeaveGroupResponse) -> Values:
    """Old versions let one leave, whose error is the answer's."""
    alone = message.members[0].error_code if request.version < 3 and message.members else NO_ERROR
    return {
        "error_code": message.error_code or alone,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": member.error_code,
            }
            for member in message.members
        ],
    }


# --- looking at groups ---------------------------------------------------------------------------------------------------


DEAD_IS_UNKNOWN_FROM = 6
"""The version of DescribeGroups that tells a group that is not known by an error."""


def read_describe(asked: Asked) -> Read:
    with_operations = bool(asked.get("include_authorized_operations", False))
    return Read(DescribeGroupsRequest(list(asked.entity.groups), classic_only=True), with_operations)


def write_describe(request: IncomingRequest, message: DescribeGroupsResponse) -> Values:
    """Before version 6 a group that nobody knows is a dead one, and no error."""
    told = [_group(group) for group in message.groups]
    for group in told:
        if request.version < DEAD_IS_UNKNOWN_FROM and group["error_code"] == GroupIdNotFound.code:
            group |= {"error_code": NO_ERROR, "group_state": "Dead"}
        if request.context and group["error_code"] == NO_ERROR:
            group["authorized_operations"] = OF_GROUP
    return {"groups": told}


def _group(group: DescribedGroup) -> dict[str, Any]:
    return {
        "error_code": group.error_code,
        "error_message": group.error_message if group.error_code != NO_ERROR else None,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": host_of(member.client_host),
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }


def failed_describe(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, DescribeGroupsRequest)
    return {"groups": [{**error_values(error), "group_id": group} for group in message.groups]}


def read_list(asked: Asked) -> Read:
    return Read(ListGroupsRequest(list(asked.get("states_filter") or [])), list(asked.get("types_filter") or []))


def write_list(request: IncomingRequest, message: ListGroupsResponse) -> Values:
    types = [kind.lower() for kind in request.context or []]
    return {
        "error_code": message.error_code,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in message.groups
            if not types or group.group_type in types
        ],
    }


def read_delete(asked: Asked) -> Read:
    return Read(DeleteGroupsRequest(list(asked.entity.groups_names)))


def write_delete(request: IncomingRequest, message: DeleteGroupsResponse) -> Values:
    return {"results": [{"group_id": group.group_id, "error_code": group.error_code} for group in message.groups]}


def failed_delete(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, DeleteGroupsRequest)
    groups = [DeletedGroup(error.code, str(error), group) for group in message.groups]
    return write_delete(request, DeleteGroupsResponse(groups))


GROUP_APIS = [
    KafkaApi(Api.JOIN_GROUP, 0, 9, read_join, write_join, failed_join),
    KafkaApi(Api.SYNC_GROUP, 0, 5, read_sync, write_sync, failed_at_top),
    KafkaApi(Api.HEARTBEAT, 0, 4, read_heartbeat, write_heartbeat, failed_at_top),
    KafkaApi(Api.LEAVE_GROUP, 0, 5, read_leave, write_leave, failed_at_top),
    KafkaApi(Api.DESCRIBE_GROUPS, 0, 6, read_describe, write_describe, failed_describe),
    KafkaApi(Api.LIST_GROUPS, 0, 5, read_list, write_list, failed_at_top),
    KafkaApi(Api.DELETE_GROUPS, 0, 2, read_delete, write_delete, failed_delete),
]
