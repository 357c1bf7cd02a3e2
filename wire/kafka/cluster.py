"""ApiVersions, Metadata and its later forms, FindCoordinator: whom to ask what."""

from typing import Any, NamedTuple

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    NO_ERROR,
    ClusterAuthorizationFailed,
    InvalidRequest,
    LeaderNotAvailable,
    MismatchedEndpointType,
    OttlaError,
    UnknownTopicId,
    UnsupportedEndpointType,
)
from ottla.wire.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.kafka.api import Asked, KafkaApi, Read, error_values, failed_at_top
from ottla.wire.kafka.operations import NOT_ASKED, OF_CLUSTER, OF_TOPIC
from ottla.wire.kafka.schemas import Values
from ottla.wire.kafka.topic_ids import to_bytes, to_text
from ottla.wire.messages import Api
from ottla.wire.names import NO_LEADER
from ottla.wire.requests import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)

GROUP_KEYS, TRANSACTION_KEYS = 0, 1
"""The kinds of things that a coordinator is asked for."""

PARTITIONS_MAX = 2_000
"""How many partitions DescribeTopicPartitions tells at most in one answer."""

NULL_NAMES_FROM = 12
"""The version of Metadata whose topics need have no name."""

NO_ELIGIBLE_LEADERS: dict[str, Any] = {"eligible_leader_replicas": [], "last_known_elr": []}
"""They may be null by Kafka's schema, and its own admin fails at that (4.3): Kafka's brokers tell empty lists."""

BROKERS = 1
CONTROLLERS = 2
"""The kinds of endpoints that DescribeCluster is asked for."""

# --- ApiVersions ---------------------------------------------------------------------------------------------------------


def read_api_versions(asked: Asked) -> Read:
    name, version = asked.get("client_software_name", ""), asked.get("client_software_version", "")
    return Read(ApiVersionsRequest(f"{name} {version}".strip()))


def write_api_versions(request: IncomingRequest, message: ApiVersionsResponse) -> Values:
    return {
        "api_keys": [{"api_key": one.api, "min_version": one.oldest, "max_version": one.newest} for one in message.apis]
    }


# --- Metadata ------------------------------------------------------------------------------------------------------------


class MetadataContext(NamedTuple):
    """What an answer needs of the request beside the metadata."""

    unknown: tuple[bytes, ...] = ()
    """Ids that no topic is known to have."""
    operations_of_topics: bool = False
    operations_of_cluster: bool = False


def read_metadata(asked: Asked) -> Read:
    """Topics by name or by id; null asks for all, and so does an empty list in version 0.

    Where there is an id, it counts: Kafka's Java admin sends an empty name beside it, not null.
    """
    topics = asked.entity.topics
    of_topics = bool(asked.get("include_topic_authorized_operations", False))
    of_cluster = bool(asked.get("include_cluster_authorized_operations", False))
    if topics is None or (not topics and asked.version == 0):
        return Read(MetadataRequest(None), MetadataContext((), of_topics, of_cluster))
    names: list[str] = []
    unknown: list[bytes] = []
    for topic in topics:
        name = topic.name
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is not None:
            name = asked.topics.topic_name_of(to_text(topic_id))
            if name is None:
                unknown.append(topic_id)
                continue
        names.append(name or "")
    create = bool(asked.get("allow_auto_topic_creation", True))
    return Read(MetadataRequest(names, auto_create=create), MetadataContext(tuple(unknown), of_topics, of_cluster))


