"""What the controller knows and decides. Pure: an event in, actions out; the same events give the same actions.

The loop around it (control_loop.py) carries actions out and reports results back as further events. Events are the
methods below; every one returns the actions that follow from it, in the order in which they must be done.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.broker.controller.election import elect
from ottla.wire.errors import OttlaError
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.wire.requests import (
    BrokerEndpoint,
    ControlRequest,
    LeaderAndIsrRequest,
    PartitionState,
    StopReplicaPart,
    StopReplicaRequest,
    TopicConfig,
    UpdateMetadataRequest,
)
from ottla.zk.errors import BadVersion, ConnectionLost
from ottla.zk.metadata import LoadedTopic, PartitionStateChange, VersionedState
from ottla.zk.znodes import PartitionStateZnode


@dataclass(frozen=True)
class Broker:
    """A live broker, and which life of it."""

    endpoint: BrokerEndpoint
    epoch: int


@dataclass(frozen=True)
class WriteStates:
    """Write these partition states, each only if nobody else has written it since; report by ``states_written``."""

    changes: list[PartitionStateChange]


@dataclass(frozen=True)
class Tell:
    """Send an order to a broker; orders to one broker arrive in this order."""

    broker: int
    request: ControlRequest


@dataclass(frozen=True)
class RemoveTopic:
    """Nothing holds the topic's records any more: remove it from ZooKeeper; report by ``topic_removed``."""

    name: str


@dataclass(frozen=True)
class ReadAgain:
    """Somebody else wrote: read the topic anew; report by ``topic_read``."""

    name: str


Action = WriteStates | Tell | RemoveTopic | ReadAgain


@dataclass
class Topic:
    """A topic as the controller knows it."""

    topic_id: str
    config: dict[str, str]
    replicas: dict[int, tuple[int, ...]]
    states: dict[int, VersionedState]
    to_delete_on: set[int] = field(default_factory=set)
    """The brokers that still hold records of a topic that is being deleted."""
    deleting: bool = False

    @classmethod
    def of(cls, loaded: LoadedTopic) -> "Topic":
        return cls(loaded.topic.topic_id or "", dict(loaded.config), dict(loaded.topic.partitions), dict(loaded.states))


