"""Every request that a broker understands, in one table."""

from ottla.wire.control import (
    BrokerHandshakeRequest,
    ControlledShutdownRequest,
    ElectLeadersRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WitnessRequest,
)
from ottla.wire.messages import Request
from ottla.wire.requests import (
    AlterConfigsRequest,
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    ReassignRequest,
)

REQUESTS: dict[int, type[Request]] = {
    cls.api: cls
    for cls in (
        ApiVersionsRequest,
        MetadataRequest,
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        InitProducerIdRequest,
        CreatePartitionsRequest,
        AlterConfigsRequest,
        ReassignRequest,
        BrokerHandshakeRequest,
        WitnessRequest,
        ControlledShutdownRequest,
        ElectLeadersRequest,
        LeaderAndIsrRequest,
        UpdateMetadataRequest,
        StopReplicaRequest,
    )
}
"""Every request that a broker understands, by api."""
