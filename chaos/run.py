"""One run: a cluster, a topic, a workload, faults; then all is healed, read, compared and checked."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.chaos.checker import Violation, check
from ottla.chaos.faults import Kind, NotOffered, NotStarted, Step
from ottla.chaos.foreign_clients import check_client
from ottla.chaos.group_readers import GroupReaders
from ottla.chaos.history import Event, Expectation, History, Read
from ottla.chaos.nemesis import Nemesis
from ottla.chaos.readers import ConfluentReader, Reader, read_everything
from ottla.chaos.replicas import settled_replicas
from ottla.chaos.scenarios import SCENARIOS, Scenario
from ottla.chaos.schedule import ends
from ottla.chaos.targets.target import Target
from ottla.chaos.threads import WatchedThread
from ottla.chaos.topic_faults import TopicFaults
from ottla.chaos.watcher import Watcher
from ottla.chaos.workload import FOREIGN, VARIED, Workload
from ottla.client import Admin
from ottla.wire.errors import ConfigError, OttlaError

PRODUCERS = len(VARIED)
RATE = 180.0
"""Records a second of each producer: a load that finds races, and a history that is checked in seconds."""

CALM_S = 2.0
"""Records flow undisturbed for so long before the first fault and after the last."""

HEAL_S = 90.0
"""In this time after the last fault every replica is in sync again and every partition takes records."""

CATCH_UP_S = 30.0
"""In this time after the last record every reader has got to the end."""

ACKS_AFTER = 20
"""Records of every partition that must be acknowledged after the last fault."""

Tell = Callable[[str], None]


@dataclass
class Outcome:
    """All about a run, for people and programs."""

    scenario: str
    target: str
    seed: int
    seconds: float
    topic: str
    partitions: int
    steps: Sequence[Step]
    began: float
    """Of the monotonic clock; all times in the history are of that clock."""
    history: History
    violations: list[Violation]
    skipped: list[str]
    missing: dict[Kind, str] = field(default_factory=dict)
    begun: int = 0
    """How many of the scheduled faults took effect."""

    @property
    def passed(self) -> bool:
        return not self.violations


def run(
    target: Target,
    scenario_name: str,
    seconds: float,
    seed: int,
    tell: Tell = lambda line: None,
    *,
    rate: float | None = RATE,
    allow_skipped: bool = False,
    client: str = "ottla",
) -> Outcome:
    """Run a scenario on a target, which is opened here and closed by its owner. NotStarted if there is nothing to run it on.

    ``client`` says whose producers write, and who reads along: ours, or one of Kafka's.
    """
    scenario = _scenario(scenario_name)
    check_client(client)
    lacking = scenario.needs - target.offered
    if lacking:
        reasons = "; ".join(f"{kind}: {target.missing[kind]}" for kind in sorted(lacking))
        raise NotOffered(f"{target.name} cannot do {scenario_name}: {reasons}")
    try:
        target.open(scenario.shape)
        topic = _make_topic(target, scenario)
    except (OttlaError, OSError) as error:
        hint = error.hint if isinstance(error, OttlaError) else None
        raise NotStarted(f"the run could not start: {error}", hint=hint) from error
    steps = scenario.steps(seconds, seed, target.offered, target.session_s)
    tell(f"{scenario_name} on {target.name}, seed {seed}: {len(steps)} faults in {max(seconds, ends(steps)):.0f} s")
    may_skip = 1.0 if allow_skipped else scenario.may_skip
    return _Run(target, scenario, topic, _Plan(steps, seed, seconds, may_skip), tell, rate, client).go()


def _scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise ConfigError(f"there is no scenario {name!r}", hint=f"there are: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


class _Plan(NamedTuple):
    """Which faults come when, and what they follow from."""

    steps: Sequence[Step]
    seed: int
    seconds: float
    may_skip: float
    """This part of the faults need not take effect."""


class _Run:
    def __init__(
        self,
        target: Target,
        scenario: Scenario,
        topic: str,
        plan: _Plan,
        tell: Tell,
        rate: float | None,
        client: str,
    ) -> None:
        self._target = target
        self._scenario = scenario
        self._topic = topic
        self._plan = plan
        self._tell = tell
        partitions = scenario.shape.partitions
        self._partitions = tuple(range(partitions))
        shape = scenario.shape
        habits = VARIED if client == "ottla" else FOREIGN
        self._load = Workload(target.bootstrap, topic, PRODUCERS, rate, habits, client)
        self._readers = [
            Reader(target.bootstrap, topic, partitions, subscribes=subscribes) for subscribes in (False, True)
        ]
        if client == "confluent":
            self._readers.append(ConfluentReader(target.bootstrap, topic, partitions))
        self._group = GroupReaders(target.bootstrap, topic, partitions)
        self._watcher = Watcher(target.bootstrap, topic, shape.replication)
        self._topic_faults = TopicFaults(target.bootstrap, topic, shape.replication, shape.min_insync, plan.seed)
        self._nemesis = Nemesis(target, self._watcher, partitions, self._topic_faults, shape.replication)
        self._stop = threading.Event()
        self._nemesis_thread = WatchedThread("nemesis", lambda: self._nemesis.run(plan.steps, self._stop))
        self._troubles: list[str] = []
        self._fallen: dict[str, str] = {}
        """Nodes that ended by themselves, and the end of their logs at that time."""
        self._expectations: list[Expectation] = []

    def go(self) -> Outcome:
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            stack.callback(self._watcher.stop)
            self._watcher.start()
            for reader in self._readers:
                reader.start()
                stack.callback(reader.stop)
            self._group.start()
            stack.callback(self._group.stop)
            stack.callback(self._load.finish)
            self._load.start()
            self._each_partition_takes(1, "before any fault")
            self._flow(CALM_S)
            try:
                self._suffer(began)
            finally:
                self._heal()
            self._each_partition_takes(ACKS_AFTER, "after all faults")
            self._flow(CALM_S)
            self._tell(f"{self._load.acked} records acknowledged; waiting for the last ones")
            self._load.finish()
            history = self._finish()
        self._tell("checking")
        violations = check(history)
        if not violations:  # else somebody will want to look at it
            self._delete_topic()
        return Outcome(
            self._scenario.name,
            self._target.name,
            self._plan.seed,
            self._plan.seconds,
            self._topic,
            len(self._partitions),
            self._plan.steps,
            began,
            history,
            violations,
            self._nemesis.skipped,
            dict(self._target.missing),
            self._nemesis.begun,
        )

    # --- the parts ---------------------------------------------------------------------------------------------------------

    def _suffer(self, began: float) -> None:
        nemesis = self._nemesis_thread
        nemesis.start()
        try:
            until = time.monotonic() + max(self._plan.seconds, ends(self._plan.steps))
            told = 0
            while (nemesis.is_alive() or time.monotonic() < until) and not self._deaths():
                nemesis.join(0.1)
                time.sleep(0.02)
                self._look_for_fallen()
                events = self._nemesis.events
                while told < len(events):
                    event = events[told]
                    self._tell(f"{event.at - began:7.1f} s  {event.what}, {(event.until or event.at) - event.at:.1f} s")
                    told += 1
        finally:
            self._stop.set()
            nemesis.join()
            self._troubles += self._nemesis.failures

    def _deaths(self) -> list[str]:
        """Who of those that should be at work is not, and why."""
        threads = [self._nemesis_thread, self._watcher.thread, *(reader.thread for reader in self._readers)]
        threads += self._group.threads
        return [thread.death for thread in (*threads, *self._load.threads) if thread.death is not None]

    def _failures(self) -> list[str]:
        """What makes the run prove nothing."""
        failures = self._deaths()
        scheduled, begun = len(self._plan.steps), self._nemesis.begun
        if scheduled - begun > scheduled * self._plan.may_skip or (scheduled and not begun):
            skipped = "; ".join(self._nemesis.skipped) or "the others were never tried"
            failures.append(f"{begun} of {scheduled} faults took effect: {skipped}")
        return failures

    def _heal(self) -> None:
        self._look_for_fallen()
        self._troubles += [f"{node} ended by itself:\n{tail}" for node, tail in self._fallen.items()]
        try:
            self._target.heal_all()
            self._topic_faults.restore()
        except (OttlaError, NotOffered) as error:
            self._troubles.append(str(error))
        deadline = time.monotonic() + HEAL_S
        while not self._watcher.all_in_sync():
            if time.monotonic() > deadline:
                self._troubles.append(f"not every replica is in sync {HEAL_S:g} s after the last fault: {self._seen()}")
                return
            time.sleep(0.1)
        self._nemesis.events.append(Event(time.monotonic(), "healed", "every replica is in sync"))

    def _look_for_fallen(self) -> None:
        """Note nodes that run no more though no fault ended them, also those that the next fault started again."""
        just_started = {
            node
            for event in self._nemesis.events
            if event.until is not None and time.monotonic() - event.until < 1.0
            for node in event.targets
        }
        nodes = {*self._target.zookeepers(), *self._target.brokers()} - just_started - self._nemesis.busy
        down = {node for node in nodes if not self._target.running(node) and node not in self._nemesis.busy}
        for node in sorted((down | self._nemesis.fallen) - self._fallen.keys()):
            self._fallen[node] = self._target.log_tail(node)

    def _each_partition_takes(self, acks: int, when: str) -> None:
        """Wait until each partition has acknowledged so many more; the checker tells of those that have not."""
        began = time.monotonic()
        wanted = {partition: self._load.acked_of(partition) + acks for partition in self._partitions}
        while any(self._load.acked_of(partition) < count for partition, count in wanted.items()):
            if time.monotonic() - began > HEAL_S or self._load.failed:
                break
            time.sleep(0.05)
        self._expectations.append(Expectation(began, time.monotonic(), self._partitions, acks, when))

    def _flow(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._load.failed:
            time.sleep(0.05)

    def _finish(self) -> History:
        """Nobody writes any more: readers catch up, a new one reads all, the replicas are compared."""
        reads: dict[int, list[Read]] = {}
        try:
            reads = read_everything(self._target.bootstrap, self._topic)
        except (TimeoutError, OttlaError) as error:
            self._troubles.append(f"the final read failed: {error}")
        ends_of = {partition: len(found) for partition, found in reads.items()}
        deadline = time.monotonic() + CATCH_UP_S
        for reader in self._readers:
            if not reader.wait_until(ends_of, deadline - time.monotonic()):
                self._troubles.append(f"{reader.name} got to {reader.positions} of {ends_of}")
        if not self._group.wait_until(ends_of, max(1.0, deadline - time.monotonic())):
            self._troubles.append(f"the group committed up to {self._group.committed} of {ends_of}")
        assignment = {number: part.replicas for number, part in enumerate(self._watcher.look().partitions)}
        return History(
            self._load.sends,
            reads,
            [poll for reader in self._readers for poll in reader.polls],
            settled_replicas(self._target, self._topic, assignment),
            sorted([*self._nemesis.events, *self._watcher.events]),
            [*self._nemesis.expectations, *self._expectations],
            self._scenario.shape.min_insync,
            self._troubles,
            [session for reader in self._readers for session in reader.sessions],
            [reader.name for reader in self._readers],
            self._topic_faults.lowered,
            group_polls=self._group.polls,
            group_commits=self._group.commits,
            failures=self._failures(),
        )

    def _delete_topic(self) -> None:
        with contextlib.suppress(OttlaError), Admin(bootstrap_servers=self._target.bootstrap) as admin:
            admin.delete_topic(self._topic)

    def _seen(self) -> str:
        return "; ".join(
            f"partition {number}: leader {part.leader}, in sync {list(part.isr)} of {list(part.replicas)}"
            for number, part in enumerate(self._watcher.view.partitions)
        )


def _make_topic(target: Target, scenario: Scenario) -> str:
    shape, name = scenario.shape, f"chaos-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        deadline = time.monotonic() + HEAL_S
        while len(admin.describe_cluster(timeout=HEAL_S).brokers) < len(target.brokers()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not all brokers are there after {HEAL_S:g} s")
            time.sleep(0.1)
        settings = {"min.insync.replicas": str(shape.min_insync)}
        admin.create_topic(name, shape.partitions, shape.replication, settings, timeout=HEAL_S)
    return name
