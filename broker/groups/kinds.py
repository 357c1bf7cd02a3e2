"""The two kinds of groups: made of what stands in ZooKeeper, and one of the other as soon as it has no members."""

import uuid
from collections.abc import Iterable
from dataclasses import replace

from ottla.broker.cluster_view import ClusterView
from ottla.broker.group_configs import HEARTBEAT, SESSION, time_of
from ottla.broker.groups.consumer_membership import ConsumerGroup, TopicShape
from ottla.broker.groups.limits import ConsumerGroupTimes, GroupLimits
from ottla.broker.groups.membership import Group
from ottla.wire.errors import GroupIdNotFound, InconsistentGroupProtocol
from ottla.zk.znodes.consumers import CLASSIC_KIND, CONSUMER_KIND, GroupZnode

AnyGroup = Group | ConsumerGroup


class _KnownTopics:
    """What groups are told of the cluster's topics."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def shape_of(self, name: str) -> TopicShape | None:
        topic = self._view.topic(name)
        return TopicShape(topic.topic_id, len(topic.partitions)) if topic is not None else None

    def names(self) -> Iterable[str]:
        return self._view.topic_names()


class GroupKinds:
    """Makes them."""

    def __init__(self, view: ClusterView, limits: GroupLimits) -> None:
        self._view = view
        self._topics = _KnownTopics(view)
        self.limits = limits

    def load(self, group_id: str, record: GroupZnode, now: float) -> AnyGroup:
        group = self._new(group_id, record.kind)
        group.load(record, now)
        return group

    def limit(self, group: AnyGroup) -> None:
        """The limits may be others than when it was made."""
        if isinstance(group, ConsumerGroup):
            group.members.max_size, group.times = self.limits.consumer_max_size, self._times(group.group_id)
        else:
            group.members.max_size = self.limits.max_size

    def _times(self, group_id: str) -> ConsumerGroupTimes:
        own, limits = self._view.group_settings.get(group_id, {}), self.limits
        return ConsumerGroupTimes(
            time_of(own, SESSION, limits.consumer_session_timeout_ms),
            time_of(own, HEARTBEAT, limits.consumer_heartbeat_interval_ms),
        )

    def _new(self, group_id: str, kind: str) -> AnyGroup:
        limits = self.limits
        if kind == CONSUMER_KIND:
            size, times = limits.consumer_max_size, self._times(group_id)
            return ConsumerGroup(group_id, _make_id, self._topics, max_size=size, times=times)
        initial_delay_s = limits.initial_rebalance_delay_ms / 1000
        return Group(group_id, _make_id, max_size=limits.max_size, initial_delay_s=initial_delay_s)

    def as_classic(self, group: AnyGroup, now: float) -> Group:
        """For somebody who joins; raises what Kafka does where a group may not change its kind under its members."""
        if isinstance(group, Group):
            return group
        if group.members:
            raise InconsistentGroupProtocol(
                f"the coordinator assigns in group {group.group_id!r}, whose members have group.protocol=consumer; "
                "others can join when those have left",
                hint="set group.protocol=consumer, or wait until its members have left",
            )
        found = self.load(group.group_id, replace(group.record(), kind=CLASSIC_KIND, protocol=""), now)
        assert isinstance(found, Group)
        return found

    def as_consumer(self, group: AnyGroup, now: float) -> ConsumerGroup:
        """The same the other way round."""
        if isinstance(group, ConsumerGroup):
            return group
        if group.members:
            raise GroupIdNotFound(
                f"group {group.group_id!r} is a classic one, whose members assign",
                hint="set group.protocol=classic, or wait until its members have left",
            )
        found = self.load(group.group_id, replace(group.record(), kind=CONSUMER_KIND), now)
        assert isinstance(found, ConsumerGroup)
        return found


def _make_id(name: str) -> str:
    return f"{name[:100]}-{uuid.uuid4()}"
