"""What a leader knows of its followers, and what follows from it: the high watermark and who is in sync. Pure.

Time is an argument (seconds of a monotonic clock). The names in brackets are the invariants of docs/invariants.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

UNKNOWN = -1


class Isr(NamedTuple):
    """The in-sync replicas as they stand in ZooKeeper, and the version that the next write must name."""

    members: tuple[int, ...]
    version: int
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): they left while fewer than min.insync.replicas remained, and still have all that is
    committed [I13]."""


class Change(NamedTuple):
    """A change of the ISR that was asked for and whose fate may be unknown."""

    members: tuple[int, ...]
    elr: tuple[int, ...]
    joining: int | None
    """The follower that joins; None if some leave, or if only those that were eligible are so no more."""
    joining_epoch: int = UNKNOWN


@dataclass(slots=True)
class Follower:
    """What the leader has seen of a follower in this leader epoch."""

    caught_up_at: float
    log_end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    fetched_at: float = 0.0
    leader_end_then: int = 0
    may_return: bool = False
    """Whether it has fetched since it last left the ISR."""


class LeaderState:
    """One leader epoch of one partition. Made anew for every epoch, so nothing from an older one is counted [I3]."""

    def __init__(
        self,
        broker_id: int,
        leader_epoch: int,
        epoch_start: int,
        replicas: Iterable[int],
        isr: Isr,
        now: float,
        broker_epoch: int = UNKNOWN,
    ) -> None:
        """``broker_epoch`` is the incarnation of this broker that was told to lead: a later one writes no ISR of it [I10]."""
        self._id = broker_id
        self.broker_epoch = broker_epoch
        self.leader_epoch = leader_epoch
        self.epoch_start = epoch_start
        self.isr = isr
        self.change: Change | None = None
        # Members of the ISR begin as caught up: judging them by a time before this epoch would throw them all out.
        self.followers = {
            replica: Follower(now if replica in isr.members else float("-inf"))
            for replica in replicas
            if replica != broker_id
        }

    # --- who is in sync --------------------------------------------------------------------------------------------------

    @property
    def effective_isr(self) -> frozenset[int]:
        """All that ZooKeeper may say, now or when a change in flight arrives [I2]: always a superset of the truth."""
        if self.change is None:
            return frozenset(self.isr.members)
        return frozenset(self.isr.members) | frozenset(self.change.members)

    def fetched(self, replica: int, offset: int, broker_epoch: int, leader_end: int, now: float) -> None:
        """A follower has everything before ``offset``: it asks for what comes next, in this leader epoch."""
        follower = self.followers[replica]
        if broker_epoch < follower.broker_epoch:
            return  # from a former life, overtaken by the present one: what that life had may be lost [I6]
        if offset >= leader_end:
            follower.caught_up_at = now
        elif offset >= follower.leader_end_then:
            # It has all that there was at its last fetch; under constant writes a follower is never closer than that.
            follower.caught_up_at = max(follower.caught_up_at, follower.fetched_at)
        follower.log_end_offset = offset
        follower.broker_epoch = broker_epoch
        follower.fetched_at = now
        follower.leader_end_then = leader_end
        follower.may_return = True

    def begins_at(self, replica: int, log_start_offset: int, broker_epoch: int) -> bool:
        """A follower tells where its log begins; whether that is news."""
        follower = self.followers[replica]
        if broker_epoch < follower.broker_epoch or log_start_offset == follower.log_start_offset:
            return False
        follower.log_start_offset = log_start_offset
        return True

    def low_watermark(self, local_start: int) -> int:
        """Where the log begins at every replica that may be elected: none of them has records before that [I28]."""
        return min([local_start, *map(self._start_of, self._electable)])

    def begin_before(self, offset: int) -> list[int]:
        """Which followers keep the low watermark before ``offset``."""
        return sorted(replica for replica in self._electable if self._start_of(replica) < offset)

    @property
    def _electable(self) -> frozenset[int]:
        """Followers that are or may be in sync, and those that are not and may be elected all the same [I13]."""
        eligible = {*self.isr.elr, *(self.change.elr if self.change is not None else ())}
        return (self.effective_isr | eligible) - {self._id}

    def _start_of(self, replica: int) -> int:
        return self.followers[replica].log_start_offset if replica in self.followers else UNKNOWN

    def level_until(self, replica: int, then: float) -> None:
        """A follower that had everything fetched again at that time, though it did not name this partition."""
        follower = self.followers.get(replica)
        if follower is not None and then > follower.caught_up_at:
            follower.caught_up_at = then

    def may_join(self, replica: int, high_watermark: int, local_start: int = 0) -> bool:
        """Whether a follower should be in the ISR and is not [I5]: it has all that is committed and nothing that is deleted.

        ``local_start`` is where the leader's log begins, on its disk: nobody was told of a deletion that goes further.
        """
        if self.change is not None or replica in self.isr.members:
            return False
        follower = self.followers[replica]
        end = follower.log_end_offset
        has_all = end >= high_watermark and end >= self.epoch_start
        return follower.may_return and has_all and max(follower.log_start_offset, 0) >= local_start  # [I28]

    def laggards(self, leader_end: int, now: float, lag_max_s: float) -> frozenset[int]:
        """Members of the ISR that have not caught up for too long."""
        return frozenset(
            replica
            for replica, follower in self.followers.items()
            if replica in self.isr.members
            and follower.log_end_offset != leader_end
            and now - follower.caught_up_at > lag_max_s
        )

    def ask_to_join(self, replica: int, min_insync: int = 1) -> Change:
        """Begin to let a follower in: it counts from now on, though ZooKeeper does not know yet [I2]."""
        assert self.change is None, "one change at a time"
        members = (*self.isr.members, replica)
        elr: tuple[int, ...] = ()
        if len(members) < min_insync:  # with enough members more is committed, which those that left do not have [I13]
            elr = tuple(broker for broker in self.isr.elr if broker != replica)
        self.change = Change(members, elr, replica, self.followers[replica].broker_epoch)
        return self.change

    def ask_to_leave(self, laggards: frozenset[int], min_insync: int) -> Change:
        """Begin to throw followers out: they count until ZooKeeper has confirmed it [I2]."""
        assert self.change is None, "one change at a time"
        members = tuple(broker for broker in self.isr.members if broker not in laggards)
        elr: tuple[int, ...] = ()
        if len(members) < min_insync:
            elr = tuple(sorted({*self.isr.elr, *laggards}))
        self.change = Change(members, elr, None)
        self._must_fetch_first(laggards)
        return self.change

    def elr_outlived(self, min_insync: int) -> bool:
        """Whether enough are in sync to commit, though replicas that lack what is committed from now on are eligible.

        So it is where min.insync.replicas was lowered, or where the controller took it for more than this leader does.
        """
        return self.change is None and bool(self.isr.elr) and len(self.isr.members) >= min_insync

    def ask_to_clear_elr(self) -> Change:
        """Begin to let nobody outside of the ISR be eligible; nothing is committed until ZooKeeper has confirmed it [I13]."""
        assert self.change is None, "one change at a time"
        self.change = Change(self.isr.members, (), None)
        return self.change

    def settled(self, isr: Isr) -> None:
        """ZooKeeper's truth is known: the change took effect, or somebody else's did."""
        change = self.change
        expected = change.members if change is not None and change.joining is None else self.isr.members
        self._must_fetch_first(frozenset(expected) - frozenset(isr.members))  # whom the controller has thrown out
        self.isr = isr
        self.change = None

    def life_is_over(self, change: Change) -> None:
        """ZooKeeper knows the life that was to join no more; the next one will fetch."""
        joining = change.joining
        if joining is not None and self.followers[joining].broker_epoch == change.joining_epoch:
            self._must_fetch_first(frozenset((joining,)))

    def _must_fetch_first(self, brokers: frozenset[int]) -> None:
        for broker in brokers:
            if broker in self.followers:
                self.followers[broker].may_return = False

    # --- what is committed -----------------------------------------------------------------------------------------------

    def committed_end(self, local_end: int, min_insync: int, high_watermark: int) -> int:
        """The high watermark: what every member of the effective ISR has [I3]. Never moves back.

        While fewer than ``min_insync`` are in sync it does not move at all, so those that left have all that is committed;
        nor while ZooKeeper may still call some of them eligible, whatever ``min_insync`` is by now [I13].
        """
        if len(self.isr.members) < min_insync or self.isr.elr:
            return high_watermark
        end = local_end
        for replica in self.effective_isr:
            if replica != self._id:
                follower = self.followers.get(replica)
                end = min(end, follower.log_end_offset if follower is not None else UNKNOWN)
        return max(high_watermark, end)
