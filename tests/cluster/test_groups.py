"""Groups on a live cluster: what their coordinators keep in ZooKeeper, and who may write there."""

import json
import uuid
from collections.abc import Callable, Iterator

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    NonEmptyGroup,
    NotCoordinator,
    OffsetMetadataTooLarge,
    OttlaError,
    PolicyViolation,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from ottla.wire.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitPart,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from ottla.wire.messages import PartitionName
from ottla.wire.requests import MetadataRequest, MetadataResponse
from tests.support.broker_requests import address
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.raw_client import RawClient, framed
from tests.support.raw_member import RawMember, find_coordinator
from tests.support.workload import HASTY
from tests.support.znodes import read_znode

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 3, "broker_config": {**HASTY, "group.min.session.timeout.ms": "100", "group.max.size": "3"}}

MakeMember = Callable[..., RawMember]


@pytest.fixture(scope="module")
def t(cluster: LocalCluster) -> str:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("t", partitions=4, replication_factor=3)
    return "t"


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make(cluster: LocalCluster, t: str, group: str) -> Iterator[MakeMember]:
    wait_until(lambda: all(_knows_all(cluster, broker) for broker in cluster.brokers), scaled(30))
    made: list[RawMember] = []

    def make(**options: object) -> RawMember:
        made.append(RawMember(cluster, group, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for member in made:
        member.close()


def _knows_all(cluster: LocalCluster, broker: int) -> bool:
    """Whether a broker knows that all live: till then it may name another coordinator than the others."""
    with RawClient(address(cluster, broker)) as client:
        return len(client.ask(MetadataRequest([]), MetadataResponse).brokers) == len(cluster.brokers)


def test_s81_s82_s85_owners_and_offsets_of_a_group_stand_in_zookeeper(
    cluster: LocalCluster, make: MakeMember, group: str
) -> None:
    one = make()
    one.join_alone([("t", 0), ("t", 1)])
    one.commit({("t", 0): 42, ("t", 1): 7})
    assert read_znode(cluster, f"/consumers/{group}/offsets/t/0").data == b"42"
    assert read_znode(cluster, f"/consumers/{group}/owners/t/1").data.decode() == one.member_id
    member = json.loads(read_znode(cluster, f"/consumers/{group}/ids/{one.member_id}").data)
    assert member["subscription"] == {"t": 1}
    known = json.loads(read_znode(cluster, f"/consumers/{group}").data)
    assert (known["generation"], known["coordinator"], known["assigned"]) == (1, one.broker, True)


def test_every_broker_names_the_same_coordinator_and_others_do_not_coordinate(
    cluster: LocalCluster, make: MakeMember, group: str
) -> None:
    named = {find_coordinator(cluster, group, broker).broker_id for broker in cluster.brokers}
    assert len(named) == 1
    other = make(broker=next(broker for broker in cluster.brokers if broker not in named))
    for ask in (other.join, other.committed, lambda: other.commit({("t", 0): 1})):
        with pytest.raises(NotCoordinator):
            ask()


def test_a17_members_and_offsets_outlive_their_coordinator(cluster: LocalCluster, make: MakeMember, group: str) -> None:
    one = make(session_ms=60_000)
    one.join_alone([("t", 0)])
    one.commit({("t", 0): 42})
    cluster.kill(one.broker)
    wait_until(lambda: find_coordinator(cluster, group).broker_id != one.broker)
    other = make()
    other.member_id, other.generation = one.member_id, one.generation
    assert other.heartbeat() is None, "nobody need join again"
    assert other.committed() == {("t", 0): 42}
    other.commit({("t", 0): 43})
    assert other.committed() == {("t", 0): 43}


def test_a17_coordinator_that_slept_while_another_took_over_can_write_nothing(
    cluster: LocalCluster, make: MakeMember, group: str
) -> None:
    old = make(session_ms=60_000)
    old.join_alone([("t", 0)])
    old.commit({("t", 0): 5})
    cluster.pause(old.broker)
    try:
        wait_until(lambda: _coordinator_seen_by_others(cluster, group, old.broker) != old.broker)
        new = make(broker=_coordinator_seen_by_others(cluster, group, old.broker))
        new.member_id, new.generation = old.member_id, old.generation
        new.commit({("t", 0): 9})
        parts = [OffsetCommitPart("t", 0, 6)]
        old.client.send(_late_commit(old, parts))
    finally:
        cluster.resume(old.broker)
    answer = old.client.answer()
    assert answer.error is not None, "it was told that a commit stands which does not"
    assert isinstance(answer.error, NotCoordinator), answer.error
    assert new.committed() == {("t", 0): 9}


def _coordinator_seen_by_others(cluster: LocalCluster, group: str, but: int) -> int:
    other = next(broker for broker in cluster.brokers if broker != but)
    return find_coordinator(cluster, group, other).broker_id


def _late_commit(member: RawMember, parts: list[OffsetCommitPart]) -> bytes:
    return framed(OffsetCommitRequest(member.group, member.generation, member.member_id, None, parts))


def test_a16_late_commits_are_refused_and_offsets_do_not_move(make: MakeMember) -> None:
    one = make(session_ms=300)
    one.join_alone()
    one.commit({("t", 0): 10})
    two = make(session_ms=60_000)
    two.join()  # answered when one, which says nothing, is out of time
    two.sync({two.member_id: [("t", 0)]})
    two.commit({("t", 0): 20})
    with pytest.raises((UnknownMemberId, IllegalGeneration)):
        one.commit({("t", 0): 11})
    assert two.committed() == {("t", 0): 20}


def test_partition_that_is_named_twice_in_a_commit_is_committed_as_it_is_named_last(make: MakeMember) -> None:
    one = make()
    one.join_alone()
    one.commit({("t", 0): 1}, parts=[OffsetCommitPart("t", 0, 7), OffsetCommitPart("t", 0, 5)])
    assert one.committed() == {("t", 0): 5}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"generation_id": 0}, IllegalGeneration),
        ({"generation_id": 99}, IllegalGeneration),
        ({"generation_id": -1, "member_id": ""}, NonEmptyGroup),
        ({"member_id": "somebody"}, UnknownMemberId),
        ({"group_id": ""}, InvalidGroupId),
        ({"group_id": "x" * 256}, InvalidGroupId),
        ({"parts": [OffsetCommitPart("nowhere", 0, 1)]}, UnknownTopicOrPartition),
        ({"parts": [OffsetCommitPart("t", 4, 1)]}, UnknownTopicOrPartition),
        ({"parts": [OffsetCommitPart("t", -1, 1)]}, UnknownTopicOrPartition),
        ({"parts": [OffsetCommitPart("../t", 0, 1)]}, UnknownTopicOrPartition),
        ({"parts": [OffsetCommitPart("t", 0, 2**63)]}, InvalidRequest),
        ({"parts": [OffsetCommitPart("t", 0, 1, 0, "m" * 5000)]}, OffsetMetadataTooLarge),
    ],
    ids=repr,
)
def test_commits_that_make_no_sense_are_typed_errors(
    make: MakeMember, changed: dict[str, object], error: type[OttlaError]
) -> None:
    one = make()
    one.join_alone()
    one.commit({("t", 0): 1})
    with pytest.raises(error):
        one.commit({("t", 0): 2}, **changed)
    assert one.committed() == {("t", 0): 1}
    assert one.heartbeat() is None


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (("g", 99, 1000, "", None, "consumer", [GroupProtocol("range", b"")]), InvalidSessionTimeout),
        (("g", 2**31, 1000, "", None, "consumer", [GroupProtocol("range", b"")]), InvalidSessionTimeout),
        (("g", 1000, -1, "", None, "consumer", [GroupProtocol("range", b"")]), InvalidRequest),
        (("g", 1000, 1000, "", None, "consumer", [GroupProtocol("range", bytes(70_000))]), InvalidRequest),
        (("", 1000, 1000, "", None, "consumer", [GroupProtocol("range", b"")]), InvalidGroupId),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_joins_that_make_no_sense_are_typed_errors(
    make: MakeMember, request_: tuple[object, ...], error: type[OttlaError]
) -> None:
    one = make()
    one.client.greet()  # before it, requests must be small
    group = one.group if request_[0] else ""
    with pytest.raises(error):
        one.ask(JoinGroupRequest(group, *request_[1:]), JoinGroupResponse).raise_if_failed()  # type: ignore[arg-type]


