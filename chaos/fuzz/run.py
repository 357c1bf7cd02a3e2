"""One run: a cluster of three brokers, an attacker, a healthy client, windows with and without attacks; then the checks."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from ottla.chaos.fuzz import attack_loop, decoy, healthy
from ottla.chaos.fuzz.attack_loop import Address, Orders, Plan
from ottla.chaos.fuzz.healthy import Heard
from ottla.chaos.fuzz.report import CALM, FUZZED, Outcome, latencies
from ottla.chaos.fuzz.requests import BROKERS, PARTITIONS, SCRATCH, TARGETS
from ottla.chaos.fuzz.stored import any_address, check_topic, describe
from ottla.chaos.fuzz.tally import Tally
from ottla.chaos.fuzz.watch import Look, look_at, wrongs
from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError, TopicAlreadyExists

DEADLINE_MS: Final = 4_000
"""When brokers hang up on half a frame: short, so that a run sees it happen."""

HUNG_UP_S: Final = DEADLINE_MS / 1000 + 6.0
WINDOW_S: Final = 20.0
SETTLE_S: Final = 1.0
"""What is measured right after a change belongs to neither side."""

WARM_UP_S: Final = 3.0
CHILD_S: Final = 120.0
GROWTH_MAX_MB: Final = 128.0
"""What a broker may hold more than before: freed buffers that are kept, caches, producers' and groups' states."""

P99_FACTOR_MAX: Final = 2.0
P99_SLACK_MS: Final = 10.0
"""Brokers and attacker share a machine, so somewhat slower is no finding; a broker that stands still is."""

SETTINGS: Final = {"min.insync.replicas": "2"}
CONFIG: Final = {
    "auto.create.topics.enable": "false",  # else each mutated name would be a topic
    "connection.handshake.timeout.ms": str(DEADLINE_MS),
    "connection.frame.timeout.ms": str(DEADLINE_MS),
}


def run(seconds: float, seed: int, rate: float, tell: Callable[[str], None], *, largest: bool = False) -> Outcome:
    """Fuzz a cluster of its own; ``largest``: with requests as large as brokers take them."""
    tell(f"seed {seed}, {seconds:g} s, {rate:g} attacks a second")
    with LocalCluster(brokers=BROKERS, broker_config=CONFIG) as cluster:
        _make_topics(cluster.bootstrap)
        return _Run(cluster, seconds, seed, rate, tell, largest).run()


class _Run:
    def __init__(
        self, cluster: LocalCluster, seconds: float, seed: int, rate: float, tell: Callable[[str], None], largest: bool
    ) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._seed = seed
        self._rate = rate
        self._tell = tell
        self._largest = largest
        self._busy_ms = {FUZZED: [0.0] * BROKERS, CALM: [0.0] * BROKERS}
        self._violations: list[str] = []
        self._strange_topics = 0
        self._largest_mb = [0.0] * BROKERS

    def run(self) -> Outcome:
        bootstrap = any_address(self._cluster.bootstrap)
        _, topics = describe(bootstrap, list(TARGETS))
        plan = Plan(self._seed, self._rate, {topic.name: topic.topic_id for topic in topics}, HUNG_UP_S, self._largest)
        with (
            _child(healthy.write, self._cluster.bootstrap) as client,
            _child(decoy.be_attacked) as bait,
            _child(attack_loop.attack, plan) as enemy,
        ):
            client.send("warm-up")
            aside = Orders([bait.recv()], real=False)
            enemy.send(aside)
            time.sleep(WARM_UP_S)
            before = self._look()
            windows, after = self._windows(client, enemy, aside, before)
            client.send(healthy.STOP)
            enemy.send(Orders(None, real=False))
            tally: Tally = _heard(enemy)
            heard: Heard = _heard(client)
        self._tidy_topics()
        stored = {topic: check_topic(bootstrap, topic, tally.storable) for topic in TARGETS}
        stored[healthy.TOPIC] = check_topic(bootstrap, healthy.TOPIC, None)
        outcome = Outcome(
            self._seed, self._seconds, windows, tally, heard, before, after, self._largest_mb, stored,
            self._strange_topics, self._violations, self._busy_ms,
        )  # fmt: skip
        self._violations += _found(outcome)
        return outcome

    def _windows(
        self, client: Connection, enemy: Connection, aside: Orders, before: list[Look]
    ) -> tuple[int, list[Look]]:
        """Attack the brokers and the decoy in turn; how often, and how the brokers look afterwards."""
        brokers = Orders([_address(self._cluster.address(broker)) for broker in range(BROKERS)], real=True)
        ends = time.monotonic() + self._seconds
        length = min(WINDOW_S, self._seconds / 4)
        windows, last = 0, before
        while time.monotonic() < ends or windows % 2:
            phase, orders = ((FUZZED, brokers), (CALM, aside))[windows % 2]
            client.send("settling")
            enemy.send(orders)
            time.sleep(SETTLE_S)
            client.send(phase)
            time.sleep(max(0.5, length - SETTLE_S))
            windows += 1
            now = self._look()
            for broker in range(BROKERS):
                self._violations += wrongs(self._cluster, broker, last[broker], now[broker])
                self._largest_mb[broker] = max(self._largest_mb[broker], now[broker].memory_mb)
                busy_ms = self._busy_ms[phase]
                busy_ms[broker] = max(busy_ms[broker], now[broker].busy_ms)
            last = now
            if not all(look.alive for look in now):
                break
            self._tidy_topics()
            memory = ", ".join(f"{look.memory_mb:.0f}" for look in now)
            busy = ", ".join(f"{look.busy_ms:.0f}" for look in now)
            self._tell(
                f"window {windows} ({phase}): brokers hold {memory} MB, were busy for up to {busy} ms at once, "
                f"{len(self._violations)} violations"
            )
        return windows, last

    def _look(self) -> list[Look]:
        return [look_at(self._cluster, broker) for broker in range(BROKERS)]

    def _tidy_topics(self) -> None:
        """Topics that mutants have made go: each holds memory and files for good reason, and would pass for a leak. Those that
        requests have deleted come back."""
        try:
            with Admin(bootstrap_servers=self._cluster.bootstrap) as admin:
                there = set(admin.list_topics())
                for name in there - {*TARGETS, *SCRATCH, healthy.TOPIC}:
                    self._strange_topics += 1
                    admin.delete_topic(name)
                for name in {*TARGETS, *SCRATCH} - there:
                    admin.create_topic(name, PARTITIONS, BROKERS, SETTINGS)
        except TopicAlreadyExists:
            pass  # a request was faster
        except OttlaError as error:
            self._violations.append(f"an admin was refused: {error}")


def _found(outcome: Outcome) -> list[str]:
    """What must not be, of all that was counted."""
    found = list(outcome.tally.violations)
    for one in outcome.stored.values():
        found += one.violations[:20]
    if outcome.stored[healthy.TOPIC].records != outcome.heard.acked or outcome.heard.failures:
        found.append(
            f"the healthy client wrote {outcome.heard.acked} records, {outcome.stored[healthy.TOPIC].records} are there; "
            f"it was told {outcome.heard.failures[:3]}"
        )
    for broker, (before, after) in enumerate(zip(outcome.before, outcome.after, strict=True)):
        if after.memory_mb > before.memory_mb + GROWTH_MAX_MB:
            found.append(f"broker {broker} held {before.memory_mb:.0f} MB before, {after.memory_mb:.0f} MB after")
    times = latencies(outcome.heard)
    if {FUZZED, CALM} <= times.keys():
        fuzzed, calm = times[FUZZED]["p99"], times[CALM]["p99"]
        if fuzzed > calm * P99_FACTOR_MAX + P99_SLACK_MS:
            found.append(f"the healthy client's p99 is {fuzzed} ms under attack, {calm} ms without")
    return found


def _make_topics(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in (*TARGETS, *SCRATCH):
            admin.create_topic(topic, PARTITIONS, BROKERS, SETTINGS)
        admin.create_topic(healthy.TOPIC, BROKERS, BROKERS, SETTINGS)


@contextlib.contextmanager
def _child(work: Callable[..., None], *more: Any) -> Iterator[Connection]:
    """A process of its own with a pipe to it; whatever happens, it does not stay."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process: SpawnProcess = context.Process(target=work, args=(its, *more), daemon=True)
    process.start()
    its.close()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()
        ours.close()


def _heard(child: Connection) -> Any:
    if not child.poll(CHILD_S):
        raise TimeoutError(f"a process of the run said nothing for {CHILD_S:g} s")
    return child.recv()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)
