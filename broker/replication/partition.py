"""One partition on this broker: its log, its role, and how far it is committed."""

from typing import NamedTuple

from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.state import Isr, LeaderState
from ottla.broker.storage.incoming import Appended, DamagedRecords
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import FLUSH_DURABLE
from ottla.broker.storage.truncation import OFFSET_MAX
from ottla.wire.admin import HIGH_WATERMARK
from ottla.wire.control import PartitionState
from ottla.wire.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InconsistentTopicId,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    OttlaError,
    ReplicaNotAvailable,
    StorageError,
    UnknownLeaderEpoch,
)
from ottla.wire.names import NO_EPOCH, NO_LEADER, TopicPartition
from ottla.wire.requests import FetchPart, FetchPartResult

Divergence = tuple[int, int]
"""Where a follower's log leaves the leader's: the epoch that both know, and where it ends at the leader's."""


class Damage(NamedTuple):
    """A damaged batch in a log: its base offset, and where it ends."""

    offset: int
    end: int


class LeaderLacksCommitted(OttlaError):
    """A leader asks an in-sync follower to truncate records that are committed: the leader lost them, or is a copy."""


class Partition:
    """A replica. What happens to it is told through ``events``."""

    __slots__ = (
        "_broker_id", "_came_damaged", "_events", "_in_sync", "appended_bytes", "controller_epoch", "damage", "high_watermark",
        "kept_start", "leader",
        "leader_epoch", "leading", "log", "min_insync", "refuses_leader", "replicas", "version", "where",
    )  # fmt: skip

    def __init__(
        self,
        where: TopicPartition,
        broker_id: int,
        log: Log,
        high_watermark: int,
        events: PartitionEvents,
    ) -> None:
        """``high_watermark`` is what was last checkpointed: a hint to start from, never the truth [I17]."""
        self.where = where
        self.log = log
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leading: LeaderState | None = None
        self.replicas: list[int] = []
        self.version = -1
        self.controller_epoch = 0
        self.min_insync = 1
        self.high_watermark = min(high_watermark, log.log_end_offset)
        self.kept_start = log.log_start_offset
        """Where the log begins by what was last noted on disk."""
        self.appended_bytes = 0
        """All bytes ever appended in this life: lets a waiting fetch see cheaply whether enough has come."""
        self.refuses_leader = False
        """Whether this follower does not follow its leader, for that would truncate committed records."""
        self.damage: Damage | None = None
        """The batch of this log that is known to be damaged."""
        self._came_damaged = (
            NO_EPOCH,
            -1,
        )  # in which leader epoch a batch came damaged from the leader, and its offset
        self._in_sync = False  # by what the controller last said of this leader epoch
        self._broker_id = broker_id
        self._events = events

    # --- roles ---------------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leading is not None

    @property
    def durable(self) -> bool:
        """Whether a record counts only once it is on disk."""
        return self.log.config.flush_policy == FLUSH_DURABLE

    @property
    def local_end(self) -> int:
        """Up to where this replica itself counts as having the records."""
        return self.log.flushed_up_to if self.durable else self.log.log_end_offset

    @property
    def owes_flush(self) -> bool:
        """Whether it has records that do not count yet: a follower must not tell its leader of them [I26]."""
        return self.log.flushed_up_to < self.log.log_end_offset and self.durable

    def apply(self, state: PartitionState, now: float, broker_epoch: int = NO_EPOCH) -> bool:
        """Take a decision of the controller; False if a later one was taken already [I9]: versions only grow.

        ``broker_epoch`` is the incarnation of this broker that the decision was sent to.
        """
        if state.version < self.version or state.leader_epoch < self.leader_epoch:
            return False
        new_epoch = state.leader_epoch != self.leader_epoch
        self.version, self.replicas = state.version, state.replicas
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self._in_sync = self._broker_id in state.isr
        if new_epoch:
            self.refuses_leader = False
        isr = Isr(tuple(state.isr), state.version, tuple(state.elr))
        if state.leader != self._broker_id:
            self.leading = None
        elif self.leading is None or new_epoch:
            self.leading = None
            self._begin_epoch()
            start = self.log.log_end_offset
            self.leading = LeaderState(
                self._broker_id, self.leader_epoch, start, state.replicas, isr, now, broker_epoch
            )
        elif state.version > self.leading.isr.version:
            self.leading.settled(isr)
        self.advance()
        self._events.changed(self)
        return True

    def _begin_epoch(self) -> None:
        try:
            self.log.assign_epoch(self.leader_epoch)  # before any append: followers cut by it (KAFKA-7415)
        except OttlaError:
            self._events.changed(self)  # who waits for the epoch before must not wait for one that never begins
            raise

    def step_down(self) -> None:
        """Lead no more; whoever waits here is told."""
        self.leading = None
        self.leader = NO_LEADER
        self._events.changed(self)

    def is_led_in(self, leader_epoch: int) -> bool:
        """Whether ``check_leader`` would not complain."""
        return self.leading is not None and leader_epoch in (NO_EPOCH, self.leader_epoch)

    def check_leader(self, leader_epoch: int) -> LeaderState:
        """What is known as leader; raises unless this broker leads, in the epoch that the caller believes in."""
        if leader_epoch != NO_EPOCH:
            if leader_epoch < self.leader_epoch:
                raise FencedLeaderEpoch(f"{self.where} is in leader epoch {self.leader_epoch}, not {leader_epoch}")
            if leader_epoch > self.leader_epoch:
                raise UnknownLeaderEpoch(
                    f"{self.where} is in leader epoch {self.leader_epoch} here, not {leader_epoch}"
                )
        if self.leading is None:
            raise NotLeaderOrFollower(f"broker {self._broker_id} does not lead {self.where}; broker {self.leader} does")
        return self.leading

    # --- producers and consumers ---------------------------------------------------------------------------------------

    def append(self, records: memoryview, now_ms: int, *, all_must_ack: bool) -> Appended:
        """Append what a producer sent. Only the leader may, and for acks=all only with enough replicas in sync [I15]."""
        leading = self.leading
        if leading is None:
            leading = self.check_leader(NO_EPOCH)
        in_sync = len(leading.isr.members)
        if all_must_ack and in_sync < self.min_insync:
            raise NotEnoughReplicas(f"{self.where}: {in_sync} in sync, {self.min_insync} needed (min.insync.replicas)")
        try:
            appended = self.log.append_as_leader(records, self.leader_epoch, now_ms)
        except StorageError:
            self._events.changed(self)
            raise
        self.appended_bytes += len(records)
        if in_sync == 1:
            self.advance()
        self._events.grown(self)
        return appended

    def lost(self) -> OttlaError | None:
        """Why a record that was appended here can no more be acknowledged."""
        if self.log.failed:
            return StorageError(f"the disk under {self.where} failed")
        if self.leading is None:
            return NotLeaderOrFollower(f"{self.where} is led by another broker by now")
        if len(self.leading.isr.members) < self.min_insync:
            return NotEnoughReplicasAfterAppend(
                f"{self.where}: {len(self.leading.isr.members)} in sync by now, {self.min_insync} needed (min.insync.replicas)"
            )
        return None

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Committed batches from ``offset`` on [I16]: a consumer never sees past the high watermark."""
        if offset > self.high_watermark:
            start = self.log.log_start_offset
            if offset <= self.log.log_end_offset:
                # It read up to here from an earlier leader: what it waits for is here and will be committed again soon.
                return []
            raise OffsetOutOfRange(f"offset {offset} of {self.where}, which has {start} to {self.high_watermark}")
        return self._read(offset, max_bytes, self.high_watermark, at_least_one, OFFSET_MAX)

    def _read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool, stays: int) -> list[memoryview]:
        damage = self.damage
        if damage is not None:
            if damage.offset <= offset < damage.end:
                raise CorruptMessage(f"{self.where} is damaged at offset {damage.offset} on broker {self._broker_id}")
            if offset < damage.offset < up_to:
                up_to = damage.offset
        try:
            return self.log.read(offset, max_bytes, up_to=up_to, at_least_one=at_least_one, stays=stays)
        except CorruptMessage:
            self._events.suspected(self, offset)
            raise

    def latest(self) -> int:
        """The end that consumers see; not before a new leader knows that it is not behind the old one's [I16]."""
        leading = self.check_leader(NO_EPOCH)
        if self.high_watermark < leading.epoch_start:
            raise OffsetNotAvailable(f"{self.where} has a new leader that does not know yet what is committed")
        return self.high_watermark

    def delete_records_before(self, offset: int) -> int:
        """Let the log begin at ``offset``, or at the end of what is committed (HIGH_WATERMARK); gives where that is.

        Followers hear of it with their fetches.
        """
        end = self.latest()
        wanted = end if offset == HIGH_WATERMARK else offset
        if not 0 <= wanted <= end:
            raise OffsetOutOfRange(
                f"{self.where} has {self.log.log_start_offset} to {end}: it cannot begin at offset {offset}",
                hint=f"an offset up to {end}, or {HIGH_WATERMARK} for all that is committed",
            )
        self.log.delete_records_before(wanted)
        self._events.start_moved(self)
        return wanted

    def low_watermark(self) -> int:
        """No replica that may be elected has records before this offset, nor will it have them after a crash."""
        return self.check_leader(NO_EPOCH).low_watermark(self.durable_start)

    def begin_before(self, offset: int) -> list[int]:
        """Replicas whose disks do not know yet that the log begins at ``offset``, of those that may be elected."""
        leading = self.check_leader(NO_EPOCH)
        return [*([self._broker_id] if self.durable_start < offset else []), *leading.begin_before(offset)]

    def may_join(self, replica: int) -> bool:
        """Whether a follower should be in the ISR and is not."""
        return self.leading is not None and self.leading.may_join(replica, self.high_watermark, self.durable_start)

    @property
    def durable_start(self) -> int:
        """Where the log begins, and will after a crash. (It may have been cut to less than what was noted.)"""
        return min(self.kept_start, self.log.log_start_offset)

    def keep_start(self, log_start_offset: int) -> None:
        """The disk knows that the log begins there."""
        self.kept_start = log_start_offset
        self._events.start_kept(self)

    def flushed(self) -> None:
        """The log reached the disk further than before, or failed."""
        self.advance()
        self._events.changed(self)

    def advance(self) -> None:
        """Move the high watermark to what every replica in sync has."""
        if self.leading is not None:
            before = self.high_watermark
            self.high_watermark = self.leading.committed_end(self.local_end, self.min_insync, before)
            if self.high_watermark > before:
                self._events.committed(self)

    # --- followers, at the leader --------------------------------------------------------------------------------------

    def fetched_by(self, replica: int, broker_epoch: int, part: FetchPart, now: float) -> Divergence | None:
        """A follower asks for records: note how far it is, unless its log is not a prefix of this one [I4]."""
        leading = self.check_leader(part.leader_epoch)
        if replica not in leading.followers:
            raise ReplicaNotAvailable(f"broker {replica} is not among the replicas of {self.where}: {self.replicas}")
        if part.topic_id and part.topic_id != self.log.topic_id:
            # The records of a deleted topic of this name would count as copies of ours.
            raise InconsistentTopicId(f"{self.where} is of topic id {self.log.topic_id}, not {part.topic_id}")
        log_end = self.log.log_end_offset
        if part.last_fetched_epoch != NO_EPOCH and (
            part.last_fetched_epoch != self.log.latest_epoch or part.offset > log_end
        ):
            epoch, end = self.log.end_offset_for_epoch(part.last_fetched_epoch)
            if epoch == NO_EPOCH:
                raise UnknownLeaderEpoch(f"{self.where} knows nothing of epoch {part.last_fetched_epoch}")
            if epoch != part.last_fetched_epoch or end < part.offset:
                return epoch, end
        if not self.log.log_start_offset <= part.offset <= log_end:
            raise OffsetOutOfRange(
                f"offset {part.offset} of {self.where}, which has {self.log.log_start_offset} to {log_end}"
            )
        if part.damaged:
            self._events.suspected(self, part.offset)
        leading.fetched(replica, part.offset, broker_epoch, log_end, now)
        if part.log_start_offset >= 0 and leading.begins_at(replica, part.log_start_offset, broker_epoch):
            self._events.start_kept(self)
        if self.high_watermark < log_end:
            self.advance()
        return None

    def read_for_replica(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Batches from ``offset`` to the end of the log, committed or not: what is not may be cut before it was sent."""
        return self._read(offset, max_bytes, self.log.log_end_offset, at_least_one, self.high_watermark)

    # --- following -----------------------------------------------------------------------------------------------------

    def next_fetch(self, max_bytes: int) -> FetchPart:
        """What this follower asks its leader for."""
        return FetchPart(
            self.where.topic, self.where.partition, self.log.log_end_offset, max_bytes,
            self.leader_epoch, self.log.latest_epoch, self.high_watermark, self.log.topic_id, self.durable_start,
            self._came_damaged == (self.leader_epoch, self.log.log_end_offset),
        )  # fmt: skip

    def take_fetched(self, asked: FetchPart, result: FetchPartResult, records: memoryview) -> None:
        """Append what the leader gave, or cut the log where it left the leader's."""
        if asked.leader_epoch != self.leader_epoch or self.leading is not None:
            return  # an answer from before the last change of leader
        if result.error_code == OffsetOutOfRange.code and self._start_over(result.log_start_offset):
            return
        result.raise_if_failed(topic=self.where.topic, partition=self.where.partition)
        if result.diverging_epoch != NO_EPOCH:
            self._cut(result.diverging_epoch, result.diverging_end)
            return
        if records:
            try:
                self.log.append_as_follower(records, self.leader_epoch)
            except DamagedRecords as error:
                self._came_damaged = self.leader_epoch, error.offset  # the leader hears of it with the next fetch
                raise
        high_watermark = min(result.high_watermark, self.log.log_end_offset)
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
        if result.log_start_offset > self.durable_start:
            self.log.delete_records_before(min(result.log_start_offset, self.log.log_end_offset))
            self._events.start_moved(self)

    def drop_damaged(self, offset: int) -> None:
        """Cut the log before a damaged batch: this replica does not count any more, and copies the rest from an intact one."""
        if self.log.log_start_offset <= offset < self.log.log_end_offset:
            self._drop_from(offset)
            self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self.damage = None

    def _drop_from(self, offset: int) -> None:
        try:
            self.log.truncate_to(offset)
        except CorruptMessage:  # a damaged header hides where the batch is
            self.log.truncate_fully_and_start_at(self.log.log_start_offset)

    def _cut(self, epoch: int, end: int) -> None:
        """Cut to where both logs agree for sure; the next fetch shows whether that is far enough [I4].

        LeaderLacksCommitted if this follower is in sync and that would be below its high watermark. A leader that was elected
        though it may lack committed records (unclean, or after a crash of all machines) begins alone in its ISR, so this is
        no such case.
        """
        own_epoch, own_end = self.log.end_offset_for_epoch(epoch)
        target = min(own_end, end) if own_epoch == epoch else own_end
        if target < 0:
            target = self.log.log_start_offset
        if target < self.high_watermark and self._in_sync:
            self.refuses_leader = True
            raise LeaderLacksCommitted(
                f"broker {self.leader} leads {self.where} in epoch {self.leader_epoch} without committed records: its log"
                f" leaves this one at offset {target}, and all before offset {self.high_watermark} is committed"
            )
        self.log.truncate_to(target)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def _start_over(self, leader_start: int) -> bool:
        """The leader has nothing that could come next here: go on where it begins, unless there are records to be lost."""
        if leader_start <= self.log.log_end_offset and self.log.size:
            return False
        self.log.truncate_fully_and_start_at(leader_start)
        self.high_watermark = leader_start
        return True