class ControllerState:
    """One term of a controller."""

    def __init__(self, controller_id: int, controller_epoch: int) -> None:
        self._id = controller_id
        self._epoch = controller_epoch
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}

    # --- events --------------------------------------------------------------------------------------------------------

    def loaded(
        self, brokers: Mapping[int, Broker], topics: Iterable[LoadedTopic], deleting: Iterable[str]
    ) -> list[Action]:
        """The beginning of a term: everything was read."""
        self.topics = {loaded.name: Topic.of(loaded) for loaded in topics}
        self.brokers = dict(brokers)
        actions: list[Action] = [
            self._full_metadata(broker) for broker in self.brokers
        ]  # before anybody leads anything
        actions += self.deletions_seen(deleting)
        actions += self._elections()
        return actions + self._lead_and_follow(self.brokers)

    def brokers_seen(self, brokers: Mapping[int, Broker]) -> list[Action]:
        """These brokers are registered now. One that has a new epoch failed first, and then came (Invariant I10)."""
        bounced = {i for i, broker in brokers.items() if i in self.brokers and self.brokers[i].epoch != broker.epoch}
        actions: list[Action] = []
        if bounced:
            actions += self.brokers_seen({i: broker for i, broker in brokers.items() if i not in bounced})
        joined = brokers.keys() - self.brokers.keys()
        changed = joined or self.brokers.keys() - brokers.keys()
        self.brokers = dict(brokers)
        if not changed:
            return actions
        for broker in self.brokers:
            actions.append(self._full_metadata(broker) if broker in joined else self._metadata(broker))
        actions += self._elections()
        actions += self._lead_and_follow(joined)
        for name, topic in self.topics.items():
            if topic.deleting:
                actions += self._delete_replicas(name, topic, joined)
        return actions

    def states_written(
        self, changes: Iterable[PartitionStateChange], results: Mapping[TopicPartition, int | OttlaError]
    ) -> list[Action]:
        """What became of WriteStates: a new version each, or an error."""
        written: list[TopicPartition] = []
        again: dict[str, None] = {}
        for change in changes:
            result = results[change.partition]
            topic = self.topics.get(change.partition.topic)
            if topic is None:
                continue
            if isinstance(result, int):
                topic.states[change.partition.partition] = VersionedState(change.state, result)
                written.append(change.partition)
            elif isinstance(result, BadVersion | ConnectionLost):
                again[change.partition.topic] = None
        return self._announce(written) + [ReadAgain(name) for name in again]

    def topic_read(self, loaded: LoadedTopic) -> list[Action]:
        """A topic as it stands in ZooKeeper now: leaders changed their ISR, or we lost a race and look again."""
        topic = self.topics.get(loaded.name)
        if topic is None or topic.topic_id != loaded.topic.topic_id:
            return []
        changed = [
            TopicPartition(loaded.name, partition)
            for partition, found in loaded.states.items()
            if partition not in topic.states or topic.states[partition].version < found.version
        ]
        for where in changed:
            topic.states[where.partition] = loaded.states[where.partition]
        return self._spread(changed) + self._elections()

    def topic_created(self, loaded: LoadedTopic) -> list[Action]:
        """A new topic was written, with its first leaders."""
        self.topics[loaded.name] = Topic.of(loaded)
        return self._announce([TopicPartition(loaded.name, partition) for partition in loaded.states])

    def deletions_seen(self, names: Iterable[str]) -> list[Action]:
        """These topics are marked for deletion."""
        actions: list[Action] = []
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                actions.append(RemoveTopic(name))  # a mark without a topic, or one whose creation never ended
            elif not topic.deleting:
                topic.deleting = True
                topic.to_delete_on = {broker for replicas in topic.replicas.values() for broker in replicas}
                actions += self._delete_replicas(name, topic, self.brokers)
        return actions

    def replicas_deleted(self, name: str, broker: int) -> list[Action]:
        """A broker has deleted its replicas of a topic."""
        topic = self.topics.get(name)
        if topic is None or not topic.deleting:
            return []
        topic.to_delete_on.discard(broker)
        return [] if topic.to_delete_on else [RemoveTopic(name)]

    def topic_removed(self, name: str) -> list[Action]:
        """A topic is gone from ZooKeeper."""
        self.topics.pop(name, None)
        return [self._metadata(broker, deleted=[name]) for broker in self.brokers]

    # --- decisions -----------------------------------------------------------------------------------------------------

    def _elections(self) -> list[Action]:
        """New leaders where the old one is gone, where there was none, or where a dead broker is still in the ISR."""
        changes = []
        for name, topic in self.topics.items():
            if topic.deleting:
                continue
            for partition, replicas in topic.replicas.items():
                known = topic.states.get(partition)
                if known is None:
                    continue
                state = known.state
                if state.leader in self.brokers and all(broker in self.brokers for broker in state.isr):
                    continue
                leader, isr = elect(replicas, state.isr, self.brokers)
                if (leader, isr) == (state.leader, state.isr):
                    continue
                # Invariant I11: the leader epoch grows with every change that the controller makes.
                changes.append(
                    PartitionStateChange(
                        TopicPartition(name, partition),
                        PartitionStateZnode(leader, state.leader_epoch + 1, self._epoch, isr),
                        known.version,
                        {leader: self.brokers[leader].epoch} if leader != NO_LEADER else {},
                    )
                )
        return [WriteStates(changes)] if changes else []

    # --- orders --------------------------------------------------------------------------------------------------------

    def _announce(self, partitions: list[TopicPartition]) -> list[Action]:
        """Tell the replicas of these partitions what to do, and everybody who leads."""
        if not partitions:
            return []
        states = [self._state(where) for where in partitions]
        topics = self._configs({where.topic for where in partitions})
        actions: list[Action] = []
        for broker in self.brokers:
            own = [state for state in states if broker in state.replicas]
            if own:
                names = {state.topic for state in own}
                actions.append(self._leader_and_isr(broker, own, [topic for topic in topics if topic.topic in names]))
        return actions + self._spread(partitions)

    def _spread(self, partitions: list[TopicPartition]) -> list[Action]:
        """Tell everybody who leads these and who is in sync."""
        if not partitions:
            return []
        states = [self._state(where) for where in partitions]
        topics = self._configs({where.topic for where in partitions})
        return [self._metadata(broker, topics, states) for broker in self.brokers]

    def _lead_and_follow(self, brokers: Iterable[int]) -> list[Action]:
        """Tell brokers everything that they replicate."""
        actions: list[Action] = []
        for broker in brokers:
            states = [state for state in self._all_states() if broker in state.replicas]
            topics = self._configs({state.topic for state in states})
            if states:
                actions.append(self._leader_and_isr(broker, states, topics))
        return actions

    def _leader_and_isr(self, broker: int, states: list[PartitionState], topics: list[TopicConfig]) -> Tell:
        return Tell(broker, LeaderAndIsrRequest(self._id, self._epoch, self.brokers[broker].epoch, states, topics))

    def _full_metadata(self, broker: int) -> Tell:
        topics = self._configs(self.topics)
        return self._metadata(broker, topics, self._all_states(), full=True)

    def _metadata(
        self,
        broker: int,
        topics: list[TopicConfig] | None = None,
        states: list[PartitionState] | None = None,
        *,
        full: bool = False,
        deleted: list[str] | None = None,
    ) -> Tell:
        endpoints = [self.brokers[i].endpoint for i in sorted(self.brokers)]
        epoch = self.brokers[broker].epoch
        return Tell(
            broker,
            UpdateMetadataRequest(
                self._id, self._epoch, epoch, full, endpoints, topics or [], states or [], deleted or []
            ),
        )

    def _delete_replicas(self, name: str, topic: Topic, brokers: Iterable[int]) -> list[Action]:
        actions: list[Action] = []
        for broker in brokers:
            parts = [
                StopReplicaPart(name, topic.topic_id, partition, topic.states[partition].state.leader_epoch, True)
                for partition, replicas in topic.replicas.items()
                if broker in replicas and partition in topic.states
            ]
            if parts and broker in topic.to_delete_on:
                actions.append(
                    Tell(broker, StopReplicaRequest(self._id, self._epoch, self.brokers[broker].epoch, parts))
                )
        return actions

    def _configs(self, names: Iterable[str]) -> list[TopicConfig]:
        return [TopicConfig(name, self.topics[name].topic_id, self.topics[name].config) for name in sorted(names)]

    def _all_states(self) -> list[PartitionState]:
        return [
            self._state(TopicPartition(name, partition))
            for name, topic in self.topics.items()
            if not topic.deleting
            for partition in topic.states
        ]

    def _state(self, where: TopicPartition) -> PartitionState:
        topic = self.topics[where.topic]
        known = topic.states[where.partition]
        return PartitionState(
            where.topic, topic.topic_id, where.partition, known.state.leader, known.state.leader_epoch,
            list(topic.replicas[where.partition]), list(known.state.isr), known.version,
            known.state.controller_epoch, list(known.state.elr),
        )  # fmt: skip
