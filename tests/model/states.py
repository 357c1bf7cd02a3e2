"""What a state of the model is made of: tuples of tuples, so that states can be compared and hashed."""

from typing import Any, NamedTuple

NOTHING: frozenset[Any] = frozenset()

CONTROLLER = 9
REPLICAS = (0, 1, 2)


class Bounds(NamedTuple):
    """How far to look: the most leader epochs, records, ISR changes that leaders ask for, fences and restarts, lost tails."""

    epochs: int
    records: int
    changes: int
    lives: int
    losses: int
    min_insync: int = 1
    isr: tuple[int, ...] = (0, 1, 2)
    """Who is in sync in the beginning."""
    elr: tuple[int, ...] = ()
    lowered: bool = False
    """Whether min.insync.replicas becomes 1 on the way: each broker, and the controller, hears of it when it hears of it."""
    wipes: int = 0
    """How often a broker comes back with an empty disk."""
    replicas: tuple[int, ...] = REPLICAS
    """The replicas in the beginning."""
    moves: int = 0
    """How often the partition is sent elsewhere."""
    failures: int = 0
    """How often a disk fails as its broker is to lead."""


class Assignment(NamedTuple):
    """Of a partition that may be moving; ``counted`` are those that a leader may let into its ISR."""

    replicas: tuple[int, ...] = REPLICAS
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    counted: tuple[int, ...] = REPLICAS


class Zk(NamedTuple):
    leader: int
    epoch: int
    isr: tuple[int, ...]
    version: int
    elr: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    assignment: Assignment = Assignment()
    elected: int = 1
    """The broker epoch of the leader's incarnation that was elected; 0 if nobody leads."""

    @property
    def holders(self) -> frozenset[int]:
        """Who is known to have all that is committed."""
        return frozenset((*self.isr, *self.elr))


class Registration(NamedTuple):
    """/brokers/epochs/<id> and whether /brokers/ids/<id> is there."""

    epoch: int
    live: bool


class Pending(NamedTuple):
    """A change of the ISR that a leader asked for; ``in_flight`` until ZooKeeper has taken it."""

    members: tuple[int, ...]
    elr: tuple[int, ...]
    joining: int | None
    joining_epoch: int
    in_flight: bool


class Leading(NamedTuple):
    start: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    version: int
    change: Pending | None
    followers: tuple[tuple[int, int], ...]
    """The log end offset and broker epoch of each replica, as last fetched in this leader epoch."""
    replicas: tuple[int, ...] = REPLICAS
    """Whom it may let into the ISR."""


class Broker(NamedTuple):
    broker_epoch: int
    leader: int
    epoch: int
    log: tuple[tuple[int, int], ...]
    """Records: a number that is never used twice, and the leader epoch."""
    cache: tuple[tuple[int, int], ...]
    high_watermark: int
    leading: Leading | None


class Order(NamedTuple):
    """LeaderAndIsr on its way."""

    to: int
    broker_epoch: int
    state: Zk


class Stop(NamedTuple):
    """StopReplica on its way, with the leader epoch of its time: delete what you have."""

    to: int
    broker_epoch: int
    epoch: int


class StaleFetch(NamedTuple):
    """A fetch that is on its way while its sender has moved on."""

    leader: int
    sender: int
    broker_epoch: int
    epoch: int
    offset: int
    last_epoch: int


class State(NamedTuple):
    zk: Zk
    registered: tuple[Registration, ...]
    seen: tuple[int, ...]
    """What the controller believes: the epoch of each live broker, 0 for a dead one."""
    cache: Zk
    """What the controller knows of the partition: older than ``zk`` where a leader changed the ISR and it has not heard."""
    brokers: tuple[Broker, ...]
    orders: frozenset[Order]
    fetches: frozenset[StaleFetch]
    answers: frozenset[tuple[int, int, int]]
    """(follower, epoch, end): where a leader told a follower to cut, still on its way; only where such are not fenced."""
    acked: tuple[tuple[tuple[int, int], int], ...]
    """Committed records, each with the lowest epoch in which a leader acked it."""
    suspect: frozenset[int]
    """In-sync replicas that lost the end of their log in a restart."""
    appended: int
    changes: int
    lives: int
    losses: int
    lowered: frozenset[int] = NOTHING
    """Who has heard that min.insync.replicas is lower now: brokers, and CONTROLLER."""
    lost: frozenset[int] = NOTHING
    """In-sync replicas that came back with an empty disk."""
    wipes: int = 0
    stops: frozenset[Stop] = NOTHING
    moves: int = 0
    failed: frozenset[int] = NOTHING
    """Brokers whose disk failed as they were to lead."""
    failures: int = 0


Step = tuple[str, State]


class Violation(Exception):
    """A promise is broken."""


def put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    """The same values but for one."""
    return (*values[:place], value, *values[place + 1 :])


def settled(leading: Leading, zk: Zk) -> Leading:
    """A leader that knows what stands in ZooKeeper."""
    return leading._replace(isr=zk.isr, elr=zk.elr, version=zk.version, change=None)
