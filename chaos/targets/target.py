"""The interface of all targets. Nodes have the names of the compose services: broker0, zookeeper2, and ``clients``."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

from ottla.chaos.faults import CLIENTS, Kind, NotOffered
from ottla.chaos.scenarios import Shape


class Target(ABC):
    """A cluster and what can be done to its nodes. What cannot be done raises NotOffered and stands in ``missing``."""

    name: str
    bootstrap: str
    """For clients that suffer with the cluster."""
    session_s: float
    """The ZooKeeper session timeout of its brokers."""
    missing: Mapping[Kind, str]
    """Faults that this target cannot do, and why."""

    @property
    def offered(self) -> frozenset[Kind]:
        return frozenset(Kind) - set(self.missing)

    @abstractmethod
    def open(self, shape: Shape) -> None:
        """Have a cluster of this shape running."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind that was not there before."""

    def __enter__(self) -> "Target":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- who there is ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def brokers(self) -> list[str]: ...

    @abstractmethod
    def zookeepers(self) -> list[str]: ...

    @abstractmethod
    def racks(self) -> dict[str, list[str]]:
        """The brokers of each rack."""

    @abstractmethod
    def zookeeper_leader(self) -> str | None: ...

    @abstractmethod
    def running(self, node: str) -> bool:
        """Whether its process is there; one that is paused is."""

    # --- faults ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def kill(self, node: str) -> None: ...

    def kill_together(self, nodes: Sequence[str]) -> None:
        """So quickly that none of them acts on the death of another, if that can be done."""
        for node in nodes:
            self.kill(node)

    @abstractmethod
    def stop(self, node: str) -> None:
        """End it in good order."""

    @abstractmethod
    def start(self, node: str) -> None:
        """Start one that has ended; it need not serve yet when this returns."""

    @abstractmethod
    def pause(self, node: str) -> None: ...

    @abstractmethod
    def resume(self, node: str) -> None: ...

    @abstractmethod
    def block(self, source: str, sink: str) -> None:
        """Nothing that ``source`` sends reaches ``sink``."""

    @abstractmethod
    def unblock(self, source: str, sink: str) -> None: ...

    def lose_answers(self, node: str) -> None:
        """Clients' requests arrive, answers do not."""
        self.block(node, CLIENTS)

    def answer_again(self, node: str) -> None:
        """Answers arrive again; those that were lost stay lost, with their connections."""
        self.unblock(node, CLIENTS)

    def slow(self, node: str, delay_s: float) -> None:
        """All on the way to a node takes so much longer; 0 ends it."""
        raise NotOffered(self.missing[Kind.SLOW])

    def fill_disk(self, node: str) -> None:
        """Leave a broker's file system without free space, until ``free_disk``."""
        raise NotOffered(self.missing[Kind.DISK_FULL])

    def free_disk(self, node: str) -> None:
        raise NotOffered(self.missing[Kind.DISK_FULL])

    def fail_writes(self, node: str) -> None:
        """Let every write of a broker fail, until ``mend_writes``."""
        raise NotOffered(self.missing[Kind.DISK_FAILS])

    def mend_writes(self, node: str) -> None:
        raise NotOffered(self.missing[Kind.DISK_FAILS])

    def exhaust_descriptors(self, node: str) -> None:
        """Let a broker open no more files and sockets than it has open, until ``free_descriptors``."""
        raise NotOffered(self.missing[Kind.NO_DESCRIPTORS])

    def free_descriptors(self, node: str) -> None:
        raise NotOffered(self.missing[Kind.NO_DESCRIPTORS])

    def wipe(self, node: str) -> None:
        """Delete all data of a broker that does not run."""
        raise NotOffered(self.missing[Kind.WIPE])

    def damage(self, node: str, topic: str, partition: int, how: str) -> None:
        """Damage the files of a replica: ``how`` is a name in ``damage.DAMAGES``."""
        raise NotOffered(self.missing[Kind.LOSE_PARTITION])

    def spoil_epochs(self, node: str, topic: str, partition: int) -> None:
        """Let a replica fail to write down the next leader epoch, until ``mend_epochs``."""
        raise NotOffered(self.missing[Kind.BAD_ELECTION])

    def mend_epochs(self, node: str, topic: str, partition: int) -> None:
        raise NotOffered(self.missing[Kind.BAD_ELECTION])

    def skew_clock(self, node: str, seconds: float) -> None:
        raise NotOffered(self.missing[Kind.CLOCK])

    # --- for restart-unseen: what ZooKeeper has ---------------------------------------------------------------------------

    def serving(self, node: str) -> bool:
        """Whether a broker is ready for clients."""
        raise NotOffered(self.missing[Kind.RESTART_UNSEEN])

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        raise NotOffered(self.missing[Kind.RESTART_UNSEEN])

    def broker_epoch(self, node: str) -> int:
        raise NotOffered(self.missing[Kind.RESTART_UNSEEN])

    def remove_isr_notifications(self) -> None:
        """Remove the notifications of ISR changes that the controller has not read."""
        raise NotOffered(self.missing[Kind.RESTART_UNSEEN])

    @abstractmethod
    def heal_all(self) -> None:
        """No link is cut, nobody sleeps, every node runs and serves. Works whatever went before."""

    # --- what is left ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def replica_log(self, node: str, topic: str, partition: int) -> bytes:
        """A replica's whole log, as it stands on disk."""

    @abstractmethod
    def log_tail(self, node: str) -> str:
        """The last that a node has logged."""


EPOCH_FILE_IN_THE_MAKING = "leader-epoch-checkpoint.tmp"
"""The file of epochs is written beside the old one and renamed. Where a folder has this name, it cannot be written."""


def broker_id(node: str) -> int:
    return int(node.removeprefix("broker"))


def names(brokers: Iterable[int]) -> list[str]:
    return [f"broker{broker}" for broker in brokers]
