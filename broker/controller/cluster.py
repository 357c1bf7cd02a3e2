"""What the controller knows: brokers, topics and their partitions. Pure."""

from dataclasses import dataclass, field

from ottla.wire.names import TopicPartition
from ottla.wire.requests import BrokerEndpoint, PartitionState, TopicConfig
from ottla.zk.metadata import LoadedTopic, VersionedState


@dataclass(frozen=True)
class Broker:
    """A live broker, and which life of it."""

    endpoint: BrokerEndpoint
    epoch: int
    suspect: bool = False
    """It may have lost records that it had acknowledged: it must catch up before it counts again [I14]."""


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

    @property
    def unclean_election(self) -> bool:
        return self.config.get("unclean.leader.election.enable", "false").strip().lower() == "true"

    def min_insync(self, default: int) -> int:
        text = self.config.get("min.insync.replicas", "")
        return int(text) if text.strip().isdigit() else default


class Cluster:
    """All brokers that live and all topics that exist."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}

    def endpoints(self) -> list[BrokerEndpoint]:
        return [self.brokers[i].endpoint for i in sorted(self.brokers)]

    def configs(self, names: set[str]) -> list[TopicConfig]:
        return [TopicConfig(name, self.topics[name].topic_id, self.topics[name].config) for name in sorted(names)]

    def partitions(self) -> list[TopicPartition]:
        """All that have a state and are not being deleted."""
        return [
            TopicPartition(name, partition)
            for name, topic in self.topics.items()
            if not topic.deleting
            for partition in topic.states
        ]

    def state(self, where: TopicPartition) -> PartitionState:
        """A partition's state as brokers are told it."""
        topic = self.topics[where.topic]
        known = topic.states[where.partition]
        return PartitionState(
            where.topic, topic.topic_id, where.partition, known.state.leader, known.state.leader_epoch,
            list(topic.replicas[where.partition]), list(known.state.isr), known.version,
            known.state.controller_epoch, list(known.state.elr),
        )  # fmt: skip