def write_metadata(request: IncomingRequest, message: MetadataResponse) -> Values:
    alive = {broker.id for broker in message.brokers}
    context: MetadataContext = request.context or MetadataContext()
    topics = [_topic(topic, alive) for topic in message.topics]
    for topic in topics if context.operations_of_topics else ():
        if topic["error_code"] == NO_ERROR:
            topic["topic_authorized_operations"] = OF_TOPIC
    no_name = None if request.version >= NULL_NAMES_FROM else ""
    unknown: list[dict[str, Any]] = [
        {"error_code": UnknownTopicId.code, "name": no_name, "topic_id": topic_id, "partitions": []}
        for topic_id in context.unknown
    ]
    return {
        "brokers": [
            {"node_id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
            for broker in (*message.brokers, *message.departed)
        ],
        "cluster_id": message.cluster_id,
        "controller_id": message.controller if message.controller in alive else NO_LEADER,
        "topics": topics + unknown,
        "cluster_authorized_operations": OF_CLUSTER if context.operations_of_cluster else NOT_ASKED,
    }


def _topic(topic: TopicMetadata, alive: set[int]) -> dict[str, Any]:
    return {
        "error_code": topic.error_code,
        "name": topic.name,
        "topic_id": to_bytes(topic.topic_id),
        "partitions": [_partition(partition, alive) for partition in topic.partitions],
    }


def _partition(partition: PartitionMetadata, alive: set[int]) -> dict[str, Any]:
    leader = partition.leader if partition.leader in alive else NO_LEADER
    return {
        "error_code": LeaderNotAvailable.code if leader == NO_LEADER else partition.error_code,
        "partition_index": partition.partition,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": [replica for replica in partition.replicas if replica not in alive],
    }


def failed_metadata(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    names = message.topics if isinstance(message, MetadataRequest) and message.topics else []
    return {
        "error_code": error.code,
        "controller_id": NO_LEADER,
        "topics": [{"error_code": error.code, "name": name} for name in names],
    }


# --- DescribeCluster, DescribeTopicPartitions: metadata in other forms --------------------------------------------------------


def read_describe_cluster(asked: Asked) -> Read:
    with_operations = bool(asked.entity.include_cluster_authorized_operations)
    return Read(MetadataRequest([]), (asked.get("endpoint_type", BROKERS), with_operations))


def write_describe_cluster(request: IncomingRequest, message: MetadataResponse) -> Values:
    endpoint_type, with_operations = request.context
    if endpoint_type != BROKERS:
        refusal = MismatchedEndpointType if endpoint_type == CONTROLLERS else UnsupportedEndpointType
        why = (
            f"endpoint type {endpoint_type}; brokers tell of brokers, whose type is {BROKERS}, and one of them controls"
        )
        return {**error_values(refusal(why)), "endpoint_type": endpoint_type}
    return {
        "cluster_id": message.cluster_id,
        "controller_id": message.controller,
        "brokers": [
            {"broker_id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
            for broker in message.brokers
        ],
        "cluster_authorized_operations": OF_CLUSTER if with_operations else NOT_ASKED,
    }


def read_describe_topics(asked: Asked) -> Read:
    names = sorted({topic.name for topic in asked.entity.topics})
    cursor = asked.entity.cursor
    start = (cursor.topic_name, cursor.partition_index) if cursor is not None else ("", 0)
    limit = max(1, min(asked.entity.response_partition_limit, PARTITIONS_MAX))
    return Read(MetadataRequest(names or None), (start, limit))


def write_describe_topics(request: IncomingRequest, message: MetadataResponse) -> Values:
    """Topics in the order of their names, as many partitions as there is room for; the cursor says where to go on."""
    (first_topic, first_partition), room = request.context
    alive = {broker.id for broker in message.brokers}
    told: list[dict[str, Any]] = []
    for topic in sorted(message.topics, key=lambda one: one.name):
        if topic.name < first_topic:
            continue
        values = _topic(topic, alive)
        values["partitions"] = [partition | NO_ELIGIBLE_LEADERS for partition in values["partitions"]]
        begin = first_partition if topic.name == first_topic else 0
        values["partitions"] = values["partitions"][begin : begin + room]
        if topic.error_code == NO_ERROR:
            values["topic_authorized_operations"] = OF_TOPIC  # always: the request has no field to ask for it
        told.append(values)
        room -= len(values["partitions"])
        end = begin + len(values["partitions"])
        if end < len(topic.partitions):
            return {"topics": told, "next_cursor": {"topic_name": topic.name, "partition_index": end}}
    return {"topics": told}


def failed_describe_topics(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    names = message.topics if isinstance(message, MetadataRequest) and message.topics else []
    return {"topics": [{"error_code": error.code, "name": name} for name in names]}


# --- FindCoordinator -----------------------------------------------------------------------------------------------------


def read_find_coordinator(asked: Asked) -> Read:
    several = asked.get("coordinator_keys")
    keys = list(several) if several is not None else [asked.entity.key]
    kind = asked.get("key_type", GROUP_KEYS)
    if kind != GROUP_KEYS:
        return Read(FindCoordinatorRequest([]), (kind, keys))
    return Read(FindCoordinatorRequest(keys))


def write_find_coordinator(request: IncomingRequest, message: FindCoordinatorResponse) -> Values:
    """Old versions ask for one, and have its fields at the top. Nothing but groups has a coordinator."""
    if request.context is not None:
        kind, keys = request.context
        return _nobody(_no_coordinator(kind, keys), keys)
    found = [_coordinator(one) for one in message.coordinators]
    by_key = [{"key": one.group_id, **told} for one, told in zip(message.coordinators, found, strict=True)]
    return {**(found[0] if found else {}), "coordinators": by_key}


def _coordinator(found: Coordinator) -> dict[str, Any]:
    return {
        "node_id": found.broker_id,
        "host": found.host,
        "port": found.port,
        "error_code": found.error_code,
        "error_message": found.error_message if found.error_code != NO_ERROR else None,
    }


def failed_find_coordinator(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, FindCoordinatorRequest)
    _, others = request.context or (GROUP_KEYS, [])
    return _nobody(error, message.groups or others)


def _no_coordinator(kind: int, keys: list[str]) -> OttlaError:
    """Why nobody coordinates these."""
    if kind != TRANSACTION_KEYS:
        return InvalidRequest(f"nobody coordinates keys of type {kind}; known is {GROUP_KEYS}, groups")
    # Kafka's Java client says that an id is not authorized, and nothing else, where it gets the error of that name (53). It
    # shows the message of this one, and so does librdkafka.
    named = ", ".join(repr(key[:40]) for key in keys[:1])
    return ClusterAuthorizationFailed(
        f"there are no transactions here: transactional.id {named} cannot be used; enable.idempotence needs none"
    )


def _nobody(error: OttlaError, keys: list[str]) -> Values:
    nobody = {**error_values(error), "node_id": NO_LEADER, "port": -1}
    return {**nobody, "coordinators": [{**nobody, "key": key} for key in keys]}


CLUSTER_APIS = [
    KafkaApi(Api.API_VERSIONS, 0, 4, read_api_versions, write_api_versions, failed_at_top),
    KafkaApi(Api.METADATA, 0, 13, read_metadata, write_metadata, failed_metadata),
    KafkaApi(Api.FIND_COORDINATOR, 0, 6, read_find_coordinator, write_find_coordinator, failed_find_coordinator),
    KafkaApi(60, 0, 2, read_describe_cluster, write_describe_cluster, failed_at_top),
    KafkaApi(75, 0, 0, read_describe_topics, write_describe_topics, failed_describe_topics),
]
