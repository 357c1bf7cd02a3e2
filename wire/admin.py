"""What operators ask of a cluster: lists of things, and a result for each. What fails does so alone, and costs nothing.

As Kafka's messages of the same names, but flat: a partition is named by topic and number in one part.
"""

from enum import IntEnum
from typing import Final

from ottla.wire.messages import Api, Failure, Message, PartitionName, Request

# --- topics ------------------------------------------------------------------------------------------------------------


class TopicResult(Failure):
    name: str
    topic_id: str = ""


class NewTopic(Message):
    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]
    assignment: list[list[int]] | None = None
    topic_id: str = ""
    """The id that the topic shall have, a random uuid. Who asks again because the answer was lost is known by it."""


class CreateTopicsResponse(Message):
    topics: list[TopicResult]


class CreateTopicsRequest(Request):
    api = Api.CREATE_TOPICS
    response = CreateTopicsResponse
    topics: list[NewTopic]
    timeout_ms: int
    validate_only: bool = False


class TopicToDelete(Message):
    """By name, by id, or by both: then another topic of that name stays."""

    name: str
    topic_id: str = ""


class DeleteTopicsResponse(Message):
    topics: list[TopicResult]


class DeleteTopicsRequest(Request):
    api = Api.DELETE_TOPICS
    response = DeleteTopicsResponse
    topics: list[TopicToDelete]
    timeout_ms: int


class NewPartitions(Message):
    name: str
    count: int
    """How many the topic shall have, with those that it has."""
    assignment: list[list[int]] | None = None
    """The replicas of the new ones."""


class CreatePartitionsResponse(Message):
    topics: list[TopicResult]


class CreatePartitionsRequest(Request):
    """Let topics have more partitions."""

    api = Api.CREATE_PARTITIONS
    response = CreatePartitionsResponse
    topics: list[NewPartitions]
    timeout_ms: int
    validate_only: bool = False


# --- settings ----------------------------------------------------------------------------------------------------------

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
"""Kafka's numbers for what has settings."""

HIGH_WATERMARK: Final = -1
"""Where DeleteRecords takes an offset: up to the end of what is committed."""


class ConfigResult(Failure):
    resource_type: int
    name: str


class ConfigReplacement(Message):
    resource_type: int
    name: str
    config: dict[str, str]


class AlterConfigsResponse(Message):
    resources: list[ConfigResult]


class AlterConfigsRequest(Request):
    """Replace all settings of these resources."""

    api = Api.ALTER_CONFIGS
    response = AlterConfigsResponse
    resources: list[ConfigReplacement]
    timeout_ms: int
    validate_only: bool = False
    any_broker: bool = False
    """Whoever is asked has the controller do it; else it must be the controller that is asked."""


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(Message):
    key: str
    operation: int
    value: str | None = None


class ConfigAlteration(Message):
    resource_type: int
    name: str
    changes: list[ConfigChange]


class IncrementalAlterConfigsResponse(Message):
    resources: list[ConfigResult]


class IncrementalAlterConfigsRequest(Request):
    """Change some settings of these resources and leave the others as they are."""

    api = Api.INCREMENTAL_ALTER_CONFIGS
    response = IncrementalAlterConfigsResponse
    resources: list[ConfigAlteration]
    timeout_ms: int
    validate_only: bool = False
    any_broker: bool = False


class ConfigSource(IntEnum):
    """Kafka's numbers for where a setting comes from."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    """Set for the broker while it runs,"""
    DYNAMIC_DEFAULT_BROKER = 3
    """or for all of them."""
    BROKER = 4
    """What the broker was started with."""
    DEFAULT = 5
    BROKER_LOGGER = 6
    """The level of a logger."""
    GROUP = 8


class ConfigType(IntEnum):
    """Kafka's numbers for the type of a setting's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigsToDescribe(Message):
    resource_type: int
    name: str
    keys: list[str] | None = None
    """None: all."""


class ConfigSynonym(Message):
    """A value that counts where those before it say nothing."""

    key: str
    value: str
    source: int


class ConfigEntry(Message):
    key: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    """Where the value comes from, and what would count else: the first is the value's own."""
    config_type: int = ConfigType.UNKNOWN
    documentation: str | None = None
    """None unless it was asked for."""


class DescribedConfigs(Failure):
    resource_type: int
    name: str
    entries: tuple[ConfigEntry, ...] = ()


