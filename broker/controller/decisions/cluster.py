"""What the controller knows: brokers, topics and their partitions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.broker.dynamic_config import ALL_BROKERS, CHANGEABLE
from ottla.broker.group_configs import GROUP_CONFIGS, GROUPS_WITH_SETTINGS_MAX
from ottla.broker.storage.config_kinds import CONFIG_VALUE_MAX
from ottla.broker.storage.topic_configs import sensible_topic_config
from ottla.wire.control import GroupSettings, PartitionState, SettingsTold, TopicConfig
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.zk.metadata import LoadedTopic, VersionedState
from ottla.zk.znodes.brokers import DataState
from ottla.zk.znodes.topics import TopicZnode

MIN_INSYNC = "min.insync.replicas"


@dataclass(frozen=True)
class Broker:
    """A live broker, and which life of it."""

    endpoint: BrokerEndpoint
    epoch: int
    data: DataState = field(default=DataState.WHOLE, compare=False)
    """If not whole, it may lack records that it had acknowledged: it must catch up before it counts again [I14]."""
    reported: bool = field(default=False, compare=False)
    """An earlier controller has seen to that for this life of it."""
    lost_partitions: frozenset[TopicPartition] = field(default=frozenset(), compare=False)
    """Partitions of which it lacks records for sure, where its data folders as such are not lost [I14]."""

    @property
    def lacks_records(self) -> bool:
        return self.data is not DataState.WHOLE or bool(self.lost_partitions)


@dataclass
class Topic:
    """A topic as the controller knows it."""

    topic_id: str
    config: dict[str, str]
    replicas: dict[int, tuple[int, ...]]
    states: dict[int, VersionedState]
    version: int = 0
    """Of the topic's znode."""
    adding: dict[int, tuple[int, ...]] = field(default_factory=dict)
    removing: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Partitions that move: replicas that come, and those that go once these have caught up, until they have deleted all."""
    to_delete_on: set[int] = field(default_factory=set)
    """The brokers that still hold records of a topic that is being deleted."""
    deleting: bool = False

    @classmethod
    def of(cls, loaded: LoadedTopic) -> "Topic":
        topic = loaded.topic
        return cls(
            topic.topic_id or "",
            dict(loaded.config),
            dict(topic.partitions),
            dict(loaded.states),
            loaded.version,
            {partition: brokers for partition, brokers in topic.adding_replicas.items() if brokers},
            {partition: brokers for partition, brokers in topic.removing_replicas.items() if brokers},
        )

    def znode(self) -> TopicZnode:
        return TopicZnode(dict(self.replicas), self.topic_id or None, dict(self.adding), dict(self.removing))

    def moving(self) -> list[int]:
        """The partitions that are being reassigned."""
        return sorted({*self.adding, *self.removing})

    def target(self, partition: int) -> tuple[int, ...]:
        """The replicas that a partition will have in the end."""
        going = self.removing.get(partition, ())
        return tuple(broker for broker in self.replicas[partition] if broker not in going)

    def only_deletes(self, partition: int) -> bool:
        """Whether all that is left of a move is to delete what others held."""
        going = self.removing.get(partition, ())
        return bool(going) and not self.adding.get(partition) and not set(going) & set(self.replicas[partition])

    def is_moving(self, partition: int) -> bool:
        """Whether replicas still have to come, or go, before others are deleted."""
        return partition in self.moving() and not self.only_deletes(partition)

    def holders(self, partition: int) -> tuple[int, ...]:
        """All brokers that may have records of it: its replicas, and those that have not deleted theirs yet."""
        replicas = self.replicas[partition]
        return (*replicas, *(broker for broker in self.removing.get(partition, ()) if broker not in replicas))

    def held_by(self, broker: int) -> set[int]:
        """The partitions of which a broker may have records.

        One without a state has none anywhere: it was never announced, or it was deleted everywhere and the controller that was
        removing the topic's znodes has ended.
        """
        return {partition for partition in self.states if broker in self.holders(partition)}

    def counted(self, partition: int) -> tuple[int, ...]:
        """The replicas that may be in sync: once those that go are out of the ISR, they no more.

        Invariant: a leader does not let a replica in again that is about to be deleted.
        """
        if partition not in self.removing:
            return self.replicas[partition]
        target, state = self.target(partition), self.states[partition].state
        return target if state.leader in target and set(state.isr) <= set(target) else self.replicas[partition]

    @property
    def unclean_election(self) -> bool:
        return self.config.get("unclean.leader.election.enable", "false").strip().lower() == "true"

    def min_insync(self, default: int) -> int:
        return _min_insync(self.config, default)


class Cluster:
    """All brokers that live and all topics that exist."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.group_settings: dict[str, dict[str, str]] = {}
        """What brokers were told while they run: by the broker's number, and ALL_BROKERS."""

    def min_insync(self, default: int) -> int:
        """What topics have that say nothing; ``default``: what this broker was started with."""
        return _min_insync(self.settings.get(ALL_BROKERS, {}), default)

    def told_settings(self) -> tuple[SettingsTold, ...]:
        """Without what means nothing: somebody wrote it into ZooKeeper by other means, and it may be long."""
        return tuple(
            SettingsTold(
                name, {key: text for key, text in config.items() if key in CHANGEABLE and len(text) <= CONFIG_VALUE_MAX}
            )
            for name, config in self.settings.items()
        )

    def told_groups(self) -> tuple[GroupSettings, ...]:
        """The settings of groups as brokers are told them; somebody may have written more by other means."""
        known = sorted(self.group_settings.items())[:GROUPS_WITH_SETTINGS_MAX]
        return tuple(
            GroupSettings(
                name,
                {key: text for key, text in config.items() if key in GROUP_CONFIGS and len(text) <= CONFIG_VALUE_MAX},
            )
            for name, config in known
        )

    def broker_epoch(self, broker: int) -> int:
        """The epoch of a broker's present incarnation; NO_EPOCH if it is not registered."""
        return self.brokers[broker].epoch if broker in self.brokers else NO_EPOCH

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
            list(topic.counted(where.partition)), list(known.state.isr), known.version,
            known.state.controller_epoch, list(known.state.elr), known.state.lost,
        )  # fmt: skip


def _min_insync(config: Mapping[str, str], default: int) -> int:
    """As leaders read it: by what they take for nonsense nobody may be elected, for they acknowledge by the default then."""
    found, _ = sensible_topic_config({key: text for key, text in config.items() if key == MIN_INSYNC})
    return int(found.get(MIN_INSYNC, default))