def test_a_connection_brings_only_so_many_groups_into_being(
    cluster: LocalCluster, make: MakeMember, group: str
) -> None:
    one = make()
    refused: list[int] = []
    for number in range(1000):
        name = f"{group}-{number}"
        if find_coordinator(cluster, name, one.broker).broker_id == one.broker:
            one.group = name
            try:
                one.member_id = ""
                one.join()
            except PolicyViolation:
                refused.append(number)
                break
    assert refused


def test_group_ids_may_have_any_letters(cluster: LocalCluster, t: str) -> None:
    for name in ("with/slash", "..", ".", "a b", "größe", "%2F", "new\nline", "\x00"):
        one = RawMember(cluster, name)
        try:
            one.join_alone()
            one.commit({("t", 0): 3})
            assert one.committed() == {("t", 0): 3}
            listed = one.ask(ListGroupsRequest([]), ListGroupsResponse).groups
            assert name in [each.group_id for each in listed]
        finally:
            one.leave()
            one.close()


def test_groups_are_described_listed_and_deleted(make: MakeMember, group: str) -> None:
    one = make()
    one.join_alone([("t", 0), ("t", 1)])
    one.commit({("t", 0): 1, ("t", 1): 1})
    described, missing = one.ask(DescribeGroupsRequest([group, f"{group}-not"]), DescribeGroupsResponse).groups
    assert (described.state, described.protocol_name, len(described.members)) == ("Stable", "range", 1)
    assert type(missing.error()) in (GroupIdNotFound, NotCoordinator)
    (deleted,) = one.ask(DeleteGroupsRequest([group]), DeleteGroupsResponse).groups
    assert isinstance(deleted.error(), NonEmptyGroup)
    (kept,) = one.ask(OffsetDeleteRequest(group, [PartitionName("t", 0)]), OffsetDeleteResponse).parts
    assert isinstance(kept.error(), GroupSubscribedToTopic)
    one.leave()
    one.ask(OffsetDeleteRequest(group, [PartitionName("t", 0)]), OffsetDeleteResponse).parts[0].raise_if_failed()
    assert one.committed() == {("t", 1): 1}, "with its last offset the group would go"
    (deleted,) = one.ask(DeleteGroupsRequest([group]), DeleteGroupsResponse).groups
    deleted.raise_if_failed()
    assert group not in [each.group_id for each in one.ask(ListGroupsRequest([]), ListGroupsResponse).groups]


