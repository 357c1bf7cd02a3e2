"""``ottla chaos`` lists its scenarios, and says what is wrong with what it was asked."""

import json
from pathlib import Path

import pytest

from ottla.cli.errors import USAGE
from ottla.cli.main import main
from ottla.local import LocalClusterError


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "list", "--format", "json"]) == 0
    names = {row["scenario"] for row in json.loads(capsys.readouterr().out)}
    assert {"random", "kill-leader", "kill-rack", "pause-leader", "disk-full", "zookeeper-majority-down"} <= names


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--scenario", "kil-leader"], "there is no scenario 'kil-leader'"),
        (["--target", "moon"], "there is no target 'moon'"),
        (["--seconds", "0"], "Invalid value for '--seconds'"),
        (
            ["--target", "compose", "--scenario", "follower-slow"],
            "compose cannot do follower-slow: slow: it takes netem",
        ),
    ],
)
def test_bad_wishes_are_refused_before_anything_is_broken(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", "run", *arguments]) == USAGE
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "below"])
def test_a_report_that_could_not_be_written_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("ottla.chaos.run.run", lambda *_, **__: pytest.fail("it was run"))
    assert main(["chaos", "run", "--report", str(tmp_path / "file" / below)]) == USAGE
    assert f"--report {tmp_path / 'file' / below} cannot be used" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("error", [LocalClusterError("no Java here", hint="install it"), OSError(2, "No such file")])
def test_a_run_that_could_not_start_has_found_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("ottla.chaos.targets.local.LocalTarget.open", fail)
    assert main(["chaos", "run", "--scenario", "kill-leader"]) == USAGE
    assert f"error: the run could not start: {error}" in capsys.readouterr().err
