"""Groups of both kinds, made within limits that may change."""

from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.kinds import GroupKinds
from ottla.broker.groups.limits import GroupLimits
from ottla.zk.znodes.consumers import CLASSIC_KIND, CONSUMER_KIND, GroupZnode


def test_limits_that_change_are_those_of_groups_that_there_are_and_of_later_ones() -> None:
    kinds = GroupKinds(ClusterView("c"), GroupLimits(max_size=7, consumer_max_size=8))
    groups = {kind: kinds.load("g", GroupZnode(kind=kind), 0.0) for kind in (CLASSIC_KIND, CONSUMER_KIND)}
    assert [group.members.max_size for group in groups.values()] == [7, 8]
    kinds.limits = GroupLimits(max_size=1, consumer_max_size=2, consumer_session_timeout_ms=3)
    for group in groups.values():
        kinds.limit(group)
    later = [kinds.load("g", GroupZnode(kind=kind), 0.0) for kind in groups]
    for classic, consumer in (tuple(groups.values()), tuple(later)):
        assert (classic.members.max_size, consumer.members.max_size) == (1, 2)
        assert isinstance(consumer, ConsumerGroup)
        assert consumer.times.session_timeout_ms == 3
