"""Which faults come when: named patterns repeated, and random subsets. Pure: the same seed gives the same schedule."""

import random
from collections.abc import Callable, Collection, Iterable, Sequence

from ottla.chaos.faults import ALL_REPLICAS_KINDS, BROKER_ROLES_OF_ONE, SILENT, TOPIC_KINDS, Fault, Kind, Role, Step

QUIET_S = 3.0
"""Between two rounds, so that what was down comes back before the next blow."""

NOTICED_S = 5.0
"""In this time a closed connection is noticed and acted upon, even on a busy machine."""

REQUEST_TIMEOUT_S = 4.0
"""How long a client of the workload waits for an answer before it asks somebody else."""

Pattern = Callable[[int, random.Random], Sequence[tuple[float, float, Fault]]]
"""The faults of one round, by its number: when each begins in the round, how long it lasts, and what it is."""


def grace_s(kind: Kind, session_s: float) -> float:
    """How long a partition may stand still after a fault before its next leader takes records."""
    return session_s * 1.5 + REQUEST_TIMEOUT_S + NOTICED_S if kind in SILENT else NOTICED_S


def leaves_a_quorum(faults: Collection[Fault]) -> bool:
    """Whether each partition keeps enough replicas and a way to a new leader: at most one broker suffers."""
    spares = {Kind.SLOW, *TOPIC_KINDS}
    hurt = [fault for fault in faults if not fault.victim.startswith("zookeeper") and fault.kind not in spares]
    if hurt and any(fault.kind is Kind.REASSIGN for fault in faults):
        return False  # a partition that is moved may have fewer replicas for a while
    if any(fault.kind in ALL_REPLICAS_KINDS or fault.kind is Kind.BAD_ELECTION for fault in hurt):
        return False  # more than one broker suffers
    if any(fault.kind in (Kind.DISK_FULL, Kind.NO_DESCRIPTORS) for fault in hurt):
        return False  # a leader without room refuses records and stays leader
    if any(fault.victim not in BROKER_ROLES_OF_ONE for fault in hurt) or len(hurt) > 1:
        return False
    if any(fault.kind in (Kind.CUT, Kind.CUT_FROM, Kind.CUT_TO) and not _from_zookeeper(fault) for fault in hurt):
        return False  # the controller sees a leader that lives, and its followers cannot copy
    zookeeper_lost = any(fault.victim in (Role.ZOOKEEPER_MAJORITY, Role.ZOOKEEPER_ALL) for fault in faults)
    return not (zookeeper_lost and hurt)


def _from_zookeeper(fault: Fault) -> bool:
    return fault.peer is Role.ZOOKEEPER_ALL


def repeated(pattern: Pattern, seconds: float, seed: int, *, progress: bool | None = None) -> list[Step]:
    """Round after round of a pattern, as many as fit; ``progress`` overrides what can be told from the faults."""
    chance = random.Random(seed)
    steps: list[Step] = []
    begins, number = QUIET_S, 0
    while True:
        faults = pattern(number, chance)
        ends = max((at + lasts for at, lasts, _ in faults), default=QUIET_S)
        if steps and begins + ends > seconds:
            return steps
        alive = leaves_a_quorum([fault for _, _, fault in faults]) if progress is None else progress
        steps += [Step(begins + at, lasts, fault, alive) for at, lasts, fault in faults]
        begins += ends + QUIET_S
        number += 1


