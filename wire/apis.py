"""Every request that a broker understands, in one table."""

from ottla.wire.admin import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
)
from ottla.wire.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from ottla.wire.control import (
    BrokerHandshakeRequest,
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    PeerMetadataRequest,
    StopReplicaRequest,
    UnreachableLeadersRequest,
    UpdateMetadataRequest,
    WitnessRequest,
)
from ottla.wire.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from ottla.wire.messages import Request
from ottla.wire.named_writes import BeginWriteRequest, EndWriteRequest
from ottla.wire.requests import (
    ApiVersionsRequest,
    DescribeProducersRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)

REQUESTS: dict[int, type[Request]] = {
    cls.api: cls
    for cls in (
        ApiVersionsRequest,
        MetadataRequest,
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        DescribeProducersRequest,
        CreatePartitionsRequest,
        DescribeConfigsRequest,
        AlterReplicaLogDirsRequest,
        DescribeLogDirsRequest,
        AlterConfigsRequest,
        IncrementalAlterConfigsRequest,
        ListConfigResourcesRequest,
        AlterPartitionReassignmentsRequest,
        ListPartitionReassignmentsRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        OffsetDeleteRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        DeleteGroupsRequest,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribeRequest,
        BeginWriteRequest,
        EndWriteRequest,
        BrokerHandshakeRequest,
        WitnessRequest,
        PeerMetadataRequest,
        UnreachableLeadersRequest,
        ControlledShutdownRequest,
        ElectLeadersRequest,
        LeaderAndIsrRequest,
        UpdateMetadataRequest,
        StopReplicaRequest,
    )
}
"""Every request that a broker understands, by api."""