class DescribeConfigsResponse(Message):
    resources: list[DescribedConfigs]


class DescribeConfigsRequest(Request):
    """Settings and where they come from; any broker answers."""

    api = Api.DESCRIBE_CONFIGS
    response = DescribeConfigsResponse
    resources: list[ConfigsToDescribe]
    documentation: bool = False


class ConfigResourceName(Message):
    resource_type: int
    name: str


class ListConfigResourcesResponse(Failure):
    resources: tuple[ConfigResourceName, ...] = ()


class ListConfigResourcesRequest(Request):
    """What has settings: of these types, or of all if none is named. Any broker answers."""

    api = Api.LIST_CONFIG_RESOURCES
    response = ListConfigResourcesResponse
    resource_types: list[int]


# --- partitions --------------------------------------------------------------------------------------------------------


class PartitionResult(Failure):
    topic: str
    partition: int


class RecordsToDelete(Message):
    topic: str
    partition: int
    offset: int
    """The first that stays; HIGH_WATERMARK for none of those that are committed."""


class DeletedRecords(Failure):
    topic: str
    partition: int
    low_watermark: int = -1
    """The first offset that any replica in sync still has."""


class DeleteRecordsResponse(Message):
    partitions: list[DeletedRecords]


class DeleteRecordsRequest(Request):
    """Let partitions begin later. Their leaders answer, when every replica in sync has noted it on disk."""

    api = Api.DELETE_RECORDS
    response = DeleteRecordsResponse
    partitions: list[RecordsToDelete]
    timeout_ms: int


# --- data folders --------------------------------------------------------------------------------------------------------


class ReplicaInFolder(Message):
    topic: str
    partition: int
    size: int
    """Bytes of its segments."""
    lag: int
    """How many records the log ends behind what this broker knows to be committed."""


class DescribedLogDir(Failure):
    folder: str
    replicas: tuple[ReplicaInFolder, ...] = ()
    total_bytes: int = -1
    """The size of the disk,"""
    usable_bytes: int = -1
    """and what of it a broker can still write."""


class DescribeLogDirsResponse(Message):
    folders: list[DescribedLogDir]


class DescribeLogDirsRequest(Request):
    """What does this broker have in its data folders, of these partitions or of all?"""

    api = Api.DESCRIBE_LOG_DIRS
    response = DescribeLogDirsResponse
    partitions: list[PartitionName] | None


class ReplicaToMove(Message):
    topic: str
    partition: int
    folder: str


class AlterReplicaLogDirsResponse(Message):
    partitions: list[PartitionResult]


class AlterReplicaLogDirsRequest(Request):
    """Which replicas of this broker shall be in which of its data folders."""

    api = Api.ALTER_REPLICA_LOG_DIRS
    response = AlterReplicaLogDirsResponse
    partitions: list[ReplicaToMove]


class ElectionType(IntEnum):
    PREFERRED = 0
    """Give leadership back to the first replica of the assignment, where it is in sync."""
    UNCLEAN = 1
    """Where nobody leads, let whoever lives lead, and lose what only others have."""


class ElectLeadersResponse(Message):
    partitions: list[PartitionResult]
    """If none were named: those where an election was needed."""


class ElectLeadersRequest(Request):
    """Elect leaders of these partitions, or of all."""

    api = Api.ELECT_LEADERS
    response = ElectLeadersResponse
    election_type: int
    partitions: list[PartitionName] | None
    timeout_ms: int


class Reassignment(Message):
    topic: str
    partition: int
    replicas: list[int] | None
    """The preferred leader first. None: call off what is under way, and go back."""


class AlterPartitionReassignmentsResponse(Message):
    partitions: list[PartitionResult]


class AlterPartitionReassignmentsRequest(Request):
    """Begin to move partitions to other brokers, or call that off."""

    api = Api.ALTER_PARTITION_REASSIGNMENTS
    response = AlterPartitionReassignmentsResponse
    partitions: list[Reassignment]
    timeout_ms: int


class OngoingReassignment(Message):
    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class ListPartitionReassignmentsResponse(Message):
    partitions: list[OngoingReassignment]


class ListPartitionReassignmentsRequest(Request):
    """Which partitions are being moved: of these, or of all."""

    api = Api.LIST_PARTITION_REASSIGNMENTS
    response = ListPartitionReassignmentsResponse
    partitions: list[PartitionName] | None
    timeout_ms: int