# What random rounds are made of. What stands twice comes twice as often.
_MENU: tuple[tuple[Kind, Role, Role | None], ...] = (
    (Kind.KILL, Role.LEADER, None),
    (Kind.KILL, Role.CONTROLLER, None),
    (Kind.KILL, Role.FOLLOWER, None),
    (Kind.KILL, Role.MAJORITY, None),
    (Kind.KILL, Role.ALL, None),
    (Kind.KILL_AHEAD, Role.LEADER, None),
    (Kind.STOP, Role.LEADER, None),
    (Kind.RESTART, Role.BROKER, None),
    (Kind.PAUSE, Role.LEADER, None),
    (Kind.PAUSE, Role.CONTROLLER, None),
    (Kind.PAUSE, Role.MAJORITY, None),
    (Kind.CUT, Role.LEADER, Role.ZOOKEEPER_ALL),
    (Kind.CUT, Role.CONTROLLER, Role.ZOOKEEPER_ALL),
    (Kind.CUT, Role.LEADER, Role.FOLLOWERS),
    (Kind.CUT_FROM, Role.LEADER, Role.FOLLOWERS),
    (Kind.CUT_TO, Role.LEADER, Role.FOLLOWERS),
    (Kind.CUT_TO, Role.BROKER, Role.CLIENTS),
    (Kind.ISOLATE, Role.LEADER, None),
    (Kind.ISOLATE, Role.CONTROLLER, None),
    (Kind.LOSE_ANSWERS, Role.LEADER, None),
    (Kind.LATE_ANSWERS, Role.LEADER, None),
    (Kind.SLOW, Role.FOLLOWER, None),
    (Kind.SLOW, Role.LEADER, None),
    (Kind.DISK_FULL, Role.LEADER, None),
    (Kind.DISK_FULL, Role.FOLLOWER, None),
    (Kind.DISK_FAILS, Role.LEADER, None),
    (Kind.DISK_FAILS, Role.FOLLOWER, None),
    (Kind.NO_DESCRIPTORS, Role.LEADER, None),
    (Kind.NO_DESCRIPTORS, Role.FOLLOWER, None),
    (Kind.CLOCK, Role.BROKER, None),
    (Kind.KILL, Role.ZOOKEEPER_LEADER, None),
    (Kind.PAUSE, Role.ZOOKEEPER_LEADER, None),
    (Kind.KILL, Role.ZOOKEEPER, None),
    (Kind.KILL, Role.ZOOKEEPER_MAJORITY, None),
    (Kind.WIPE, Role.LEADER, None),
    (Kind.WIPE, Role.BROKER, None),
    (Kind.LOSE_PARTITION, Role.LEADER, None),
    (Kind.LOSE_PARTITION, Role.FOLLOWER, None),
    (Kind.FLIP_BIT, Role.LEADER, None),
    (Kind.MIN_INSYNC, Role.TOPIC, None),
    (Kind.MIN_INSYNC, Role.TOPIC, None),
    (Kind.REASSIGN, Role.TOPIC, None),
    (Kind.REASSIGN, Role.TOPIC, None),
    (Kind.BAD_ELECTION, Role.LEADER, None),
)


def random_steps(seconds: float, seed: int, offered: Collection[Kind], session_s: float) -> list[Step]:
    """Rotating random subsets of all faults, sometimes none: each round some begin, all end, and a quiet moment follows."""
    menu = [entry for entry in _MENU if entry[0] in offered]
    sizes, weights = (0, 1, 2, 3), (1, 6, 3, 1)

    def one_round(number: int, chance: random.Random) -> list[tuple[float, float, Fault]]:
        size = chance.choices(sizes, weights)[0]
        chosen = chance.sample(menu, min(size, len(menu)))
        return [
            (chance.uniform(0, 2), _lasts_s(kind, session_s, chance), Fault(kind, victim, peer, chance.randrange(1000)))
            for kind, victim, peer in chosen
        ]

    return [step for step in repeated(one_round, seconds, seed) if step.end_s <= seconds]


def _lasts_s(kind: Kind, session_s: float, chance: random.Random) -> float:
    """Some pass before anybody has noticed, some outlast the session, some outlast everything."""
    if kind in (Kind.RESTART, Kind.LOSE_ANSWERS):
        return chance.uniform(0.5, 2.0)
    if kind in (Kind.WIPE, Kind.LOSE_PARTITION):
        return alone_s(session_s, chance)
    if kind is Kind.LATE_ANSWERS or (kind is Kind.PAUSE and chance.random() < 0.5):
        return late_s(session_s, chance)
    return chance.choice(
        (chance.uniform(0.2, 2.0), session_s * chance.uniform(1.0, 2.0), grace_s(kind, session_s) + 3.0)
    )


def late_s(session_s: float, chance: random.Random) -> float:
    """Longer than a session takes to end: another leads, and consumers still wait for answers of the one that wakes up."""
    return session_s * 1.5 + chance.uniform(1.5, 2.0)


def alone_s(session_s: float, chance: random.Random) -> float:
    """Until everybody else counts as dead, and who came back alone is the controller and has had time to lead."""
    return session_s * 1.5 + chance.uniform(3.0, 4.0)


def ends(steps: Iterable[Step]) -> float:
    """When the last fault is over."""
    return max((step.end_s for step in steps), default=0.0)
