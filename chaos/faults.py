"""What can be done to a cluster, and to whom. Pure: roles are told here, names are found when the time comes."""

from dataclasses import dataclass
from enum import StrEnum

from ottla.wire.errors import OttlaError

CLIENTS = "clients"
"""The one name in cuts that is not a node's: all producers, consumers and admins."""

TOPIC = "topic"
"""Whom faults meet that are done to the topic."""


class Kind(StrEnum):
    """A fault; each has an end, which undoes it."""

    KILL = "kill"
    """Ended with SIGKILL; the end starts it again."""
    KILL_AHEAD = "kill-ahead"
    """Killed after a moment in which nobody could copy from it: what it alone has is gone with it."""
    STOP = "stop"
    """Ended in good order; the end starts it again."""
    RESTART = "restart"
    """Ended in good order and started again at once."""
    PAUSE = "pause"
    """Frozen: sockets stay open and nothing answers."""
    CUT = "cut"
    """Nothing passes between the victims and their peers, in neither direction."""
    CUT_FROM = "cut-from"
    """What the peers send does not reach the victims; the other direction works."""
    CUT_TO = "cut-to"
    """What the victims send does not reach their peers; the other direction works."""
    ISOLATE = "isolate"
    """Nothing passes between the victims and anybody else."""
    LOSE_ANSWERS = "lose-answers"
    """Clients' requests arrive and are done, and the answers are lost with their connections."""
    LATE_ANSWERS = "late-answers"
    """Answers to clients are held back, then the victim sleeps: when both end, its answers come after its successor's."""
    SLOW = "slow"
    """Everything on the way to the victims takes longer."""
    DISK_FULL = "disk-full"
    """The file system has no free space (ENOSPC); the end frees it. The broker is not restarted."""
    DISK_FAILS = "disk-fails"
    """Every write to disk fails (EFBIG); the end lets them succeed and restarts the broker."""
    NO_DESCRIPTORS = "no-descriptors"
    """The process cannot open any more files or sockets (EMFILE); the end lifts the limit. The broker is not restarted."""
    CLOCK = "clock"
    """The wall clock is wrong."""
    WIPE = "wipe"
    """All brokers are killed; the victim's data is deleted, and it is started alone. The end starts the others."""
    LOSE_PARTITION = "lose-partition"
    """All brokers are killed; the victim loses a partition's folder or the end of its log and is started alone. The end
    starts the others."""
    FLIP_BIT = "flip-bit"
    """One bit on the leader's disk is flipped, and a follower loses its partition folder and copies the log again."""
    RESTART_UNSEEN = "restart-unseen"
    """The leader is killed and restarted while the controller is paused, after an ISR change that the controller has not
    heard of. The end kills the leader and the controller and leaves the replica that had joined."""
    MIN_INSYNC = "min-insync"
    """The topic's min.insync.replicas is lowered to 1; the end raises it again."""
    REASSIGN = "reassign"
    """The victim's partition is moved, and moved elsewhere before that has ended; the end moves it back."""
    BAD_ELECTION = "bad-election"
    """The victim is killed, and who should lead in its place cannot write its epoch; the end mends the disk and starts both."""


class Role(StrEnum):
    """Whom a fault meets."""

    LEADER = "leader"
    """Of one partition."""
    OTHER_LEADER = "other-leader"
    """The leader of a partition that the controller does not lead."""
    FOLLOWER = "follower"
    """One replica of a partition that does not lead it."""
    FOLLOWERS = "followers"
    """All replicas of a partition that do not lead it."""
    CONTROLLER = "controller"
    BROKER = "broker"
    """Any one."""
    MINORITY = "minority"
    """Fewer than half of the brokers."""
    MAJORITY = "majority"
    """More than half of the brokers."""
    ALL = "all"
    """All brokers."""
    RACK = "rack"
    """All brokers of one rack."""
    ZOOKEEPER_LEADER = "zookeeper-leader"
    ZOOKEEPER = "zookeeper"
    """Any one server of the ensemble."""
    ZOOKEEPER_MAJORITY = "zookeeper-majority"
    ZOOKEEPER_ALL = "zookeeper-all"
    CLIENTS = "clients"
    TOPIC = "topic"
    """No node: the topic itself, or one partition of it."""


ALL_REPLICAS_KINDS = frozenset({Kind.WIPE, Kind.LOSE_PARTITION, Kind.FLIP_BIT, Kind.RESTART_UNSEEN})
"""Faults that begin only while every replica is in sync and no other fault lasts, and that affect all brokers."""

BROKER_ROLES_OF_ONE = frozenset({Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.BROKER})

TOPIC_KINDS = frozenset({Kind.MIN_INSYNC, Kind.REASSIGN})
"""Done to the topic by an admin; no node suffers."""

SILENT = frozenset(
    {
        Kind.PAUSE,
        Kind.CUT,
        Kind.CUT_FROM,
        Kind.CUT_TO,
        Kind.ISOLATE,
        Kind.LOSE_ANSWERS,
        Kind.LATE_ANSWERS,
        Kind.DISK_FULL,
        Kind.DISK_FAILS,
        Kind.NO_DESCRIPTORS,
    }
)
"""Faults that others learn of by waiting: no connection closes."""


@dataclass(frozen=True)
class Fault:
    """One fault. ``pick`` chooses among several that a role fits, so that a seed decides who it is."""

    kind: Kind
    victim: Role
    peer: Role | None = None
    pick: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.victim}" + (f" and {self.peer}" if self.peer else "")


class NotOffered(Exception):
    """A target cannot do this fault; the message says why."""


class NotStarted(OttlaError):
    """A run did not come so far that it could have found anything."""


@dataclass(frozen=True)
class Step:
    """A fault and its time, in seconds from the beginning of a schedule."""

    at_s: float
    lasts_s: float
    fault: Fault
    progress: bool
    """Whether every partition takes records again while the fault lasts, once it had time to be noticed."""

    @property
    def end_s(self) -> float:
        return self.at_s + self.lasts_s
