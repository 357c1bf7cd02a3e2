"""``ottla chaos`` lists its scenarios, and says what is wrong with what it was asked."""

import json

import pytest

from ottla.cli.errors import USAGE
from ottla.cli.main import main


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
