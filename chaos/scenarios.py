"""The named scenarios: what a cluster they need, and which faults they bring. Pure."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random

from ottla.chaos.faults import Fault, Kind, Role, Step
from ottla.chaos.schedule import QUIET_S, Pattern, alone_s, grace_s, late_s, random_steps, repeated

AFTER_S = 4.0
"""How long a fault goes on after the cluster should have dealt with it, to see that it did."""


@dataclass(frozen=True)
class Shape:
    """The cluster and the topic of a scenario."""

    brokers: int = 3
    racks: int = 1
    partitions: int = 3
    replication: int = 3
    min_insync: int = 2
    session_s: float | None = None
    """The ZooKeeper session timeout of the brokers, if the target may choose it."""
    small_disks: bool = False
    """Whether each broker has a file system of its own, which can be filled."""


@dataclass(frozen=True)
class Scenario:
    """``steps(seconds, seed, offered kinds, session_s)`` is its schedule, ``needs`` what a target must be able to do."""

    name: str
    what: str
    steps: Callable[[float, int, Collection[Kind], float], list[Step]]
    needs: frozenset[Kind] = frozenset()
    shape: Shape = Shape()
    may_skip: float = 0.0
    """This part of the faults may find no victim: where they overlap by chance, some meet one who suffers already."""


def _one(name: str, what: str, fault: Fault, *, progress: bool | None = None, shape: Shape | None = None) -> Scenario:
    """A scenario that repeats one fault; each round picks anew among those that its role fits."""

    def steps(seconds: float, seed: int, offered: Collection[Kind], session_s: float) -> list[Step]:
        lasts = grace_s(fault.kind, session_s) + AFTER_S

        def one_round(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
            return [(0.0, lasts, Fault(fault.kind, fault.victim, fault.peer, number))]

        return repeated(one_round, seconds, seed, progress=progress)

    return Scenario(name, what, steps, frozenset({fault.kind}), shape or Shape())


def _rounds(
    name: str,
    what: str,
    pattern: Pattern,
    *needs: Kind,
    progress: bool | None = None,
    shape: Shape | None = None,
    stretched: bool = False,
) -> Scenario:
    """A scenario of rounds. With ``stretched`` the pattern's times are in sessions, not in seconds."""

    def steps(seconds: float, seed: int, offered: Collection[Kind], session_s: float) -> list[Step]:
        unit = session_s if stretched else 1.0

        def one_round(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
            return [(at * unit, lasts * unit, fault) for at, lasts, fault in pattern(number, chance)]

        return repeated(one_round, seconds, seed, progress=progress)

    return Scenario(name, what, steps, frozenset(needs), shape or Shape())


def _kill_somebody(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
    victim = chance.choice((Role.LEADER, Role.CONTROLLER, Role.BROKER))
    kind = chance.choice((Kind.KILL, Kind.KILL_AHEAD))
    return [(0.0, chance.uniform(0.1, 8.0), Fault(kind, victim, pick=chance.randrange(1000)))]


def _restart_each(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
    return [(0.0, 1.0, Fault(Kind.RESTART, Role.BROKER, pick=number))]


def _lose_answers(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
    return [(0.0, chance.uniform(0.1, 0.5), Fault(Kind.LOSE_ANSWERS, Role.LEADER, pick=number))]


def _all_of_zookeeper(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
    return [(0.0, 10.0, Fault(Kind.KILL, Role.ZOOKEEPER_ALL))]


def _timed(name: str, what: str, fault: Fault, lasts_s: Callable[[float, Random], float]) -> Scenario:
    """A scenario that repeats one fault, each time as long as ``lasts_s(session_s, chance)`` says."""

    def steps(seconds: float, seed: int, offered: Collection[Kind], session_s: float) -> list[Step]:
        def one_round(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
            return [(0.0, lasts_s(session_s, chance), Fault(fault.kind, fault.victim, pick=number))]

        return repeated(one_round, seconds, seed)

    return Scenario(name, what, steps, frozenset({fault.kind}))


def _lower_while_alone(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
    """A leader is alone, then acknowledges alone, and dies; those who left before that come back without it."""
    return [
        (0.0, 3.2, Fault(Kind.KILL, Role.FOLLOWERS, pick=number)),
        (0.5, 6.5, Fault(Kind.MIN_INSYNC, Role.TOPIC)),  # the controller may be among the dead
        (3.0, 4.0, Fault(Kind.KILL, Role.LEADER, pick=number)),
    ]


def _give_up_alone(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
    """Nothing can be acknowledged for longer than hasty producers try, and then it can."""
    return [(0.0, chance.uniform(3.0, 5.0), Fault(Kind.KILL, Role.FOLLOWERS, pick=number))]


def _in_turn(seconds: float, seed: int, offered: Collection[Kind], session_s: float) -> list[Step]:
    """One after the other, with a quiet moment between."""

    def one_round(number: int, chance: Random) -> list[tuple[float, float, Fault]]:
        lowered = [
            (at * session_s, lasts * session_s, fault) for at, lasts, fault in _lower_while_alone(number, chance)
        ]
        groups = (
            [(0.0, alone_s(session_s, chance), Fault(Kind.WIPE, Role.LEADER, pick=number))],
            [(0.0, late_s(session_s, chance), Fault(Kind.LATE_ANSWERS, Role.LEADER, pick=number + 1))],
            lowered,
            [(0.0, 6.0, Fault(Kind.REASSIGN, Role.TOPIC, pick=number))],
            [(0.0, 6.0, Fault(Kind.BAD_ELECTION, Role.LEADER, pick=number + 2))],
            _give_up_alone(number, chance),
        )
        faults: list[tuple[float, float, Fault]] = []
        begins = 0.0
        for group in groups:
            faults += [(begins + at, lasts, fault) for at, lasts, fault in group if fault.kind in offered]
            begins += max(at + lasts for at, lasts, _ in group) + QUIET_S
        return faults

    return repeated(one_round, seconds, seed, progress=False)


_RACKS = Shape(brokers=5, racks=2, min_insync=1)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("random", "rotating random subsets of all faults, sometimes none", random_steps, may_skip=0.34),
        _one("kill-leader", "the leader of each partition in turn, -9", Fault(Kind.KILL, Role.LEADER)),
        _one(
            "kill-leader-ahead",
            "a leader killed after a moment in which nobody could copy from it",
            Fault(Kind.KILL_AHEAD, Role.LEADER),
        ),
        _one("kill-controller", "the controller, -9", Fault(Kind.KILL, Role.CONTROLLER)),
        _rounds("kill-random", "anybody, -9, for a random time", _kill_somebody, Kind.KILL, Kind.KILL_AHEAD),
        _one("kill-all", "all brokers at once, -9", Fault(Kind.KILL, Role.ALL)),
        _one("kill-majority", "two of three brokers, -9", Fault(Kind.KILL, Role.MAJORITY)),
        _one("kill-rack", "a whole rack of two, -9", Fault(Kind.KILL, Role.RACK), progress=True, shape=_RACKS),
        _one("pause-leader", "a leader sleeps past its session and wakes up", Fault(Kind.PAUSE, Role.LEADER)),
        _one("pause-controller", "the controller sleeps and wakes up", Fault(Kind.PAUSE, Role.CONTROLLER)),
        _rounds("rolling-restart", "every broker in turn, in good order", _restart_each, Kind.RESTART, progress=True),
        _one(
            "cut-leader-from-zookeeper",
            "a leader that all but ZooKeeper reach",
            Fault(Kind.CUT, Role.LEADER, Role.ZOOKEEPER_ALL),
        ),
        _one(
            "cut-leader-from-followers",
            "a leader that hears nothing from its followers, while they hear it",
            Fault(Kind.CUT_FROM, Role.LEADER, Role.FOLLOWERS),
        ),
        _one(
            "isolate-leader", "a leader that nobody reaches and that reaches nobody", Fault(Kind.ISOLATE, Role.LEADER)
        ),
        _rounds("lose-answers", "acks that never arrive, connections reset", _lose_answers, Kind.LOSE_ANSWERS),
        _one("follower-slow", "a slow way to one follower and back", Fault(Kind.SLOW, Role.FOLLOWER), progress=True),
        _one(
            "disk-full",
            "the disk of a leader is full, then has room again",
            Fault(Kind.DISK_FULL, Role.LEADER),
            shape=Shape(small_disks=True),
        ),
        _one("disk-fails", "every write to the disk of a leader fails", Fault(Kind.DISK_FAILS, Role.LEADER)),
        _one(
            "no-descriptors",
            "a leader can open no files and sockets for some seconds",
            Fault(Kind.NO_DESCRIPTORS, Role.LEADER),
        ),
        _timed(
            "lost-partition",
            "all brokers are killed, and a follower without a partition's folder or the end of its log is started first",
            Fault(Kind.LOSE_PARTITION, Role.FOLLOWER),
            alone_s,
        ),
        _one(
            "flipped-bit",
            "one bit on a leader's disk is flipped, and a follower copies the log again",
            Fault(Kind.FLIP_BIT, Role.LEADER),
        ),
        _one(
            "restarted-unseen",
            "a leader is restarted under a paused controller, after an ISR change that only ZooKeeper has",
            Fault(Kind.RESTART_UNSEEN, Role.OTHER_LEADER),
            shape=Shape(session_s=12.0),
        ),
        _one("zookeeper-leader-killed", "the leader of the ensemble, -9", Fault(Kind.KILL, Role.ZOOKEEPER_LEADER)),
        _one(
            "zookeeper-majority-down",
            "two of three ZooKeeper servers gone: what is led goes on",
            Fault(Kind.KILL, Role.ZOOKEEPER_MAJORITY),
        ),
        _rounds(
            "zookeeper-down",
            "the whole ensemble gone for ten seconds: what is led goes on",
            _all_of_zookeeper,
            Kind.KILL,
        ),
        _timed(
            "late-answers",
            "a leader sleeps a little longer than its session, and its last answers arrive when it wakes up",
            Fault(Kind.LATE_ANSWERS, Role.LEADER),
            late_s,
        ),
        _timed(
            "wiped-disk",
            "all die, and a leader comes back first with an empty disk",
            Fault(Kind.WIPE, Role.LEADER),
            alone_s,
        ),
        _rounds(
            "min-insync-lowered",
            "a leader is left alone, is allowed to acknowledge alone, and dies",
            _lower_while_alone,
            Kind.MIN_INSYNC,
            Kind.KILL,
            progress=False,
            stretched=True,
        ),
        _rounds(
            "give-up",
            "nothing is in sync for longer than hasty producers try",
            _give_up_alone,
            Kind.KILL,
            progress=False,
        ),
        _one(
            "reassign-twice",
            "a partition is moved elsewhere before its last move has ended",
            Fault(Kind.REASSIGN, Role.TOPIC),
            shape=Shape(brokers=4),
        ),
        _one(
            "bad-election",
            "a leader dies, and the disk of its successor fails as it is elected",
            Fault(Kind.BAD_ELECTION, Role.LEADER),
        ),
        Scenario(
            "in-turn",
            "wiped-disk, late-answers, min-insync-lowered, reassign-twice, bad-election and give-up, in turn",
            _in_turn,
            frozenset({Kind.WIPE, Kind.KILL, Kind.MIN_INSYNC, Kind.REASSIGN, Kind.BAD_ELECTION, Kind.LATE_ANSWERS}),
            may_skip=0.2,
        ),
        Scenario("calm", "no fault at all: what the workload does by itself", lambda *_: []),
    )
}
