"""A group is of one kind while it has members, and may become the other one when it has none."""

import pytest

from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.kinds import AnyGroup, GroupKinds
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.membership import Client, Group, Write
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import GroupIdNotFound, InconsistentGroupProtocol
from ottla.wire.groups import GroupProtocol, JoinGroupRequest
from ottla.zk.znodes.consumers import CLASSIC_KIND, CONSUMER_KIND, GroupZnode

CLIENT = Client("c", "h")


@pytest.fixture
def kinds() -> GroupKinds:
    return GroupKinds(ClusterView("cluster"), GroupLimits())


def _new(kinds: GroupKinds) -> AnyGroup:
    return kinds.load("g", GroupZnode(), 0.0)


def _joined_classic(kinds: GroupKinds, group: AnyGroup) -> Group:
    found = kinds.as_classic(group, 0.0)
    request = JoinGroupRequest("g", 10_000, 10_000, "", "instance", "consumer", [GroupProtocol("range", b"")])
    found.join("ticket", request, CLIENT, 0.0)
    return found


def _joined_consumer(kinds: GroupKinds, group: AnyGroup) -> ConsumerGroup:
    found = kinds.as_consumer(group, 0.0)
    request = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1, topics=("a",), owned=())
    (effect,) = found.heartbeat("ticket", request, CLIENT, 0.0)
    assert isinstance(effect, Write)
    return found


def test_a_group_that_was_never_used_may_become_either(kinds: GroupKinds) -> None:
    assert _joined_classic(kinds, _new(kinds)).record().kind == CLASSIC_KIND
    assert _joined_consumer(kinds, _new(kinds)).record().kind == CONSUMER_KIND


def test_a_group_with_members_keeps_its_kind(kinds: GroupKinds) -> None:
    with pytest.raises(GroupIdNotFound, match="classic"):
        kinds.as_consumer(_joined_classic(kinds, _new(kinds)), 0.0)
    with pytest.raises(InconsistentGroupProtocol, match="coordinator assigns"):
        kinds.as_classic(_joined_consumer(kinds, _new(kinds)), 0.0)


def test_an_empty_group_turns_and_its_epochs_go_on(kinds: GroupKinds) -> None:
    group = _joined_consumer(kinds, kinds.load("g", GroupZnode(generation=6, protocol="range"), 0.0))
    assert group.epoch == 7
    group.heartbeat("ticket", ConsumerGroupHeartbeatRequest("g", "m", -1), CLIENT, 0.0)
    kept = kinds.load("g", GroupZnode.decode("g", group.record().encode()), 0.0)
    assert isinstance(kept, ConsumerGroup), "an empty one stays what it was until somebody of the other kind comes"
    turned = _joined_classic(kinds, kept)
    assert (turned.generation, turned.record().kind) == (9, CLASSIC_KIND)
