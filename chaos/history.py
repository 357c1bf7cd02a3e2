"""What producers did, what consumers read and what the replicas hold at the end. Pure: times are arguments.

Every value is unique, and records are compared as a whole: key, headers and timestamp too. A send is *ok* (acknowledged),
*failed* (certainly not stored) or *unknown*: it may be stored or not, now or later, and the checker takes either. All times
are of one monotonic clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.client.records import Receipt

Headers = tuple[tuple[str, bytes | None], ...]


class Outcome(Enum):
    """What a producer heard about a record."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Send:
    """One record, from the moment it was given to the producer; unknown until something is heard."""

    producer: str
    number: int
    """Counts a producer's records of one key."""
    began: float
    key: str = ""
    ended: float = float("inf")
    outcome: Outcome = Outcome.UNKNOWN
    partition: int | None = None
    offset: int | None = None
    """None for an acknowledgement that does not tell where: the record was stored by an earlier try."""
    receipt: Receipt | None = None
    error: str = ""
    """What was heard instead of an acknowledgement."""
    headers: Headers = ()
    timestamp: int | None = None
    """In milliseconds; None if the producer chose it and nobody has heard which."""
    delivery_timeout_s: float = 0.0
    """How long its producer tries to deliver it; 0 if that is not known, as with Kafka's clients."""

    @property
    def value(self) -> bytes:
        return "-".join(filter(None, (self.producer, self.key, str(self.number)))).encode()

    def acknowledged(self, partition: int, offset: int | None, now: float, receipt: Receipt | None = None) -> None:
        self.outcome, self.partition, self.offset, self.ended = Outcome.OK, partition, offset, now
        self.receipt = receipt

    def refused(self, now: float, error: str = "") -> None:
        self.outcome, self.ended, self.error = Outcome.FAILED, now, error

    def unheard(self, now: float, error: str) -> None:
        """The producer gave up; nobody knows what became of the record."""
        self.ended, self.error = now, error


class Read(NamedTuple):
    """One record as a consumer got it; a consumer's reads stand in the order in which it got them."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1


Reads = Mapping[int, Sequence[Read]]
"""What one consumer got, by partition."""


class Session(NamedTuple):
    """One consumer object of a reader, which nobody seeks once it has begun. ``begins`` is where it was told to, by partition.

    A reader's first session is told the beginning, and each later one where the one before ended.
    """

    consumer: str
    number: int
    began: float
    begins: Mapping[int, int]


class Poll(NamedTuple):
    """Records of one partition that a consumer got at once. In one session a consumer owns its partitions without a break."""

    consumer: str
    session: int
    at: float
    partition: int
    reads: Sequence[Read]


class GroupPoll(NamedTuple):
    """Records of one partition that a member of the group got at once, from ``first`` to before ``end``."""

    member: str
    generation: int
    at: float
    partition: int
    first: int
    end: int


class GroupCommit(NamedTuple):
    """A commit that was acknowledged."""

    member: str
    generation: int
    began: float
    ended: float
    partition: int
    offset: int


class Batch(NamedTuple):
    """A batch as it stands in a replica's log."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    digest: bytes


class Replica(NamedTuple):
    """The whole log of one partition on one broker, after all faults."""

    partition: int
    broker: int
    size: int
    digest: bytes
    batches: Sequence[Batch]


class Event(NamedTuple):
    """Something that happened to the cluster: a fault, its end, another leader, another ISR."""

    at: float
    kind: str
    what: str
    until: float | None = None
    """When it ended, of things that last."""
    targets: tuple[str, ...] = ()


class Lowered(NamedTuple):
    """A time in which min.insync.replicas was less than it is else; both ends are told generously."""

    began: float
    ended: float
    min_insync: int


class Expectation(NamedTuple):
    """So many records of each of these partitions are acknowledged in this time, whatever goes on."""

    began: float
    ended: float
    partitions: tuple[int, ...]
    acks: int
    why: str


@dataclass(frozen=True)
class History:
    """All that was recorded. ``reads`` is the final read: from 0 to the end of every partition, after all has healed."""

    sends: Sequence[Send]
    reads: Reads
    polls: Sequence[Poll] = ()
    replicas: Sequence[Replica] = ()
    events: Sequence[Event] = ()
    expectations: Sequence[Expectation] = ()
    min_insync: int = 1
    troubles: Sequence[str] = field(default=())
    """What kept the cluster from healing."""
    sessions: Sequence[Session] = ()
    consumers: Sequence[str] = ()
    """Readers that were to read everything from the beginning, while it was written."""
    lowered: Sequence[Lowered] = ()
    group_polls: Sequence[GroupPoll] = ()
    group_commits: Sequence[GroupCommit] = ()
    failures: Sequence[str] = ()
    """What kept a part of the run from its work: then what was not found proves nothing."""
