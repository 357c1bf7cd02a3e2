"""The nemesis finds its victims, ends what it began, and says what it could not do."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.chaos.faults import CLIENTS, Fault, Kind, NotOffered, Role, Step
from ottla.chaos.nemesis import Nemesis
from ottla.chaos.targets.target import Target
from ottla.chaos.watcher import PartitionView, View, Watcher

VIEW = View(2, (PartitionView(0, 1, (0, 1, 2), (0, 1, 2)), PartitionView(1, 1, (0, 1, 2), (1, 2, 0))))


class Diary:
    """Stands for a target: it has nodes, and writes down what is done to them."""

    session_s = 0.0

    def __init__(self) -> None:
        self.done: list[tuple[str, ...]] = []

    def brokers(self) -> list[str]:
        return ["broker0", "broker1", "broker2"]

    def zookeepers(self) -> list[str]:
        return ["zookeeper0", "zookeeper1", "zookeeper2"]

    def racks(self) -> dict[str, list[str]]:
        return {"rack1": ["broker0", "broker2"], "rack2": ["broker1"]}

    def zookeeper_leader(self) -> str:
        return "zookeeper1"

    def running(self, node: str) -> bool:
        return True

    def skew_clock(self, node: str, seconds: float) -> None:
        raise NotOffered("no clock")

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.done.append((name, *map(str, arguments)))


def run(*faults: Fault, at_once: bool = False, lasts_s: float = 0.01, view: View = VIEW) -> tuple[Nemesis, Diary]:
    diary = Diary()
    watcher = cast(Watcher, SimpleNamespace(view=view))
    nemesis = Nemesis(cast(Target, diary), watcher, partitions=2)
    steps = [Step(0.0 if at_once else number * 0.02, lasts_s, fault, True) for number, fault in enumerate(faults)]
    nemesis.run(steps, threading.Event())
    return nemesis, diary


@pytest.mark.parametrize(
    ("role", "pick", "nodes"),
    [
        (Role.LEADER, 0, ["broker0"]),
        (Role.LEADER, 1, ["broker1"]),
        (Role.FOLLOWER, 0, ["broker1"]),
        (Role.FOLLOWERS, 1, ["broker2", "broker0"]),
        (Role.CONTROLLER, 0, ["broker2"]),
        (Role.BROKER, 4, ["broker1"]),
        (Role.MINORITY, 2, ["broker2"]),
        (Role.MAJORITY, 2, ["broker2", "broker0"]),
        (Role.ALL, 0, ["broker0", "broker1", "broker2"]),
        (Role.RACK, 0, ["broker0", "broker2"]),
        (Role.RACK, 1, ["broker1"]),
        (Role.ZOOKEEPER_LEADER, 0, ["zookeeper1"]),
        (Role.ZOOKEEPER, 2, ["zookeeper2"]),
        (Role.ZOOKEEPER_MAJORITY, 0, ["zookeeper0", "zookeeper1"]),
        (Role.ZOOKEEPER_ALL, 0, ["zookeeper0", "zookeeper1", "zookeeper2"]),
    ],
)
def test_roles_name_nodes(role: Role, pick: int, nodes: list[str]) -> None:
    _, diary = run(Fault(Kind.PAUSE, role, pick=pick))
    assert diary.done == [("pause", node) for node in nodes] + [("resume", node) for node in nodes]


def test_kill_is_ended_by_a_start() -> None:
    nemesis, diary = run(Fault(Kind.KILL, Role.LEADER))
    assert diary.done == [("kill", "broker0"), ("start", "broker0")]
    [event] = nemesis.events
    assert event.what == "kill broker0 (leader)"
    assert event.until is not None
    assert event.until > event.at


def test_kill_ahead_stops_the_others_first_and_lets_them_go_on_at_once() -> None:
    _, diary = run(Fault(Kind.KILL_AHEAD, Role.LEADER))
    assert diary.done[:2] == [("pause", "broker1"), ("pause", "broker2")]
    assert diary.done[2:] == [("kill", "broker0"), ("resume", "broker1"), ("resume", "broker2"), ("start", "broker0")]


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        (Kind.CUT, [("broker0", "clients"), ("clients", "broker0")]),
        (Kind.CUT_TO, [("broker0", "clients")]),
        (Kind.CUT_FROM, [("clients", "broker0")]),
    ],
)
def test_cuts_have_directions(kind: Kind, pairs: list[tuple[str, str]]) -> None:
    _, diary = run(Fault(kind, Role.LEADER, Role.CLIENTS))
    assert diary.done == [("block", *pair) for pair in pairs] + [("unblock", *pair) for pair in pairs]


def test_isolated_node_is_cut_from_everybody_in_both_directions() -> None:
    _, diary = run(Fault(Kind.ISOLATE, Role.CONTROLLER))
    blocked = {(source, sink) for what, source, sink in diary.done if what == "block"}
    everybody = {"broker0", "broker1", "zookeeper0", "zookeeper1", "zookeeper2", CLIENTS}
    assert blocked == {("broker2", other) for other in everybody} | {(other, "broker2") for other in everybody}


def test_who_suffers_already_is_left_alone() -> None:
    nemesis, diary = run(Fault(Kind.KILL, Role.LEADER), Fault(Kind.PAUSE, Role.LEADER), at_once=True)
    assert diary.done == [("kill", "broker0"), ("start", "broker0")]
    assert nemesis.skipped == ["pause leader: broker0 suffer already"]


def test_what_a_target_cannot_do_is_told() -> None:
    nemesis, diary = run(Fault(Kind.CLOCK, Role.BROKER))
    assert diary.done == []
    assert nemesis.skipped == ["clock broker: no clock"]


def test_progress_is_expected_after_the_grace_if_everything_was_whole_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.chaos.nemesis.grace_s", lambda kind, session_s: 0.05)
    nemesis, _ = run(Fault(Kind.KILL, Role.LEADER), lasts_s=0.2)
    [expected] = nemesis.expectations
    [event] = nemesis.events
    assert expected.began == event.at + 0.05
    assert expected.ended == event.until
    assert expected.partitions == (0, 1)
    too_short, _ = run(Fault(Kind.KILL, Role.LEADER), lasts_s=0.01)
    assert too_short.expectations == []
    missing = VIEW._replace(partitions=(VIEW.partitions[0]._replace(isr=(0, 1)), VIEW.partitions[1]))
    not_whole, _ = run(Fault(Kind.KILL, Role.LEADER), lasts_s=0.2, view=missing)
    assert not_whole.expectations == []


def test_schedule_that_is_stopped_begins_nothing_more() -> None:
    diary = Diary()
    nemesis = Nemesis(cast(Target, diary), cast(Watcher, SimpleNamespace(view=VIEW)), partitions=2)
    stop = threading.Event()
    stop.set()
    nemesis.run([Step(0.0, 1.0, Fault(Kind.KILL, Role.LEADER), True)], stop)
    assert diary.done == []
