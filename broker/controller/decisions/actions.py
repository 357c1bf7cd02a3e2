"""What the controller wants done. Each is carried out by executor.py, which reports what came of it as a further event.

Every action bears the id of the event that led to it (``cause``), and so does what is done because of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from ottla.wire.control import Order
from ottla.wire.names import TopicPartition
from ottla.zk.metadata import PartitionStateChange
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode


@dataclass(frozen=True, kw_only=True)
class Caused:
    """What all actions have in common."""

    cause: str = ""


@dataclass(frozen=True)
class WriteStates(Caused):
    """Write these partition states, each only if nobody else has written it since; report by ``states_written``."""

    changes: list[PartitionStateChange]


@dataclass(frozen=True)
class Tell(Caused):
    """Send an order to a broker; orders to one broker arrive in this order, but for patient ones, which others overtake."""

    broker: int
    request: Order
    is_patient: bool = False


@dataclass(frozen=True)
class TellReplicas(Caused):
    """Send a broker the LeaderAndIsr request for these partitions, as ``leader_and_isr`` builds it at the time of sending.

    A request that was built when it was decided could carry an ISR that a write in between has shown to be old.
    """

    broker: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class CreateTopic(Caused):
    """Write a new topic with the first states of its partitions; report by ``topic_created``."""

    name: str
    topic: TopicZnode
    states: Mapping[int, PartitionStateZnode]
    config: Mapping[str, str]


@dataclass(frozen=True)
class CreatePartitions(Caused):
    """Write a topic's larger assignment with the first states of its new partitions; report by ``partitions_created``."""

    name: str
    topic: TopicZnode
    states: Mapping[int, PartitionStateZnode]


@dataclass(frozen=True)
class WriteConfig(Caused):
    """Replace a topic's settings; report by ``config_changed``."""

    name: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class WriteBrokerConfig(Caused):
    """Replace what a broker, or ALL_BROKERS, was told while it runs; report by ``broker_config_changed``."""

    name: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class WriteGroupConfig(Caused):
    """Replace the settings of a group; report by ``group_config_changed``."""

    name: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class WriteTopic(Caused):
    """Write a topic's assignment as it is by then, if nobody else has written it since; report by ``topic_written``."""

    name: str


@dataclass(frozen=True)
class MarkForDeletion(Caused):
    """Note down in ZooKeeper that a topic is to be deleted; report by ``deletions_seen``."""

    name: str


@dataclass(frozen=True)
class RemoveTopic(Caused):
    """Nothing holds the topic's records any more: remove it from ZooKeeper; report by ``topic_removed``."""

    name: str


@dataclass(frozen=True)
class ReadAgain(Caused):
    """Somebody else wrote: read the topic anew; report by ``topic_read``."""

    name: str


Action = (
    WriteStates
    | WriteTopic
    | Tell
    | TellReplicas
    | CreateTopic
    | CreatePartitions
    | WriteConfig
    | WriteBrokerConfig
    | WriteGroupConfig
    | MarkForDeletion
    | RemoveTopic
    | ReadAgain
)


def caused_by(cause: str, actions: Iterable[Action]) -> list[Action]:
    """The same actions, with the id of the event that led to them; orders take it along to the brokers."""
    return [_caused_by(cause, action) for action in actions]


def _caused_by(cause: str, action: Action) -> Action:
    if isinstance(action, Tell):
        return replace(action, cause=cause, request=msgspec.structs.replace(action.request, cause=cause))
    return replace(action, cause=cause)
