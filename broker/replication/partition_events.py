"""What happens to the partitions of a broker, told to whoever is in a list; partition.py calls it, node.py fills the lists."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.failed_listeners import FailedListeners

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition

Listener = Callable[["Partition"], None]


class PartitionEvents:
    """What happens to the partitions of this broker. Whoever wants to know is in a list; all in it are called at once.

    One that raises keeps nobody else from hearing it, and no record from being appended: the log tells of it.
    """

    def __init__(self) -> None:
        self._failed = FailedListeners()
        self.on_grown: list[Listener] = []
        """Records were appended by the leader."""
        self.on_committed: list[Listener] = []
        """The high watermark of a partition that is led here has moved."""
        self.on_changed: list[Listener] = []
        """Its role, its log, its settings or its in-sync replicas are not what they were."""
        self.on_role: list[Listener] = []
        """It begins or ends to lead or to follow somebody."""
        self.on_start_moved: list[Listener] = []
        """Records at its beginning were deleted, and the disk does not know yet."""
        self.on_start_kept: list[Listener] = []
        """The disk does, here or at a follower."""
        self.on_suspected: list[Callable[[Partition, int], None]] = []
        """The batch at an offset may be damaged on this broker's disk."""

    def grown(self, partition: "Partition") -> None:
        self._tell(self.on_grown, partition)

    def committed(self, partition: "Partition") -> None:
        self._tell(self.on_committed, partition)

    def changed(self, partition: "Partition") -> None:
        self._tell(self.on_changed, partition)

    def role(self, partition: "Partition") -> None:
        self._tell(self.on_role, partition)

    def _tell(self, listeners: list[Listener], partition: "Partition") -> None:
        for listener in listeners:
            try:
                listener(partition)
            except Exception as error:
                self._failed.note(listener, error)

    def suspected(self, partition: "Partition", offset: int) -> None:
        for listener in self.on_suspected:
            listener(partition, offset)

    def start_moved(self, partition: "Partition") -> None:
        for listener in self.on_start_moved:
            listener(partition)

    def start_kept(self, partition: "Partition") -> None:
        for listener in self.on_start_kept:
            listener(partition)
