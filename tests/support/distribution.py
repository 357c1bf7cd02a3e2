"""How the tests are shared among the workers of pytest-xdist, and the summary by part that ends a run.

Tests that share a live cluster or a Spark session belong to one group, and one worker runs a group. The longest groups
start first, so that no worker is left alone with one at the end.
"""

import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ONE_GROUP = {"tests/spark/": "spark", "tests/compat/": "compat", "tests/cluster/test_bad_": "bad"}
"""Paths whose tests share one session, cluster or broker. Elsewhere, each file is a group."""

ALONE = (
    "tests/cluster/test_chaos.py",
    "tests/cluster/test_demo.py",
    "tests/cluster/test_docs_examples.py",
    "tests/cluster/test_failures_disk.py",
    "tests/cluster/test_failures_lost_disks.py",
    "tests/model/test_protocol.py",
)
"""Files whose tests share nothing and take long: each test is a group."""

FIRST = ("spark", "tests/cluster/test_docs_examples.py", "tests/cluster/test_demo.py", "compat")
"""The groups that take longest, longest first."""

SUMMARY_FILE = "OTTLA_TEST_SUMMARY"
"""The variable with the file that takes the summary instead of the terminal: run_all.py prints it at the very end."""

LIVE = "tests/cluster/"
"""Live processes mostly wait, so they run before and beside the tests that only compute."""


def group_of(item: pytest.Item) -> str:
    file = str(item.path.relative_to(ROOT))
    if file in ALONE:
        return f"{file}::{item.name}"
    return next((group for start, group in ONE_GROUP.items() if file.startswith(start)), file)


def distribute(items: list[pytest.Item]) -> None:
    """Mark each test with its group and put the groups in the order in which they should start."""

    def rank(item: pytest.Item) -> tuple[int, str]:
        group = groups[item]
        first = group.partition("::")[0]
        if first in FIRST:
            return FIRST.index(first), group
        return len(FIRST) + (0 if group.startswith(LIVE) or group == "bad" else 1), group

    groups = {item: group_of(item) for item in items}
    items.sort(key=rank)
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))


def check_grouped(items: list[pytest.Item]) -> None:
    """Fail the run if pytest-xdist did not add the groups to the ids of the tests, by which it keeps a group on one worker.

    Without that, every worker starts every shared cluster and Spark session.
    """
    ungrouped = [item.nodeid for item in items if not item.nodeid.endswith(f"@{group_of(item)}")]
    if ungrouped:
        raise pytest.UsageError(
            f"pytest-xdist does not group tests under pytest {pytest.__version__}: see {ungrouped[0]}"
        )


def part_of(nodeid: str) -> str:
    """The folder directly below tests/ that a test belongs to."""
    parts = nodeid.split("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "layout"


class PartSummary:
    """Counts outcomes and adds up seconds per part; prints them as the last lines of a run."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Counter[str]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = part_of(report.nodeid)
        self._seconds[part] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes.setdefault(part, Counter())[report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = [
            f"{part:<10} {', '.join(f'{count} {how}' for how, count in sorted(outcomes.items())):<30}"
            f" {self._seconds[part]:7.1f} s of worker time"
            for part, outcomes in sorted(self._outcomes.items())
        ]
        if SUMMARY_FILE in os.environ:
            Path(os.environ[SUMMARY_FILE]).write_text("\n".join(lines))
        else:
            terminalreporter.section("by part")
            terminalreporter.write_line("\n".join(lines))
