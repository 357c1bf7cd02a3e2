"""Schedules come from their seed alone, ask only for what a target can do, and say what may be expected meanwhile."""

import pytest

from ottla.chaos.faults import Fault, Kind, Role
from ottla.chaos.scenarios import SCENARIOS
from ottla.chaos.schedule import ends, grace_s, leaves_a_quorum, random_steps

ALL = frozenset(Kind)
SESSION_S = 2.0


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_seed_gives_the_same_schedule(name: str) -> None:
    steps = SCENARIOS[name].steps
    assert steps(120, 7, ALL, SESSION_S) == steps(120, 7, ALL, SESSION_S)


def test_other_seeds_give_other_schedules() -> None:
    schedules = [tuple(random_steps(120, seed, ALL, SESSION_S)) for seed in range(20)]
    assert len(set(schedules)) == 20


def test_random_schedules_reach_every_fault_that_is_offered_and_no_other() -> None:
    seen = {step.fault.kind for seed in range(60) for step in random_steps(300, seed, ALL, SESSION_S)}
    assert seen == ALL - {Kind.RESTART_UNSEEN}, "it takes longer sessions than other faults"
    offered = frozenset({Kind.KILL, Kind.PAUSE})
    assert {step.fault.kind for seed in range(20) for step in random_steps(300, seed, offered, SESSION_S)} == offered


def test_random_schedules_end_in_time() -> None:
    for seed in range(50):
        assert ends(random_steps(60, seed, ALL, SESSION_S)) <= 60


def test_random_faults_overlap_sometimes_and_not_always() -> None:
    overlapping = 0
    steps = random_steps(3000, 3, ALL, SESSION_S)
    for one in steps:
        overlapping += any(one is not other and one.at_s < other.end_s and other.at_s < one.end_s for other in steps)
    assert 0 < overlapping < len(steps)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ("calm", "random")])
def test_named_scenario_brings_its_faults_even_in_a_short_time(name: str) -> None:
    scenario = SCENARIOS[name]
    steps = scenario.steps(5, 1, ALL, SESSION_S)
    assert steps
    assert {step.fault.kind for step in scenario.steps(300, 1, ALL, SESSION_S)} == scenario.needs


def test_faults_that_expect_progress_last_long_enough_to_see_it() -> None:
    for name in (
        "kill-leader",
        "pause-leader",
        "isolate-leader",
        "cut-leader-from-zookeeper",
        "zookeeper-majority-down",
    ):
        for step in SCENARIOS[name].steps(100, 1, ALL, SESSION_S):
            assert step.progress, name
            assert step.lasts_s > grace_s(step.fault.kind, SESSION_S), name


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], True),
        ([Fault(Kind.KILL, Role.LEADER)], True),
        ([Fault(Kind.ISOLATE, Role.CONTROLLER)], True),
        ([Fault(Kind.CUT, Role.LEADER, Role.ZOOKEEPER_ALL)], True),
        ([Fault(Kind.KILL, Role.ZOOKEEPER_ALL)], True),
        ([Fault(Kind.KILL, Role.LEADER), Fault(Kind.KILL, Role.ZOOKEEPER)], True),
        ([Fault(Kind.KILL, Role.LEADER), Fault(Kind.SLOW, Role.FOLLOWER)], True),
        ([Fault(Kind.KILL, Role.LEADER), Fault(Kind.PAUSE, Role.CONTROLLER)], False),
        ([Fault(Kind.KILL, Role.LEADER), Fault(Kind.KILL, Role.ZOOKEEPER_MAJORITY)], False),
        ([Fault(Kind.KILL, Role.MAJORITY)], False),
        ([Fault(Kind.KILL, Role.ALL)], False),
        ([Fault(Kind.CUT_FROM, Role.LEADER, Role.FOLLOWERS)], False),
        ([Fault(Kind.DISK_FAILS, Role.LEADER)], True),
        ([Fault(Kind.DISK_FULL, Role.LEADER)], False),
        ([Fault(Kind.NO_DESCRIPTORS, Role.LEADER)], False),
        ([Fault(Kind.LOSE_PARTITION, Role.LEADER)], False),
        ([Fault(Kind.WIPE, Role.LEADER)], False),
        ([Fault(Kind.BAD_ELECTION, Role.LEADER)], False),
        ([Fault(Kind.REASSIGN, Role.TOPIC)], True),
        ([Fault(Kind.MIN_INSYNC, Role.TOPIC)], True),
        ([Fault(Kind.MIN_INSYNC, Role.TOPIC), Fault(Kind.KILL, Role.LEADER)], True),
        ([Fault(Kind.REASSIGN, Role.TOPIC), Fault(Kind.KILL, Role.LEADER)], False),
    ],
)
def test_progress_is_expected_when_at_most_one_broker_suffers_and_can_be_replaced(
    faults: list[Fault], expected: bool
) -> None:
    assert leaves_a_quorum(faults) is expected
