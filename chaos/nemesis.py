"""Does to a target what a schedule says: finds out who the victims are, begins faults, ends them, and keeps a diary."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from ottla.chaos.faults import ALL_REPLICAS_KINDS, CLIENTS, Fault, Kind, NotOffered, Role, Step
from ottla.chaos.history import Event, Expectation
from ottla.chaos.schedule import grace_s
from ottla.chaos.sequences import ALONE_S, FaultSequences, Undo
from ottla.chaos.targets.target import Target, broker_id, names
from ottla.chaos.topic_faults import TopicFaults
from ottla.chaos.victims import who
from ottla.chaos.watcher import View, Watcher
from ottla.wire.errors import OttlaError

POSTPONED_S = 5.0
"""So long a fault is put off whose victims suffer already, or which has none at the moment. Its end is not put off."""

POSTPONED_STEP_S = 0.2

SLOW_S = 0.15
SKEW_S = 3600.0


class _NotNow(Exception):
    """A fault cannot be begun at the moment; the message says why."""


class Nemesis:
    """Runs one schedule. All faults end in ``run``, or else in the target's ``heal_all`` and the topic's ``restore``."""

    def __init__(
        self, target: Target, watcher: Watcher, partitions: int, topic: TopicFaults | None = None, replication: int = 0
    ) -> None:
        self.events: list[Event] = []
        self.expectations: list[Expectation] = []
        self.begun = 0
        """How many faults took effect."""
        self.skipped: list[str] = []
        """Faults that could not be begun: their victims suffered another one already, or did not exist."""
        self.failures: list[str] = []
        """What went wrong in doing or undoing a fault."""
        self.fallen: set[str] = set()
        """Nodes that were down though no fault had ended them."""
        self._target = target
        self._watcher = watcher
        self._partitions = tuple(range(partitions))
        self._topic = topic
        self._replication = replication
        self.busy: set[str] = set()
        """The nodes that suffer a fault now: only these may be down."""
        self._lasting: dict[str, Event] = {}

    def run(self, steps: Sequence[Step], stop: threading.Event) -> None:
        """Begin and end every step in its time; returns when the last has ended, or soon after ``stop``."""
        began = time.monotonic()
        order = itertools.count()
        agenda: list[tuple[float, int, Callable[[], None]]] = []

        def begin(step: Step) -> None:
            try:
                end = self._begin(step)
            except _NotNow as why:
                again = time.monotonic() - began + POSTPONED_STEP_S
                if again < min(step.at_s + POSTPONED_S, step.end_s):
                    heapq.heappush(agenda, (again, next(order), lambda: begin(step)))
                else:
                    self.skipped.append(f"{step.fault}: {why}")
            except (NotOffered, OttlaError, OSError) as error:
                self.skipped.append(f"{step.fault}: {error}")
            else:
                self.begun += 1
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
                self.failures.append(f"a fault could not be ended: {error}")
        # Whoever stopped us ends them.
        self.events += [event._replace(until=time.monotonic()) for event in self._lasting.values()]

    def _begin(self, step: Step) -> Undo:
        """Do a fault, and give back what ends it; _NotNow if it has to wait."""
        fault = step.fault
        view = self._watcher.view
        victims = who(self._target, fault.victim, fault.pick, view)
        peers = (
            [node for node in who(self._target, fault.peer, fault.pick, view) if node not in victims]
            if fault.peer
            else []
        )
        if not victims or (fault.peer and not peers):
            raise _NotNow("there is nobody in that role now")
        touched = self._touched(fault, victims, view)
        if self.busy & set(touched):
            raise _NotNow(f"{', '.join(sorted(self.busy & set(touched)))} suffer already")
        nodes = {*self._target.brokers(), *self._target.zookeepers()}
        # A process that ended by itself must not pass for one that this fault ended, and whose start hides it.
        self.fallen.update(node for node in touched if node in nodes and not self._target.running(node))
        # A replica that has not come back from the last fault is one more that is missing.
        whole = self._whole(view)
        now = time.monotonic()
        self.busy.update(touched)
        try:
            undo = self._do(fault, victims, touched, peers)
        except BaseException:
            self.busy.difference_update(touched)
            raise
        what = (
            f"{fault.kind} {', '.join(victims)}" + (f" and {', '.join(peers)}" if peers else "") + f" ({fault.victim})"
        )

        self._lasting[what] = Event(now, "fault", what, None, tuple(touched))

        def end() -> None:
            try:
                undo()
            finally:
                over = time.monotonic()
                self.busy.difference_update(touched)
                self.events.append(self._lasting.pop(what)._replace(until=over))
                noticed = now + grace_s(fault.kind, self._target.session_s)
                if step.progress and whole and noticed < over:
                    self.expectations.append(Expectation(noticed, over, self._partitions, 1, what))

        return end

    def _whole(self, view: View) -> bool:
        return all(
            len(part.isr) == len(part.replicas) and len(part.isr) >= self._replication for part in view.partitions
        )

    def _touched(self, fault: Fault, victims: list[str], view: View) -> list[str]:
        """All who suffer from a fault: more than its victims, with some."""
        if fault.kind in ALL_REPLICAS_KINDS:
            if self.busy or not self._whole(view) or not self._watcher.all_in_sync():
                raise _NotNow("another broker may lack records: one disk at a time loses some")
            others = [node for node in self._target.brokers() if node not in victims]
            if fault.kind is Kind.RESTART_UNSEEN:
                return [*victims, *self._joins_and_controller(others, view)]
            return [*victims, *others]
        if fault.kind is Kind.BAD_ELECTION:
            part = view.partitions[fault.pick % len(view.partitions)]
            successors = [broker for broker in part.replicas if broker != part.leader and broker in part.isr]
            if len(successors) < 2:  # else nobody is left to lead
                raise _NotNow("too few are in sync")
            return [*victims, *names(successors[:1])]
        return victims

    # --- doing -----------------------------------------------------------------------------------------------------------

    def _do(self, fault: Fault, victims: list[str], touched: list[str], peers: list[str]) -> Undo:
        """Begin a fault, and give back what ends it."""
        target = self._target
        partition = self._partition_of(victims[0], fault)
        if fault.kind is Kind.WIPE:
            return self._sequences.wipe(*touched)
        if fault.kind is Kind.LOSE_PARTITION:
            return self._sequences.lose_partition(partition, fault.pick, *touched)
        if fault.kind is Kind.FLIP_BIT:
            return self._sequences.flip_bit(partition, *touched[:2])
        if fault.kind is Kind.BAD_ELECTION:
            return self._sequences.bad_election(partition, *touched)
        if fault.kind is Kind.RESTART_UNSEEN:
            return self._sequences.restart_unseen(partition, *touched)
        if fault.kind is Kind.MIN_INSYNC:
            return self._lower_min_insync()
        if fault.kind is Kind.REASSIGN:
            return self._move_twice(partition)
        if fault.kind is Kind.KILL:
            return self._each(victims, target.kill, target.start)
        if fault.kind is Kind.KILL_AHEAD:
            others = [node for node in target.brokers() if node not in victims and node not in self.busy]
            return self._sequences.kill_ahead(victims, others)
        if fault.kind in (Kind.STOP, Kind.RESTART):
            return self._each(victims, target.stop, target.start)
        if fault.kind is Kind.PAUSE:
            return self._each(victims, target.pause, target.resume)
        if fault.kind is Kind.LOSE_ANSWERS:
            return self._each(victims, target.lose_answers, target.answer_again)
        if fault.kind is Kind.LATE_ANSWERS:
            return self._answer_late(victims)
        if fault.kind is Kind.SLOW:
            return self._each(victims, lambda node: target.slow(node, SLOW_S), lambda node: target.slow(node, 0.0))
        if fault.kind is Kind.CLOCK:
            return self._each(
                victims, lambda node: target.skew_clock(node, SKEW_S), lambda node: target.skew_clock(node, 0.0)
            )
        if fault.kind is Kind.DISK_FULL:
            return self._each(victims, target.fill_disk, target.free_disk)
        if fault.kind is Kind.DISK_FAILS:
            return self._each(victims, target.fail_writes, self._mend_writes_and_restart)
        if fault.kind is Kind.NO_DESCRIPTORS:
            return self._each(victims, target.exhaust_descriptors, target.free_descriptors)
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

    def _answer_late(self, victims: list[str]) -> Undo:
        """It serves for a moment while its answers wait on the way, so that there is something in them."""
        free = self._each(
            victims, lambda node: self._target.block(node, CLIENTS), lambda node: self._target.unblock(node, CLIENTS)
        )
        time.sleep(ALONE_S)
        resume = self._each(victims, self._target.pause, self._target.resume)

        def end() -> None:
            free()
            resume()

        return end

    def _joins_and_controller(self, others: list[str], view: View) -> list[str]:
        """Of the two brokers that do not lead: the one that is not the controller, then the controller."""
        controller = f"broker{view.controller}"
        if controller not in others or len(others) != 2:
            raise _NotNow("the controller leads the partition")
        return sorted(others, key=lambda node: node == controller)

    def _partition_of(self, victim: str, fault: Fault) -> int:
        """The picked partition; if the victim shall be a leader, the next one that it leads."""
        count, partitions = len(self._partitions), self._watcher.view.partitions
        turned = [number % count for number in range(fault.pick, fault.pick + count)]
        led = [n for n in turned if n < len(partitions) and names([partitions[n].leader]) == [victim]]
        return led[0] if led and fault.victim is Role.OTHER_LEADER else turned[0]

    @property
    def _sequences(self) -> FaultSequences:
        return FaultSequences(self._target, self._the_topic.name)

    @property
    def _the_topic(self) -> TopicFaults:
        if self._topic is None:
            raise NotOffered("this run has no topic of its own")
        return self._topic

    def _lower_min_insync(self) -> Undo:
        topic = self._the_topic
        topic.lower_min_insync()
        return lambda: _if_anybody_answers(topic.raise_min_insync)

    def _move_twice(self, partition: int) -> Undo:
        topic = self._the_topic
        topic.move_twice(partition, self._watcher.view, [broker_id(node) for node in self._target.brokers()])
        return lambda: _if_anybody_answers(lambda: topic.move_back(partition))

    def _mend_writes_and_restart(self, node: str) -> None:
        """A log that failed stays failed until its broker is restarted."""
        self._target.mend_writes(node)
        self._sequences.restart(node)

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


def _if_anybody_answers(undo: Undo) -> None:
    """Else it is done when all is healed."""
    try:
        undo()
    except OttlaError:
        pass


def describe(steps: Iterable[Step]) -> list[str]:
    """A schedule in words."""
    return [f"{step.at_s:7.2f} s for {step.lasts_s:5.2f} s: {step.fault} #{step.fault.pick}" for step in steps]
