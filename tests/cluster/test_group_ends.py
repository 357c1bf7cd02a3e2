"""Members of a group that is gone, and groups that are deleted right after their last member has left."""

import uuid

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.errors import UnknownMemberId
from ottla.wire.groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.support.raw_member import RawMember

pytestmark = pytest.mark.cluster


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def test_member_of_a_group_that_is_gone_is_told_that_it_is_none(cluster1: LocalCluster, group: str) -> None:
    """Before: GROUP_ID_NOT_FOUND, upon which kafka-python kept its partitions for good. Kafka answers UNKNOWN_MEMBER_ID."""
    member = RawMember(cluster1, group)
    member.member_id, member.generation = "member-1", 3
    assert isinstance(member.heartbeat(), UnknownMemberId)
    left = member.leave()
    assert left.error_code == 0
    assert [(one.member_id, one.error_code) for one in left.members] == [("member-1", UnknownMemberId.code)]
    with Admin(bootstrap_servers=cluster1.bootstrap) as admin:
        assert group not in admin.list_groups(), "asking makes no group"
    member.close()


def test_group_can_be_deleted_as_soon_as_its_last_member_has_left(cluster1: LocalCluster, group: str) -> None:
    """Before: 16 of 20 such deletions were refused with NOT_COORDINATOR."""
    with Admin(bootstrap_servers=cluster1.bootstrap) as admin:
        for number in range(5):
            member = RawMember(cluster1, f"{group}-{number}")
            member.join_alone()
            member.leave()
            member.ask(DeleteGroupsRequest([member.group]), DeleteGroupsResponse).groups[0].raise_if_failed()
            member.close()
        assert not [one for one in admin.list_groups() if one.startswith(group)]
