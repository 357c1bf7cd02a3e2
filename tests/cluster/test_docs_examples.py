"""The examples of README and docs, run page by page in the order in which a reader would run them."""

from pathlib import Path

import pytest

from tests.support.doc_examples import LANGUAGES, ROOT, Reader, examples_of, unmarked_commands

pytestmark = pytest.mark.cluster

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if any(example.language in LANGUAGES for example in examples_of(str(path.relative_to(ROOT))))
)


MINUTES = {"docs/spark.md"}
"""Pages whose examples start several Spark sessions: `make spark-test` runs them."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.deep] if page in MINUTES else []) for page in PAGES]
)
def test_every_example_runs_in_the_order_in_which_they_are_read(page: str, tmp_path: Path) -> None:
    wanted = [each for each in examples_of(page) if each.language in LANGUAGES and each.not_run is None]
    reader = Reader(tmp_path)
    try:
        if wanted and not any("ottla up" in example.text for example in wanted):
            reader.runs("ottla up --detach --brokers 1", page)
        for example in wanted:
            reader.tries(example)
    finally:
        reader.goes()


def test_pages_with_examples_are_the_ones_that_one_expects() -> None:
    assert {
        "README.md",
        "docs/client.md",
        "docs/groups.md",
        "docs/operations.md",
        "docs/chaos.md",
        "docs/kafka.md",
    } <= set(PAGES)


@pytest.mark.parametrize("page", sorted({*PAGES, "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/security.md"}))
def test_no_command_stands_in_a_block_that_is_not_looked_at(page: str) -> None:
    assert unmarked_commands(page) == []
