"""One partition on this broker: its log, who leads it, and how far it is committed."""

from collections.abc import Callable

from ottla.broker.storage.incoming import Appended
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import FLUSH_DURABLE
from ottla.wire.errors import FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch
from ottla.wire.names import NO_EPOCH, NO_LEADER, TopicPartition
from ottla.wire.requests import PartitionState


class Partition:
    """A replica. ``on_change`` is called with the partition when records were appended or committed, or the leader changed."""

    __slots__ = (
        "_broker_id", "_on_change", "appended_bytes", "high_watermark", "isr", "leader", "leader_epoch", "log", "replicas",
        "version", "where",
    )  # fmt: skip

    def __init__(
        self, where: TopicPartition, broker_id: int, log: Log, on_change: "Callable[[Partition], None]"
    ) -> None:
        self.where = where
        self.log = log
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.isr: list[int] = []
        self.replicas: list[int] = []
        self.version = -1
        self.high_watermark = log.log_end_offset
        self.appended_bytes = 0
        """All bytes ever appended in this life: lets a waiting fetch see cheaply whether enough has come."""
        self._broker_id = broker_id
        self._on_change = on_change

    # --- who leads -----------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader == self._broker_id

    @property
    def durable(self) -> bool:
        """Whether a record counts only once it is on disk."""
        return self.log.config.flush_policy == FLUSH_DURABLE

    def apply(self, state: PartitionState) -> bool:
        """Take a decision of the controller; False if a later one was taken already (Invariant: versions only grow)."""
        if state.version < self.version or state.leader_epoch < self.leader_epoch:
            return False
        was_leader, old_epoch = self.is_leader, self.leader_epoch
        self.version = state.version
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.isr, self.replicas = state.isr, state.replicas
        if self.is_leader and (not was_leader or old_epoch != self.leader_epoch):
            self.log.assign_epoch(self.leader_epoch)  # before any append: followers cut by it (KAFKA-7415)
        self._advance()
        self._on_change(self)
        return True

    def step_down(self) -> None:
        """Lead no more; whoever waits here is told."""
        self.leader = NO_LEADER
        self._on_change(self)

    def check_leader(self, leader_epoch: int) -> None:
        """Raise unless this broker leads, in the epoch that the caller believes in."""
        if leader_epoch != NO_EPOCH:
            if leader_epoch < self.leader_epoch:
                raise FencedLeaderEpoch(f"{self.where} is in leader epoch {self.leader_epoch}, not {leader_epoch}")
            if leader_epoch > self.leader_epoch:
                raise UnknownLeaderEpoch(
                    f"{self.where} is in leader epoch {self.leader_epoch} here, not {leader_epoch} yet"
                )
        if self.leader != self._broker_id:
            raise NotLeaderOrFollower(f"broker {self._broker_id} does not lead {self.where}; broker {self.leader} does")

    # --- records -------------------------------------------------------------------------------------------------------

    def append(self, records: memoryview, now_ms: int) -> Appended:
        """Append what a producer sent. Only the leader may."""
        self.check_leader(NO_EPOCH)
        appended = self.log.append_as_leader(records, self.leader_epoch, now_ms)
        self.appended_bytes += len(records)
        self._advance()
        self._on_change(self)
        return appended

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Committed batches from ``offset`` on (Invariant: a consumer never sees past the high watermark)."""
        if offset > self.high_watermark:
            start = self.log.log_start_offset
            raise OffsetOutOfRange(f"offset {offset} of {self.where}, which has {start} to {self.high_watermark}")
        return self.log.read(offset, max_bytes, up_to=self.high_watermark, at_least_one=at_least_one)

    def flushed(self) -> None:
        """The log reached the disk further than before."""
        self._advance()
        self._on_change(self)

    def _advance(self) -> None:
        """Move the high watermark to what every in-sync replica has: here, this one alone."""
        reached = self.log.flushed_up_to if self.durable else self.log.log_end_offset
        if reached > self.high_watermark:
            self.high_watermark = reached
