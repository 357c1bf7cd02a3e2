"""Chaos on containers: processes ended by docker, links cut by iptables in their networks, and nothing is found."""

import pytest

from ottla.chaos.checker import report
from ottla.chaos.run import run
from ottla.chaos.scenarios import SCENARIOS
from ottla.chaos.targets.compose import ComposeTarget
from tests.support.compose import ComposeCluster

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "scenario", ["kill-leader", "isolate-leader", "disk-fails", "lost-partition", "no-descriptors"]
)
def test_scenario_on_containers_finds_nothing(compose: ComposeCluster, scenario: str) -> None:
    with ComposeTarget(compose.project) as target:
        lacking = SCENARIOS[scenario].needs - target.offered
        if lacking:
            pytest.skip("; ".join(f"{kind}: {target.missing[kind]}" for kind in lacking))
        outcome = run(target, scenario, 10, 1, print)
    assert outcome.passed, report(outcome.violations)
    assert [event.kind for event in outcome.history.events].count("fault") == 1
