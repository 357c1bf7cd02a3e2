"""What the controller wants done. Each is carried out by control_loop.py, which reports what came of it as an event."""

from dataclasses import dataclass

from ottla.wire.control import ControlRequest
from ottla.zk.metadata import PartitionStateChange


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
class WriteTopic:
    """Write a topic's assignment as it is by then, if nobody else has written it since; report by ``topic_written``."""

    name: str


@dataclass(frozen=True)
class RemoveTopic:
    """Nothing holds the topic's records any more: remove it from ZooKeeper; report by ``topic_removed``."""

    name: str


@dataclass(frozen=True)
class ReadAgain:
    """Somebody else wrote: read the topic anew; report by ``topic_read``."""

    name: str


Action = WriteStates | WriteTopic | Tell | RemoveTopic | ReadAgain
