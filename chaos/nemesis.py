"""Does to a target what a schedule says: finds out who the victims are, begins faults, ends them, and keeps a diary."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ottla.chaos.faults import CLIENTS, Fault, Kind, NotOffered, Role, Step
from ottla.chaos.history import Event, Expectation
from ottla.chaos.schedule import grace_s
from ottla.chaos.targets.target import Target, names
from ottla.chaos.watcher import View, Watcher
from ottla.wire.errors import OttlaError

ALONE_S = 0.15
"""How long the others stand still before a leader is killed ahead of them."""

SLOW_S = 0.15
SKEW_S = 3600.0

T = TypeVar("T")

Undo = Callable[[], None]


class Nemesis:
    """Runs one schedule. All faults end in ``run``, or else in the target's ``heal_all``."""

    def __init__(self, target: Target, watcher: Watcher, partitions: int) -> None:
        self.events: list[Event] = []
        self.expectations: list[Expectation] = []
        self.skipped: list[str] = []
        """Faults that could not be begun: their victims suffered another one already, or did not exist."""
        self.failures: list[str] = []
        """What went wrong in doing or undoing a fault."""
        self._target = target
        self._watcher = watcher
        self._partitions = tuple(range(partitions))
        self._busy: set[str] = set()

    def run(self, steps: Sequence[Step], stop: threading.Event) -> None:
        """Begin and end every step in its time; returns when the last has ended, or soon after ``stop``."""
        began = time.monotonic()
        order = itertools.count()
        agenda: list[tuple[float, int, Callable[[], None]]] = []

        def begin(step: Step) -> None:
            end = self._begin(step)
            if end is not None:
                heapq.heappush(agenda, (step.end_s, next(order), end))

        for step in steps:
            heapq.heappush(agenda, (step.at_s, next(order), lambda step=step: begin(step)))  # type: ignore[misc]
        while agenda and not stop.is_set():
            due, _, act = agenda[0]
            if stop.wait(max(0.0, began + due - time.monotonic())):
                break
            heapq.heappop(agenda)
            try:
                act()
            except (NotOffered, OttlaError, OSError) as error:
                self.failures.append(f"a fault could not be begun or ended: {error}")

    def _begin(self, step: Step) -> Callable[[], None] | None:
        fault = step.fault
        view = self._watcher.view
        victims = self._who(fault.victim, fault.pick, view)
        peers = [node for node in self._who(fault.peer, fault.pick, view) if node not in victims] if fault.peer else []
        if not victims or (fault.peer and not peers):
            self.skipped.append(f"{fault}: there is nobody in that role now")
            return None
        if self._busy & set(victims):
            self.skipped.append(f"{fault}: {', '.join(victims)} suffer already")
            return None
        self._busy.update(victims)
        # A replica that has not come back from the last fault is one more that is missing.
        whole = all(len(part.isr) == len(part.replicas) for part in view.partitions)
        now = time.monotonic()
        try:
            undo = self._do(fault, victims, peers)
        except (NotOffered, OSError) as error:
            self._busy.difference_update(victims)
            self.skipped.append(f"{fault}: {error}")
            return None
        what = (
            f"{fault.kind} {', '.join(victims)}" + (f" and {', '.join(peers)}" if peers else "") + f" ({fault.victim})"
        )

        def end() -> None:
            undo()
            over = time.monotonic()
            self._busy.difference_update(victims)
            self.events.append(Event(now, "fault", what, over, tuple(victims)))
            noticed = now + grace_s(fault.kind, self._target.session_s)
            if step.progress and whole and noticed < over:
                self.expectations.append(Expectation(noticed, over, self._partitions, 1, what))

        return end

    # --- doing -----------------------------------------------------------------------------------------------------------

    def _do(self, fault: Fault, victims: list[str], peers: list[str]) -> Undo:
        """Begin a fault, and give back what ends it."""
        target = self._target
        if fault.kind is Kind.KILL:
            return self._each(victims, target.kill, target.start)
        if fault.kind is Kind.KILL_AHEAD:
            return self._kill_ahead(victims)
        if fault.kind in (Kind.STOP, Kind.RESTART):
            return self._each(victims, target.stop, target.start)
        if fault.kind is Kind.PAUSE:
            return self._each(victims, target.pause, target.resume)
        if fault.kind is Kind.LOSE_ANSWERS:
            return self._each(victims, target.lose_answers, target.answer_again)
        if fault.kind is Kind.SLOW:
            return self._each(victims, lambda node: target.slow(node, SLOW_S), lambda node: target.slow(node, 0.0))
        if fault.kind is Kind.CLOCK:
            return self._each(
                victims, lambda node: target.skew_clock(node, SKEW_S), lambda node: target.skew_clock(node, 0.0)
            )
        if fault.kind is Kind.DISK_FULL:
            return self._each(victims, target.fill_disk, self._free_and_restart)
        if fault.kind is Kind.ISOLATE:
            everybody = [*target.brokers(), *target.zookeepers(), CLIENTS]
            peers = [node for node in everybody if node not in victims]
        return self._cut(fault.kind, victims, peers)

    def _each(self, nodes: list[str], do: Callable[[str], None], undo: Callable[[str], None]) -> Undo:
        for node in nodes:
            do(node)

        def end() -> None:
            for node in nodes:
                undo(node)

        return end

    def _kill_ahead(self, victims: list[str]) -> Undo:
        others = [node for node in self._target.brokers() if node not in victims and node not in self._busy]
        resume = self._each(others, self._target.pause, self._target.resume)
        try:
            time.sleep(ALONE_S)
            return self._each(victims, self._target.kill, self._target.start)
        finally:
            resume()

    def _free_and_restart(self, node: str) -> None:
        """A log that failed stays failed until its broker is started anew."""
        self._target.free_disk(node)
        if self._target.running(node):
            self._target.kill(node)
        self._target.start(node)

    def _cut(self, kind: Kind, victims: list[str], peers: list[str]) -> Undo:
        pairs: list[tuple[str, str]] = []
        for victim, peer in itertools.product(victims, peers):
            if kind is not Kind.CUT_FROM:
                pairs.append((victim, peer))
            if kind is not Kind.CUT_TO:
                pairs.append((peer, victim))
        for source, sink in pairs:
            self._target.block(source, sink)

        def end() -> None:
            for source, sink in pairs:
                self._target.unblock(source, sink)

        return end

    # --- victims ---------------------------------------------------------------------------------------------------------

    def _who(self, role: Role, pick: int, view: View) -> list[str]:
        """The names behind a role, as the cluster was last seen."""
        brokers, servers = self._target.brokers(), self._target.zookeepers()
        part = view.partitions[pick % len(view.partitions)]
        followers = [broker for broker in part.replicas if broker != part.leader]
        if role is Role.LEADER:
            return names([part.leader]) if part.leader >= 0 else []
        if role is Role.FOLLOWER:
            return names(_one(followers, pick))
        if role is Role.FOLLOWERS:
            return names(followers)
        if role is Role.CONTROLLER:
            return names([view.controller]) if view.controller >= 0 else []
        if role is Role.RACK:
            racks = sorted(self._target.racks().items())
            return racks[pick % len(racks)][1]
        if role is Role.ZOOKEEPER_LEADER:
            leader = self._target.zookeeper_leader()
            return [leader] if leader is not None else []
        return {
            Role.BROKER: _one(brokers, pick),
            Role.MINORITY: _some(brokers, (len(brokers) - 1) // 2, pick),
            Role.MAJORITY: _some(brokers, len(brokers) // 2 + 1, pick),
            Role.ALL: brokers,
            Role.ZOOKEEPER: _one(servers, pick),
            Role.ZOOKEEPER_MAJORITY: _some(servers, len(servers) // 2 + 1, pick),
            Role.ZOOKEEPER_ALL: servers,
            Role.CLIENTS: [CLIENTS],
        }[role]


def _one(among: Sequence[T], pick: int) -> list[T]:
    return [among[pick % len(among)]] if among else []


def _some(among: Sequence[str], count: int, pick: int) -> list[str]:
    first = pick % len(among)
    return [*among[first:], *among[:first]][:count]


def describe(steps: Iterable[Step]) -> list[str]:
    """A schedule in words."""
    return [f"{step.at_s:7.2f} s for {step.lasts_s:5.2f} s: {step.fault} #{step.fault.pick}" for step in steps]
