"""A run in which somebody did not do their work fails, and says who and why. All parts but the run itself are stand-ins."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import pytest

from ottla.chaos import run as runs
from ottla.chaos.faults import Fault, Kind, Role, Step
from ottla.chaos.history import GroupCommit, GroupPoll, Poll, Read, Send, Session
from ottla.chaos.nemesis import Nemesis
from ottla.chaos.scenarios import SCENARIOS, Scenario, Shape
from ottla.chaos.targets.target import Target
from ottla.chaos.threads import WatchedThread
from ottla.chaos.watcher import PartitionView, View

VIEW = View(0, (PartitionView(0, 1, (0, 1, 2), (0, 1, 2)),))


class Load:
    """Has sent ``count`` records, all of which are acknowledged."""

    count = 30

    def __init__(self, *arguments: object) -> None:
        self.sends: list[Send] = []
        self.threads = [WatchedThread("producer 0", self.work)]
        self.failed = False

    def work(self) -> None:
        pass

    def start(self) -> None:
        self.threads[0].start()
        for number in range(self.count):
            send = Send("p", number, time.monotonic())
            send.acknowledged(0, number, time.monotonic())
            self.sends.append(send)

    def finish(self) -> None:
        self.threads[0].join()

    @property
    def acked(self) -> int:
        return len(self.sends)

    def acked_of(self, partition: int) -> int:
        more = Send("p", len(self.sends), time.monotonic())
        more.acknowledged(0, len(self.sends), time.monotonic())
        self.sends.append(more)
        return len(self.sends)


class Along:
    """Has read everything at once."""

    def __init__(self, *arguments: object, subscribes: bool) -> None:
        self.name = f"reader {subscribes}"
        self.sessions = [Session(self.name, 0, 0.0, {0: 0})]
        self.polls: list[Poll] = []
        self.positions: dict[int, int] = {}
        self.thread = WatchedThread(self.name, self.work)

    def work(self) -> None:
        pass

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.join()

    def wait_until(self, ends: dict[int, int], timeout_s: float) -> bool:
        reads = [Read(offset, b"p-%d" % offset, None, (), -1) for offset in range(ends[0])]
        self.polls = [Poll(self.name, 0, 1.0, 0, reads)]
        return True


class Members:
    """A group that has committed everything at once."""

    def __init__(self, *arguments: object) -> None:
        self.polls: list[GroupPoll] = []
        self.commits: list[GroupCommit] = []
        self.committed: dict[int, int] = {}
        self.threads = [WatchedThread("member-0", self.work)]

    def work(self) -> None:
        pass

    def start(self) -> None:
        self.threads[0].start()

    def stop(self) -> None:
        self.threads[0].join()

    def wait_until(self, ends: dict[int, int], timeout_s: float) -> bool:
        return True


class Looks:
    def __init__(self, *arguments: object) -> None:
        self.view = VIEW
        self.events: list[Any] = []
        self.thread = WatchedThread("watcher", self.work)

    def work(self) -> None:
        pass

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.join()

    def look(self) -> View:
        return self.view

    def all_in_sync(self) -> bool:
        return True


class Quiet:
    """A target that takes everything and does nothing."""

    name = "quiet"
    bootstrap = "nowhere:1"
    session_s = 0.0
    missing: Mapping[Kind, str] = MappingProxyType({})
    offered = frozenset(Kind)

    def brokers(self) -> list[str]:
        return ["broker0", "broker1", "broker2"]

    def zookeepers(self) -> list[str]:
        return []

    def running(self, node: str) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


STEPS = [Step(0.03 * number, 0.01, Fault(Kind.PAUSE, Role.LEADER), False) for number in range(3)]


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Load] = []

    def load(*arguments: object) -> Load:
        loads.append(Load())
        return loads[-1]

    def everything(*arguments: object) -> dict[int, list[Read]]:
        return {0: [Read(send.offset or 0, send.value) for send in loads[-1].sends]}

    monkeypatch.setattr(runs, "Workload", load)
    monkeypatch.setattr(runs, "Reader", Along)
    monkeypatch.setattr(runs, "GroupReaders", Members)
    monkeypatch.setattr(runs, "Watcher", Looks)
    monkeypatch.setattr(runs, "CALM_S", 0.0)
    monkeypatch.setattr(runs, "_make_topic", lambda target, scenario: "t")
    monkeypatch.setattr(runs, "read_everything", everything)
    monkeypatch.setattr(runs, "settled_replicas", lambda *arguments: [])
    monkeypatch.setattr(runs._Run, "_delete_topic", lambda self: None)
    monkeypatch.setitem(SCENARIOS, "test", Scenario("test", "", lambda *_: STEPS, shape=Shape(partitions=1)))


def outcome(**options: Any) -> runs.Outcome:
    return runs.run(cast(Target, Quiet()), "test", 0.1, 1, **options)


def told(found: runs.Outcome) -> list[tuple[str, str]]:
    return [(violation.kind, violation.what) for violation in found.violations]


def dies() -> None:
    raise KeyError("the reason")


def test_run_in_which_everybody_works_passes() -> None:
    found = outcome()
    assert told(found) == []
    assert found.begun == len(STEPS)


@pytest.mark.parametrize(
    ("who", "whose", "work"),
    [
        ("nemesis", Nemesis, "run"),
        ("watcher", Looks, "work"),
        ("reader", Along, "work"),
        ("member", Members, "work"),
        ("producer", Load, "work"),
    ],
)
def test_thread_that_dies_makes_the_run_fail_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, who: str, whose: type, work: str
) -> None:
    monkeypatch.setattr(whose, work, lambda *arguments: dies())
    [(kind, what), *_] = told(outcome(allow_skipped=True))
    assert kind == "run failed"
    assert f"the thread '{who}" in what
    assert "in dies" in what
    assert "KeyError: 'the reason'" in what


def test_exception_that_nobody_foresaw_in_a_fault_ends_the_nemesis_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiet, "pause", lambda self, node: dies(), raising=False)
    found = told(outcome())
    assert [kind for kind, _ in found] == ["run failed", "run failed"]
    assert "KeyError" in found[0][1]
    assert "0 of 3 faults took effect" in found[1][1]


def nobody_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = VIEW._replace(partitions=(VIEW.partitions[0]._replace(leader=-1),))
    monkeypatch.setattr(Looks, "view", property(lambda self: gone, lambda self, view: None), raising=False)


def test_run_whose_faults_took_no_effect_says_so_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_leads(monkeypatch)
    [(kind, what)] = told(outcome())
    assert kind == "run failed"
    assert "0 of 3 faults took effect: pause leader: there is nobody in that role now" in what


def test_some_faults_may_be_left_out_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    overlapping = [*STEPS, Step(0.0, 0.005, Fault(Kind.PAUSE, Role.LEADER), False)]
    steps: Callable[..., list[Step]] = lambda *_: overlapping  # noqa: E731
    scenario = replace(SCENARIOS["test"], steps=steps)
    monkeypatch.setitem(SCENARIOS, "test", scenario)
    assert [kind for kind, _ in told(outcome())] == ["run failed"]
    assert told(outcome(allow_skipped=True)) == []
    monkeypatch.setitem(SCENARIOS, "test", replace(scenario, may_skip=0.34))
    assert told(outcome()) == []


def test_broker_that_ended_by_itself_is_found_though_the_next_fault_starts_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([False])  # it is down when the first fault comes, and runs ever after
    monkeypatch.setattr(Quiet, "running", lambda self, node: next(answers, True) if node == "broker0" else True)
    monkeypatch.setattr(runs._Run, "_look_for_fallen", without_polling(runs._Run._look_for_fallen))
    [(kind, what)] = told(outcome())
    assert kind == "not healed"
    assert "broker0 ended by itself" in what


def without_polling(look: Callable[[Any], None]) -> Callable[[Any], None]:
    """Only the last look, after all faults: whatever a poll would see by chance, it sees nothing."""
    return lambda run: look(run) if run._stop.is_set() else None


def test_broker_that_ended_by_itself_between_faults_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiet, "running", lambda self, node: node != "broker2")
    [(kind, what)] = told(outcome())
    assert kind == "not healed"
    assert "broker2 ended by itself" in what


def test_not_one_fault_is_never_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_leads(monkeypatch)
    assert [kind for kind, _ in told(outcome(allow_skipped=True))] == ["run failed"]


def test_watched_thread_keeps_what_ended_it() -> None:
    ended = WatchedThread("fine", lambda: None)
    broken = WatchedThread("broken", lambda: exit(3))
    for thread in (ended, broken):
        thread.start()
        thread.join()
    assert ended.death is None
    assert "SystemExit: 3" in str(broken.death)
