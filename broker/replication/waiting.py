"""Who waits for what may happen to a partition."""

from collections.abc import Callable

from ottla.broker.replication.followers import Followers
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.purgatory import Purgatory
from ottla.net.reply import Turn


class WaitingRooms:
    """The purgatories of a broker, and which of them an event concerns: partitions call it (``partition.Watcher``)."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.acks = Purgatory(self.turn)
        """Produce requests, until their records are committed."""
        self.replica_fetches = Purgatory(self.turn)
        """Fetches of followers, until there is something to tell them."""
        self.followers = Followers(self.replica_fetches)
        self.consumer_fetches = Purgatory(self.turn)
        """Fetches of clients, until more records are committed."""
        self.on_grown: Callable[[Partition], None] = lambda partition: None
        self.on_committed: Callable[[], None] = lambda: None
        self.on_changed: list[Callable[[Partition], None]] = []

    def grown(self, partition: Partition) -> None:
        """Records were appended."""
        self.followers.stir(partition)
        self.on_grown(partition)

    def committed(self, partition: Partition) -> None:
        """The high watermark has moved."""
        self.acks.touch(partition.where)
        self.consumer_fetches.touch(partition.where)
        self.followers.note_commit(partition)
        self.on_committed()

    def changed(self, partition: Partition) -> None:
        """Its role, its log or its in-sync replicas are not what they were."""
        self.acks.touch(partition.where)
        self.followers.stir(partition)
        self.consumer_fetches.touch(partition.where)
        self.on_grown(partition)
        for changed in self.on_changed:
            changed(partition)
