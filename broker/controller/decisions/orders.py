"""The controller's orders, as requests to brokers. Pure."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ottla.broker.controller.decisions.actions import Action, Tell, TellReplicas
from ottla.broker.controller.decisions.cluster import Cluster, Topic
from ottla.wire.control import (
    LeaderAndIsrRequest,
    PartitionState,
    StopReplicaPart,
    StopReplicaRequest,
    TopicConfig,
    UpdateMetadataRequest,
)
from ottla.wire.names import TopicPartition


class Orders:
    """Writes orders in the name of one term of a controller, for what the cluster is at the time of writing."""

    def __init__(
        self,
        controller_id: int,
        controller_epoch: int,
        cluster: Cluster,
        must_not_hear: Callable[[TopicPartition, int], bool],
    ) -> None:
        """``must_not_hear``: what is to be written of a replica of this broker comes before what it is told [I14]."""
        self._id = controller_id
        self._epoch = controller_epoch
        self._cluster = cluster
        self._must_not_hear = must_not_hear
        self._version = 1
        """Counts what brokers are told of the cluster; the same count means the same knowledge on all of them."""

    def announce(self, partitions: list[TopicPartition]) -> list[Action]:
        """Tell the replicas of these partitions what to do, and everybody who leads."""
        return self._to_replicas(self._cluster.brokers, partitions) + self.spread(partitions)

    def spread(self, partitions: list[TopicPartition]) -> list[Action]:
        """Tell everybody who leads these and who is in sync."""
        if not partitions:
            return []
        states = [self._cluster.state(where) for where in partitions]
        topics = self._cluster.configs({where.topic for where in partitions})
        return self._news(self._cluster.brokers, topics, states)

    def everything(self, brokers: Iterable[int], but: Collection[TopicPartition]) -> list[Action]:
        """Tell brokers all that they lead or follow, but for partitions where a replica that lacks records still counts:

        if such a one led, it would lead again without them. They are announced once that is written [I14].
        """
        return self._to_replicas(brokers, [where for where in self._cluster.partitions() if where not in but])

    def full_metadata(self, brokers: Iterable[int]) -> list[Action]:
        """Tell brokers all there is to know: what the others have been told up to now."""
        topics = self._cluster.configs(set(self._cluster.topics))
        states = [self._cluster.state(where) for where in self._cluster.partitions()]
        return [self._metadata(broker, topics, states, full=True) for broker in brokers]

    def live_brokers(self, brokers: Iterable[int], deleted: list[str] | None = None) -> list[Action]:
        """Tell brokers who lives, and which topics are gone."""
        return self._news(brokers, [], [], deleted)

    def group_settings(self, brokers: Iterable[int]) -> list[Action]:
        """Tell brokers the settings of all groups that have some."""
        self._version += 1
        return [self._metadata(broker, [], [], groups=True) for broker in brokers]

    def delete_replicas(self, name: str, topic: Topic, brokers: Iterable[int]) -> list[Action]:
        """Have brokers delete what they hold of a topic."""
        actions: list[Action] = []
        for broker in brokers:
            held = sorted(topic.held_by(broker))
            if (
                broker not in topic.to_delete_on
            ):  # what it deleted need not be deleted again, what it gave away may be there
                held = [partition for partition in held if broker not in topic.replicas[partition]]
            stops = self.stop(broker, [TopicPartition(name, partition) for partition in held], delete=True)
            # Nothing else is sent about a topic that is being deleted, and the deletion of a log takes a while.
            actions += [replace(stop, is_patient=True) for stop in stops]
        return actions

    def stop(self, broker: int, partitions: list[TopicPartition], *, delete: bool) -> list[Tell]:
        """Have a broker lead and follow these no more."""
        parts = []
        for where in partitions:
            topic = self._cluster.topics[where.topic]
            if where.partition in topic.states:
                epoch = topic.states[where.partition].state.leader_epoch
                parts.append(StopReplicaPart(where.topic, topic.topic_id, where.partition, epoch, delete))
        if not parts:
            return []
        return [Tell(broker, StopReplicaRequest(self._id, self._epoch, self._epoch_of(broker), parts))]

    def _to_replicas(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> list[Action]:
        """Tell brokers what to do with those partitions that they have a replica of, even one that is about to go."""
        topics = self._cluster.topics
        held = [(where, topics[where.topic].replicas[where.partition]) for where in partitions]
        actions: list[Action] = []
        for broker in brokers:
            told = tuple(where for where, replicas in held if broker in replicas)
            actions += [TellReplicas(broker, told)] if told else []
        return actions

    def leader_and_isr(self, broker: int, partitions: Iterable[TopicPartition]) -> LeaderAndIsrRequest | None:
        """What a broker must do with these partitions by what is known now; None if there is nothing to tell it.

        Invariant [I10]: it is never told to lead in an epoch for which an earlier incarnation of it was elected.
        """
        if broker not in self._cluster.brokers:
            return None
        states = [self._cluster.state(where) for where in partitions if self._may_hear(where, broker)]
        if not states:
            return None
        topics = self._cluster.configs({state.topic for state in states})
        return LeaderAndIsrRequest(self._id, self._epoch, self._epoch_of(broker), states, topics)

    def _may_hear(self, where: TopicPartition, broker: int) -> bool:
        topic = self._cluster.topics.get(where.topic)
        if topic is None or topic.deleting or where.partition not in topic.states:
            return False
        # A broker that shuts down gets the request, too: it must stop leading.
        return broker in topic.holders(where.partition) and not self._must_not_hear(where, broker)

    def _news(
        self,
        brokers: Iterable[int],
        topics: list[TopicConfig],
        states: list[PartitionState],
        deleted: list[str] | None = None,
    ) -> list[Action]:
        """Tell brokers of one change. Invariant: every change has a count of its own, larger than those before it."""
        self._version += 1
        return [self._metadata(broker, topics, states, deleted=deleted) for broker in brokers]

    def _metadata(
        self,
        broker: int,
        topics: list[TopicConfig],
        states: list[PartitionState],
        *,
        full: bool = False,
        deleted: list[str] | None = None,
        groups: bool = False,
    ) -> Tell:
        endpoints = self._cluster.endpoints()
        epoch = self._epoch_of(broker)
        request = UpdateMetadataRequest(
            self._id, self._epoch, epoch, full, endpoints, topics, states, deleted or [], self._version,
            settings=self._cluster.told_settings(),
            groups=self._cluster.told_groups() if full or groups else None,
        )  # fmt: skip
        return Tell(broker, request)

    def _epoch_of(self, broker: int) -> int:
        return self._cluster.brokers[broker].epoch
