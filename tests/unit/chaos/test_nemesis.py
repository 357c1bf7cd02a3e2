"""The nemesis finds its victims, ends what it began, and says what it could not do."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.chaos.faults import CLIENTS, Fault, Kind, NotOffered, Role, Step
from ottla.chaos.nemesis import Nemesis
from ottla.chaos.targets.target import Target
from ottla.chaos.topic_faults import TopicFaults
from ottla.chaos.watcher import PartitionView, View, Watcher
from ottla.wire.errors import ClientTimeout

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
        fates = [what for what, *whom in self.done if what.startswith(("kill", "start")) and node in whom[0]]
        return not fates or fates[-1] == "start"

    def skew_clock(self, node: str, seconds: float) -> None:
        raise NotOffered("no clock")

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.done.append((name, *map(str, arguments)))


class Topic:
    """Stands for what an admin does to the topic."""

    name = "t"

    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def raise_min_insync(self) -> None:
        self._diary.done.append(("raise_min_insync",))
        raise ClientTimeout("nobody answers: it is done when all is healed")

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._diary.done.append((name, *map(str, arguments[:1])))


def run(
    *faults: Fault, at_once: bool = False, lasts_s: float = 0.01, view: View = VIEW, in_sync: bool = True
) -> tuple[Nemesis, Diary]:
    diary = Diary()
    watcher = cast(Watcher, SimpleNamespace(view=view, all_in_sync=lambda: in_sync))
    topic = cast(TopicFaults, Topic(diary))
    nemesis = Nemesis(cast(Target, diary), watcher, partitions=2, topic=topic, replication=3)
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
    assert nemesis.begun == 1


def test_fault_waits_for_its_victim_to_recover() -> None:
    diary = Diary()
    nemesis = Nemesis(cast(Target, diary), cast(Watcher, SimpleNamespace(view=VIEW)), partitions=2)
    first, second = Fault(Kind.KILL, Role.LEADER), Fault(Kind.PAUSE, Role.LEADER)
    nemesis.run([Step(0.0, 0.1, first, True), Step(0.05, 0.6, second, True)], threading.Event())
    assert [what for what, _ in diary.done] == ["kill", "start", "pause", "resume"]
    assert nemesis.skipped == []
    assert nemesis.begun == 2


def test_disk_is_wiped_when_all_are_dead_and_its_broker_is_first_to_come_back() -> None:
    nemesis, diary = run(Fault(Kind.WIPE, Role.LEADER, pick=1))
    assert diary.done == [
        ("kill_together", "['broker1', 'broker0', 'broker2']"),
        ("wipe", "broker1"),
        ("start", "broker1"),
        ("start", "broker0"),
        ("start", "broker2"),
    ]
    assert nemesis.events[0].targets == ("broker1", "broker0", "broker2")


@pytest.mark.parametrize(
    ("view", "in_sync"),
    [
        (VIEW, False),
        (VIEW._replace(partitions=(VIEW.partitions[0]._replace(isr=(0, 1)), VIEW.partitions[1])), True),
        (
            VIEW._replace(partitions=(VIEW.partitions[0]._replace(isr=(0, 1), replicas=(0, 1)), VIEW.partitions[1])),
            True,
        ),
    ],
)
def test_no_disk_is_wiped_while_somebody_else_may_lack_records(view: View, in_sync: bool) -> None:
    nemesis, diary = run(Fault(Kind.WIPE, Role.LEADER), view=view, in_sync=in_sync)
    assert diary.done == []
    assert nemesis.skipped == ["wipe leader: another broker may lack records: one disk at a time loses some"]


def test_no_disk_is_wiped_while_anybody_suffers() -> None:
    nemesis, diary = run(Fault(Kind.MIN_INSYNC, Role.TOPIC), Fault(Kind.WIPE, Role.LEADER), at_once=True)
    assert ("wipe", "broker0") not in diary.done
    assert nemesis.begun == 1


def test_heir_whose_disk_fails_is_the_first_in_sync_behind_the_leader() -> None:
    nemesis, diary = run(Fault(Kind.BAD_ELECTION, Role.LEADER, pick=1))
    assert diary.done == [
        ("spoil_epochs", "broker2", "t", "1"),
        ("kill", "broker1"),
        ("mend_epochs", "broker2", "t", "1"),
        ("kill", "broker2"),
        ("start", "broker2"),
        ("start", "broker1"),
    ]
    assert nemesis.events[0].targets == ("broker1", "broker2")


def test_partition_is_damaged_while_no_broker_runs_and_its_broker_is_started_first() -> None:
    _, diary = run(Fault(Kind.LOSE_PARTITION, Role.LEADER, pick=1))
    assert diary.done == [
        ("kill_together", "['broker1', 'broker0', 'broker2']"),
        ("damage", "broker1", "t", "1", "empty-log"),
        ("start", "broker1"),
        ("start", "broker0"),
        ("start", "broker2"),
    ]


def test_bit_is_flipped_on_the_leader_before_a_follower_copies_the_log_again() -> None:
    _, diary = run(Fault(Kind.FLIP_BIT, Role.LEADER))
    assert diary.done == [
        ("damage", "broker0", "t", "0", "flip-bit"),
        ("kill", "broker1"),
        ("damage", "broker1", "t", "0", "remove-folder"),
        ("start", "broker1"),
    ]


def test_restarted_unseen_needs_a_leader_that_is_not_the_controller() -> None:
    led_by_the_controller = tuple(part._replace(leader=2) for part in VIEW.partitions)
    nemesis, diary = run(
        Fault(Kind.RESTART_UNSEEN, Role.OTHER_LEADER), view=VIEW._replace(partitions=led_by_the_controller)
    )
    assert diary.done == []
    assert nemesis.skipped == ["restart-unseen other-leader: there is nobody in that role now"]


def test_heir_is_spoilt_only_if_a_third_can_lead() -> None:
    alone = VIEW._replace(partitions=(VIEW.partitions[0]._replace(isr=(0, 1)), VIEW.partitions[1]))
    nemesis, diary = run(Fault(Kind.BAD_ELECTION, Role.LEADER), view=alone)
    assert diary.done == []
    assert nemesis.skipped == ["bad-election leader: too few are in sync"]


def test_setting_that_nobody_hears_of_is_raised_later_and_is_no_failure() -> None:
    nemesis, diary = run(Fault(Kind.MIN_INSYNC, Role.TOPIC))
    assert diary.done == [("lower_min_insync",), ("raise_min_insync",)]
    assert nemesis.failures == []


def test_partition_is_moved_twice_and_back() -> None:
    _, diary = run(Fault(Kind.REASSIGN, Role.TOPIC, pick=3))
    assert diary.done == [("move_twice", "1"), ("move_back", "1")]


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


def test_fault_that_lasts_when_the_schedule_is_stopped_is_told() -> None:
    diary = Diary()
    nemesis = Nemesis(cast(Target, diary), cast(Watcher, SimpleNamespace(view=VIEW)), partitions=2)
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    nemesis.run([Step(0.0, 60.0, Fault(Kind.KILL, Role.LEADER), True)], stop)
    [event] = nemesis.events
    assert event.what == "kill broker0 (leader)"
    assert event.until is not None
    assert nemesis.expectations == []


def test_schedule_that_is_stopped_begins_nothing_more() -> None:
    diary = Diary()
    nemesis = Nemesis(cast(Target, diary), cast(Watcher, SimpleNamespace(view=VIEW)), partitions=2)
    stop = threading.Event()
    stop.set()
    nemesis.run([Step(0.0, 1.0, Fault(Kind.KILL, Role.LEADER), True)], stop)
    assert diary.done == []
