"""A member of a group that says exactly what it is told to: no heartbeats of its own, no retries."""

from collections.abc import Iterable
from typing import TypeVar

from ottla.local import LocalCluster
from ottla.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from ottla.wire.errors import MemberIdRequired, OttlaError
from ottla.wire.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    GroupProtocol,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberAssignment,
    OffsetCommitPart,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.wire.messages import Message, Request
from ottla.wire.names import TopicPartition
from tests.support.broker_requests import address
from tests.support.raw_client import RawClient

M = TypeVar("M", bound=Message)


def find_coordinator(cluster: LocalCluster, group: str, ask: int | None = None) -> Coordinator:
    """Who coordinates a group, as a broker says."""
    broker = ask if ask is not None else next(broker for broker in cluster.brokers if cluster.alive(broker))
    with RawClient(address(cluster, broker)) as client:
        (found,) = client.ask(FindCoordinatorRequest([group]), FindCoordinatorResponse).coordinators
    found.raise_if_failed()
    return found


class RawMember:
    """Speaks to one broker."""

    def __init__(
        self,
        cluster: LocalCluster,
        group: str,
        *,
        broker: int | None = None,
        session_ms: int = 10_000,
        instance: str | None = None,
        topics: Iterable[str] = ("t",),
    ) -> None:
        self.broker = find_coordinator(cluster, group).broker_id if broker is None else broker
        self.client = RawClient(address(cluster, self.broker))
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.instance = instance
        self._session_ms = session_ms
        self._metadata = encode_subscription(Subscription(tuple(topics)))

    def close(self) -> None:
        self.client.close()

    def ask(self, request: Request, kind: type[M]) -> M:
        return self.client.ask(request, kind)

    def join(self, protocols: Iterable[str] = ("range",), rebalance_ms: int = 10_000) -> JoinGroupResponse:
        """Join, with the id that is needed for it."""
        while True:
            response = self.ask(
                JoinGroupRequest(
                    self.group, self._session_ms, rebalance_ms, self.member_id, self.instance, "consumer",
                    [GroupProtocol(name, self._metadata) for name in protocols],
                ),
                JoinGroupResponse,
            )  # fmt: skip
            self.member_id = response.member_id
            if response.error_code != MemberIdRequired.code:
                break
        response.raise_if_failed()
        self.generation = response.generation_id
        return response

    def sync(self, assignments: dict[str, Iterable[tuple[str, int]]] | None = None) -> SyncGroupResponse:
        encoded = [
            MemberAssignment(
                member, encode_assignment(Assignment(tuple(TopicPartition(*where) for where in partitions)))
            )
            for member, partitions in (assignments or {}).items()
        ]
        response = self.ask(
            SyncGroupRequest(self.group, self.generation, self.member_id, self.instance, "consumer", "", encoded),
            SyncGroupResponse,
        )
        response.raise_if_failed()
        return response

    def join_alone(self, partitions: Iterable[tuple[str, int]] = (("t", 0),)) -> None:
        """A generation with this one as its only member, which has all of these."""
        self.join()
        self.sync({self.member_id: partitions})

    def heartbeat(self) -> OttlaError | None:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance)
        response = self.ask(request, HeartbeatResponse)
        return response.error() if response.error_code else None

    def leave(self) -> LeaveGroupResponse:
        return self.ask(
            LeaveGroupRequest(self.group, [LeavingMember(self.member_id, self.instance)]), LeaveGroupResponse
        )

    def commit(self, offsets: dict[tuple[str, int], int], **changed: object) -> None:
        """Raises what any part, or the whole, was refused for."""
        parts = [OffsetCommitPart(*where, offset, 3, "why") for where, offset in offsets.items()]
        request = OffsetCommitRequest(self.group, self.generation, self.member_id, self.instance, parts)
        for name, value in changed.items():
            setattr(request, name, value)
        for part in self.ask(request, OffsetCommitResponse).parts:
            part.raise_if_failed()

    def committed(self) -> dict[TopicPartition, int]:
        request = OffsetFetchRequest([OffsetFetchGroup(self.group, None)])
        (found,) = self.ask(request, OffsetFetchResponse).groups
        found.raise_if_failed()
        return {TopicPartition(part.topic, part.partition): part.offset for part in found.parts}
