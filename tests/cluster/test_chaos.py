"""Chaos on live clusters: a sound one is found sound, and one that lacks a safety mechanism is found out."""

import os

import pytest

from ottla.chaos.checker import report
from ottla.chaos.report.summary import summary
from ottla.chaos.run import Outcome, run
from ottla.chaos.targets.local import LocalTarget
from tests.support.weakened_broker import brokers_without

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def suffer(scenario: str, seconds: float, seed: int = 1) -> Outcome:
    print(f"{scenario}, seed {seed}")
    with LocalTarget() as target:
        return run(target, scenario, seconds, seed, print)


def kinds(outcome: Outcome) -> set[str]:
    return {violation.kind for violation in outcome.violations}


def test_random_faults_find_nothing() -> None:
    """OTTLA_SEED for other faults; `make chaos` goes on for longer, with containers too."""
    outcome = suffer("random", 15, int(os.environ.get("OTTLA_SEED", "1")))
    assert outcome.passed, report(outcome.violations)
    found = summary(outcome)
    assert found["sends"]["ok"] > 1000
    assert found["polled"] >= 2 * found["stored"] > 2000
    assert found["replicas_compared"] == 9


@pytest.mark.parametrize(
    ("mechanism", "scenario", "violation"),
    [
        ("waiting for followers", "kill-leader-ahead", "lost"),
        ("deduplication", "lose-answers", "duplicate"),
    ],
)
def test_without_a_safety_mechanism_the_violation_is_found(mechanism: str, scenario: str, violation: str) -> None:
    with brokers_without(mechanism):
        outcome = suffer(scenario, 15)
    assert violation in kinds(outcome), f"{len(outcome.violations)} violations\n{report(outcome.violations)}"
    guilty = next(one for one in summary(outcome)["details"] if one["kind"] == violation)
    assert any(event["kind"] == "fault" for event in guilty["around"]), (
        "the fault that brought it about is told with it"
    )
