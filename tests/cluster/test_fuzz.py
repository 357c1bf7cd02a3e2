"""The fuzzer against live brokers, shortly; `ottla chaos fuzz --seconds 3600` is the same for an hour."""

import pytest

from ottla.chaos.fuzz.report import summary, told
from ottla.chaos.fuzz.run import run

pytestmark = pytest.mark.cluster


def test_ten_seconds_of_fuzzing_harm_nobody() -> None:
    outcome = run(10, 7, 60, print)
    found = summary(outcome)
    # What a busy machine does to latencies is no finding here.
    violations = [violation for violation in outcome.violations if "p99" not in violation]
    assert violations == [], told(outcome)
    assert found["attacks"] > 150
    assert found["answers_by_kind"]["answer ok"] > 20
    assert found["answers_by_kind"]["answer CORRUPT_MESSAGE"] > 0
    assert found["answers_by_kind"]["closed by the broker"] > 20
    assert sum(one["batches"] for one in found["stored"].values()) > found["healthy_acked"] > 100