def test_a_group_that_is_rebalancing_says_so_to_its_members(make: MakeMember) -> None:
    one, two = make(), make()
    one.join_alone()
    two.member_id = _promised_id(two)
    two.client.send(_join(two))
    wait_until(lambda: isinstance(one.heartbeat(), RebalanceInProgress))
    one.join()
    response = two.client.answer()
    assert response.error is None
    assert one.generation == 2


def _promised_id(member: RawMember) -> str:
    request = JoinGroupRequest(member.group, 10_000, 10_000, "", None, "consumer", [GroupProtocol("range", b"")])
    return member.ask(request, JoinGroupResponse).member_id


def _join(member: RawMember) -> bytes:
    protocols = [GroupProtocol("range", b"")]
    return framed(JoinGroupRequest(member.group, 10_000, 10_000, member.member_id, None, "consumer", protocols))


def test_static_member_is_fenced_by_its_successor(make: MakeMember) -> None:
    one, two = make(instance="i"), make(instance="i")
    one.join_alone()
    two.join()
    assert two.generation == one.generation, "it has its place, without a rebalance"
    assert isinstance(one.heartbeat(), FencedInstanceId)
    with pytest.raises(FencedInstanceId):
        one.commit({("t", 0): 1})
    two.commit({("t", 0): 2})
    assert two.committed() == {("t", 0): 2}


def test_s88_groups_go_on_where_they_committed_after_all_brokers_were_killed(
    cluster: LocalCluster, make: MakeMember, group: str
) -> None:
    one = make(session_ms=60_000)
    one.join_alone([("t", 0)])
    one.commit({("t", 0): 42})
    for broker in cluster.brokers:
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.start(broker)
    wait_until(lambda: find_coordinator(cluster, group).broker_id >= 0)
    other = make()
    other.member_id, other.generation = one.member_id, one.generation
    assert other.committed() == {("t", 0): 42}
    assert other.heartbeat() is None
