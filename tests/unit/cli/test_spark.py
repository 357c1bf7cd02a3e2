"""``ottla spark`` as far as it goes without Spark."""

import json
import sys

import pytest

from ottla.cli.main import main
from ottla.spark_jobs.jobs import JOBS


def test_all_jobs_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "list", "--format", "json"]) == 0
    assert [row["job"] for row in json.loads(capfd.readouterr().out)] == list(JOBS)


def test_a_job_shows_its_own_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "run", "sessions", "--help"]) == 0
    assert "usage: ottla spark run sessions" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told", "hint"),
    [
        (["session"], "there is no job 'session'", "did you mean sessions?"),
        (["sessions"], "the following arguments are required: TOPIC, --checkpoint, --to", "sessions --help"),
        (["topic-statistics", "t", "--offset", "7"], "unrecognized arguments: --offset 7", "topic-statistics --help"),
    ],
)
def test_wrong_words_are_told_with_what_to_do(
    capfd: pytest.CaptureFixture[str], arguments: list[str], told: str, hint: str
) -> None:
    assert main(["spark", "run", *arguments]) == 2
    error, hinted = capfd.readouterr().err.splitlines()
    assert error == f"error: {told}"
    assert hint in hinted


def test_where_pyspark_is_missing_it_is_said_how_to_get_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["spark", "run", "topic-statistics", "orders"]) == 1
    assert capfd.readouterr().err == (
        "error: this needs pyspark, which is not installed\nhint: pip install 'ottla[spark]'\n"
    )
