"""A member of a group whose coordinator assigns that says exactly what it is told to."""

from types import TracebackType
from typing import Any

from ottla.local import LocalCluster
from ottla.wire.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.errors import OttlaError
from ottla.wire.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    OffsetCommitPart,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.wire.messages import PartitionName
from tests.support.broker_requests import address
from tests.support.raw_client import RawClient
from tests.support.raw_member import find_coordinator


class RawConsumer:
    """Its topic is called as its group is."""

    def __init__(self, cluster: LocalCluster, group: str, member_id: str) -> None:
        self._client = RawClient(address(cluster, find_coordinator(cluster, group).broker_id))
        self._group = group
        self._member_id = member_id

    def __enter__(self) -> "RawConsumer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def join(self, **more: Any) -> ConsumerGroupHeartbeatResponse:
        """Its answer; of one that was refused, the error."""
        given = {"rebalance_timeout_ms": 10_000, "topics": (self._group,), "owned": (), **more}
        return self.heartbeat(0, **given)

    def leave(self) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(-1)

    def heartbeat(self, epoch: int, **more: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(self._group, self._member_id, epoch, **more)
        try:
            return self._client.ask(request, ConsumerGroupHeartbeatResponse)
        except OttlaError as error:
            return ConsumerGroupHeartbeatResponse(error.code, str(error))

    def describe(self, group: str) -> dict[str, int]:
        """What Kafka's clients are answered that ask for a group of either kind: error codes."""
        classic = self._client.ask(DescribeGroupsRequest([group], classic_only=True), DescribeGroupsResponse)
        consumer = self._client.ask(ConsumerGroupDescribeRequest([group]), ConsumerGroupDescribeResponse)
        return {"classic": classic.groups[0].error_code, "consumer": consumer.groups[0].error_code}

    def commit(self, member_id: str, epoch: int) -> int:
        """The error code that it is answered with."""
        part = OffsetCommitPart(self._group, 0, 7)
        try:
            answer = self._client.ask(
                OffsetCommitRequest(self._group, epoch, member_id, None, [part]), OffsetCommitResponse
            )
        except OttlaError as error:
            return error.code
        return answer.parts[0].error_code

    def fetch(self, member_id: str | None, epoch: int) -> int:
        """As ``commit``, of what was committed."""
        group = OffsetFetchGroup(self._group, [PartitionName(self._group, 0)], member_id, epoch)
        return self._client.ask(OffsetFetchRequest([group]), OffsetFetchResponse).groups[0].error_code
