"""What groups committed: OffsetCommit, OffsetFetch in its three forms, OffsetDelete."""

from typing import Any

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InconsistentTopicId, NonEmptyGroup, OttlaError, UnknownMemberId, UnknownTopicId
from ottla.wire.groups import (
    OffsetCommitPart,
    OffsetCommitPartResult,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchGroupResult,
    OffsetFetchPartResult,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.wire.kafka.api import Asked, KafkaApi, Read, by_topic, error_values
from ottla.wire.kafka.primitives import NO_UUID
from ottla.wire.kafka.schemas import Values
from ottla.wire.kafka.topic_ids import TopicIds, to_bytes, to_text
from ottla.wire.messages import Api, PartitionName
from ottla.wire.names import NO_EPOCH

GROUPS_FROM = 8
"""The version of OffsetFetch that asks for several groups at once."""

IDS_FROM = 10
"""The version of OffsetFetch that names topics by id."""


class TopicsById:
    """Topics that a request names by id: which ids they are, and those that nobody knows, with their partitions."""

    def __init__(self, known: TopicIds) -> None:
        self._known = known
        self._ids: dict[str, bytes] = {}
        self.unknown: dict[bytes, list[int]] = {}

    def name_of(self, topic: Any, partitions: list[int]) -> str | None:
        """The name of a topic in a request, whichever way it is told; None if nobody knows it."""
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is None:
            return getattr(topic, "name", "") or ""
        name = self._known.topic_name_of(to_text(topic_id))
        if name is None:
            self.unknown.setdefault(topic_id, []).extend(partitions)
        else:
            self._ids[name] = topic_id
        return name

    def id_of(self, name: str) -> bytes:
        """The id by which a topic was named, or that it has now; 16 zeros if it has none."""
        return self._ids.get(name) or to_bytes(self._known.topic_id_of(name))


# --- OffsetCommit --------------------------------------------------------------------------------------------------------


def read_commit(asked: Asked) -> Read:
    entity = asked.entity
    topics = TopicsById(asked.topics)
    parts = []
    for topic in entity.topics:
        name = topics.name_of(topic, [one.partition_index for one in topic.partitions])
        if name is not None:
            # Another topic may have the name when the commit is handled: then it is refused.
            topic_id = to_text(topic.topic_id) if getattr(topic, "topic_id", None) is not None else ""
            parts += [_commit_part(name, one, topic_id) for one in topic.partitions]
    message = OffsetCommitRequest(
        entity.group_id,
        entity.generation_id_or_member_epoch,
        entity.member_id,
        asked.get("group_instance_id"),
        parts,
    )
    return Read(message, topics)


def _commit_part(topic: str, one: Any, topic_id: str) -> OffsetCommitPart:
    return OffsetCommitPart(
        topic,
        one.partition_index,
        one.committed_offset,
        getattr(one, "committed_leader_epoch", NO_EPOCH),
        one.committed_metadata or "",
        topic_id,
    )


def write_commit(request: IncomingRequest, message: OffsetCommitResponse) -> Values:
    topics: TopicsById = request.context
    told: list[dict[str, Any]] = [
        {
            "name": name,
            "topic_id": topics.id_of(name),
            "partitions": [{"partition_index": part.partition, "error_code": _commit_error(part)} for part in parts],
        }
        for name, parts in by_topic(message.parts).items()
    ]
    for topic_id, partitions in topics.unknown.items():
        refused = [{"partition_index": number, "error_code": UnknownTopicId.code} for number in partitions]
        told.append({"name": "", "topic_id": topic_id, "partitions": refused})
    return {"topics": told}


def _commit_error(part: OffsetCommitPartResult) -> int:
    """Kafka's clients know of a topic that was made anew that its id is unknown."""
    return UnknownTopicId.code if part.error_code == InconsistentTopicId.code else part.error_code


def failed_commit(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    # Kafka's clients know what to do with the error that Kafka gives to who is no member while there are some.
    code = UnknownMemberId.code if isinstance(error, NonEmptyGroup) else error.code
    parts = [OffsetCommitPartResult(code, str(error), part.topic, part.partition) for part in message.parts]
    return write_commit(request, OffsetCommitResponse(parts))


# --- OffsetFetch ---------------------------------------------------------------------------------------------------------


def read_offset_fetch(asked: Asked) -> Read:
    asked_groups = asked.get("groups")
    groups = [asked.entity] if asked_groups is None else asked_groups
    topics = [TopicsById(asked.topics) for _ in groups]
    wanted = [
        OffsetFetchGroup(
            group.group_id,
            _fetch_parts(group, named),
            getattr(group, "member_id", None),
            getattr(group, "member_epoch", NO_EPOCH),
        )
        for group, named in zip(groups, topics, strict=True)
    ]
    return Read(OffsetFetchRequest(wanted), topics)


def _fetch_parts(group: Any, topics: TopicsById) -> list[PartitionName] | None:
    if group.topics is None:
        return None
    parts = []
    for topic in group.topics:
        name = topics.name_of(topic, list(topic.partition_indexes))
        if name is not None:
            parts += [PartitionName(name, number) for number in topic.partition_indexes]
    return parts


def write_offset_fetch(request: IncomingRequest, message: OffsetFetchResponse) -> Values:
    """Old versions ask for one group, and have its fields at the top."""
    if request.version < GROUPS_FROM:
        group = message.groups[0]
        return {"topics": _topics_by_name(group), "error_code": group.error_code}
    told = _topics_by_name if request.version < IDS_FROM else _topics_by_id
    return {
        "groups": [
            {"group_id": group.group_id, "topics": told(group, named), "error_code": group.error_code}
            for group, named in zip(message.groups, request.context, strict=False)
        ]
    }


def _topics_by_name(group: OffsetFetchGroupResult, named: TopicsById | None = None) -> list[dict[str, Any]]:
    return [
        {"name": name, "partitions": [_committed(part) for part in parts]}
        for name, parts in by_topic(group.parts).items()
    ]


def _topics_by_id(group: OffsetFetchGroupResult, named: TopicsById) -> list[dict[str, Any]]:
    """Of a topic that is gone by now nothing can be told, for it has no id any more."""
    told = [
        {"topic_id": named.id_of(name), "partitions": [_committed(part) for part in parts]}
        for name, parts in by_topic(group.parts).items()
    ]
    for topic_id, partitions in named.unknown.items():
        refused = [OffsetFetchPartResult(UnknownTopicId.code, "", "", number) for number in partitions]
        told.append({"topic_id": topic_id, "partitions": [_committed(part) for part in refused]})
    return [topic for topic in told if topic["topic_id"] != NO_UUID]


def _committed(part: OffsetFetchPartResult) -> dict[str, Any]:
    return {
        "partition_index": part.partition,
        "committed_offset": part.offset,
        "committed_leader_epoch": part.leader_epoch,
        "metadata": part.metadata,
        "error_code": part.error_code,
    }


def failed_offset_fetch(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, OffsetFetchRequest)
    groups = [
        OffsetFetchGroupResult(
            error.code,
            str(error),
            group.group_id,
            tuple(OffsetFetchPartResult(error.code, "", part.topic, part.partition) for part in group.parts or ()),
        )
        for group in message.groups
    ]
    return write_offset_fetch(request, OffsetFetchResponse(groups))


# --- OffsetDelete --------------------------------------------------------------------------------------------------------


def read_offset_delete(asked: Asked) -> Read:
    parts = [
        PartitionName(topic.name, one.partition_index) for topic in asked.entity.topics for one in topic.partitions
    ]
    return Read(OffsetDeleteRequest(asked.entity.group_id, parts))


def write_offset_delete(request: IncomingRequest, message: OffsetDeleteResponse) -> Values:
    return {
        "error_code": message.error_code,
        "topics": [
            {
                "name": name,
                "partitions": [{"partition_index": part.partition, "error_code": part.error_code} for part in parts],
            }
            for name, parts in by_topic(message.parts).items()
        ],
    }


def failed_offset_delete(request: IncomingRequest, error: OttlaError) -> Values:
    return error_values(error)


GROUP_OFFSET_APIS = [
    KafkaApi(Api.OFFSET_COMMIT, 2, 10, read_commit, write_commit, failed_commit),
    KafkaApi(Api.OFFSET_FETCH, 1, 10, read_offset_fetch, write_offset_fetch, failed_offset_fetch),
    KafkaApi(Api.OFFSET_DELETE, 0, 0, read_offset_delete, write_offset_delete, failed_offset_delete),
]
