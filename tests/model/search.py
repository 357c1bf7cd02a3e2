"""Breadth-first search through a protocol: every state that can be reached, or the shortest way to a broken promise.

States are remembered by their hash, 64 bits; a trace is found again by walking the labels from the first state.
"""

import time
from dataclasses import dataclass

from tests.model.moves import moved_too_far
from tests.model.protocol import Protocol
from tests.model.real_code import leader_state
from tests.model.states import State, Violation


@dataclass(frozen=True)
class Found:
    """What a search came to. ``broken`` is empty if no promise was; ``exhausted`` if there is nothing left to look at."""

    states: int
    exhausted: bool
    seconds: float
    broken: str = ""
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.states:,} states in {self.seconds:.1f} s, " + ("all" if self.exhausted else "not all")]
        if self.broken:
            lines += [f"VIOLATION: {self.broken}"] + [f"{i:3}. {label}" for i, label in enumerate(self.trace, 1)]
        return "\n".join(lines)


def check(s: State, *, superset: bool) -> str:
    """Which promise a state breaks, empty if none."""
    if not s.zk.isr:
        return "the ISR is empty"
    if outside := moved_too_far(s.zk):
        return outside
    for b, broker in enumerate(s.brokers):
        if broker.leading is None:
            continue
        for offset, (record, epoch) in enumerate(s.acked):
            if epoch <= broker.epoch and (len(broker.log) <= offset or broker.log[offset] != record):
                return (
                    f"broker {b} leads epoch {broker.epoch} without {record}, acked in epoch {epoch} at offset {offset}"
                )
        if superset and broker.epoch == s.zk.epoch:
            effective = leader_state(b, broker.epoch, broker.leading).effective_isr
            if not effective >= set(s.zk.isr):
                return f"broker {b} takes {sorted(effective)} for in sync, zookeeper {list(s.zk.isr)}"
    return ""


def search(protocol: Protocol, states_max: int) -> Found:
    """Look at every state, until one breaks a promise or there are too many."""
    began = time.monotonic()
    superset = not protocol.off  # with a rule off, the loss itself is to be shown, not the first sign of it
    first = protocol.first()
    came_from: dict[int, tuple[int, str]] = {hash(first): (0, "")}
    level = [first]

    def found(exhausted: bool, broken: str = "", at: State | None = None, label: str = "") -> Found:
        trace = _trace(came_from, hash(at), label) if at is not None else ()
        return Found(len(came_from), exhausted, time.monotonic() - began, broken, trace)

    while level:
        following: list[State] = []
        for s in level:
            steps = protocol.steps(s)
            while True:
                try:
                    label, after = next(steps)
                except StopIteration:
                    break
                except Violation as violation:
                    return found(False, str(violation), s, "and then")
                fingerprint = hash(after)
                if fingerprint in came_from:
                    continue
                came_from[fingerprint] = (hash(s), label)
                broken = check(after, superset=superset) or protocol.stuck(after)
                if broken:
                    return found(False, broken, after)
                following.append(after)
            if len(came_from) > states_max:
                return found(False)
        level = following
    return found(True)


def _trace(came_from: dict[int, tuple[int, str]], at: int, last: str) -> tuple[str, ...]:
    labels = [last] if last else []
    while came_from[at][0]:
        at, label = came_from[at]
        labels.append(label)
    return tuple(reversed(labels))
