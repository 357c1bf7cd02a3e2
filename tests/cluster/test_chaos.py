"""Chaos on live clusters: a sound one is found sound, and one that lacks a safety mechanism is found out."""

import os
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from ottla.chaos.checker import events_around, report
from ottla.chaos.report.summary import summary
from ottla.chaos.run import Outcome, run
from ottla.chaos.targets.local import LocalTarget
from tests.support.weakened_broker import brokers_without
from tests.support.weakened_client import CALM_S, RATE, suffer_with_clients_without

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def short_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.chaos.run.CALM_S", CALM_S)


def suffer(scenario: str, seconds: float, seed: int = 1) -> Outcome:
    print(f"{scenario}, seed {seed}")
    with LocalTarget() as target:
        return run(target, scenario, seconds, seed, print, rate=RATE)


def test_random_faults_find_nothing() -> None:
    """OTTLA_SEED for other faults; `make chaos` goes on for longer, with containers too."""
    outcome = suffer("random", 15, int(os.environ.get("OTTLA_SEED", "1")))
    assert outcome.passed, report(outcome.violations)
    found = summary(outcome)
    assert found["sends"]["ok"] > 1000
    assert found["polled"] >= 2 * found["stored"] > 2000
    assert found["replicas_compared"] == 9


ALWAYS = ("comparing logs with checkpoints", "answers count for their position")
"""One mechanism of the brokers and one of the clients is switched off in every run, the others with ``-m deep``."""


def mechanisms(table: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.deep]) for name in table]


BROKERS = {
    # What is switched off, what then happens, how long that takes, and what is found.
    "waiting for followers": ("kill-leader-ahead", 12, "lost"),
    "deduplication": ("lose-answers", 6, "duplicate"),
    "data stamps": ("wiped-disk", 8, "lost"),
    "forgetting who was eligible": ("min-insync-lowered", 13, "lost"),
    "comparing logs with checkpoints": ("lost-partition", 8, "lost"),
    "new epochs for restarted leaders": ("restarted-unseen", 8, "lost"),
    "telling shortages from failures": ("disk-full", 8, "not healed"),
    "checking reported batches": ("flipped-bit", 8, "not healed"),
}


TRIES = 3
"""What a missing mechanism lets happen needs its moment, and on a busy machine a fault may miss it."""


@pytest.mark.parametrize("mechanism", mechanisms(BROKERS))
def test_without_a_mechanism_of_the_brokers_the_violation_is_found(mechanism: str) -> None:
    scenario, seconds, violation = BROKERS[mechanism]
    for seed in range(1, 1 + TRIES):
        with brokers_without(mechanism):
            outcome = suffer(scenario, seconds, seed)
        found = summary(outcome)
        if violation in found["violation_kinds"]:
            break
    assert violation in found["violation_kinds"], report(outcome.violations)
    assert found["took_effect"] == found["scheduled"]
    if violation != "not healed":  # that is no matter of single records
        around = [events_around(one, outcome.history.events) for one in outcome.violations if one.kind == violation]
        assert any(event.kind == "fault" for events in around for event in events), "the report names the fault"


CLIENTS = {
    # As above, and what else is wrong with the brokers.
    "answers count for their position": ("late-answers", 9, "non-monotonic poll", ""),
    "holding back": ("give-up", 9, "non-monotonic send", ""),
    "older metadata is not believed": ("calm", 5, "key moved", "metadata in time"),
}


@pytest.mark.parametrize("mechanism", mechanisms(CLIENTS))
def test_without_a_mechanism_of_the_clients_the_violation_is_found(mechanism: str) -> None:
    scenario, seconds, violation, brokers = CLIENTS[mechanism]
    for seed in range(1, 1 + TRIES):
        found = suffer_with_clients_without(mechanism, scenario, seconds, brokers, seed)
        if found["violation_kinds"]:
            break
    assert set(found["violation_kinds"]) == {violation}, found["details"][:5]
    assert found["took_effect"] == found["scheduled"]


@pytest.mark.deep
@pytest.mark.parametrize(("scenario", "seconds"), [row[:2] for row in BROKERS.values()])
def test_with_the_mechanism_of_the_brokers_nothing_is_found(scenario: str, seconds: float) -> None:
    outcome = suffer(scenario, seconds)
    assert outcome.passed, report(outcome.violations)


@pytest.mark.deep
@pytest.mark.parametrize(("scenario", "seconds", "brokers"), [(*row[:2], row[3]) for row in CLIENTS.values()])
def test_with_the_mechanism_of_the_clients_nothing_is_found(scenario: str, seconds: float, brokers: str) -> None:
    found: dict[str, Any] = suffer_with_clients_without("", scenario, seconds, brokers)
    assert found["passed"], found["details"][:5]
