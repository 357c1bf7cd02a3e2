"""Every script in tests/cases gives the transcript that stands in it."""

from pathlib import Path

import pytest

from tests.support.transcripts import check_transcript
from tests.unit.broker.controller_script import ControllerScript
from tests.unit.broker.replication_script import ReplicationScript

CASES = Path(__file__).parents[2] / "cases"
CONTROLLER = sorted((CASES / "controller").glob("*.txt"))
REPLICATION = sorted((CASES / "replication").glob("*.txt"))


@pytest.mark.parametrize("path", CONTROLLER, ids=lambda path: path.stem)
def test_controller_transcript(path):
    check_transcript(path, ControllerScript().run)


@pytest.mark.parametrize("path", REPLICATION, ids=lambda path: path.stem)
def test_replication_transcript(path):
    check_transcript(path, ReplicationScript().run)


def test_there_are_scripts():
    assert len(CONTROLLER) >= 10
    assert len(REPLICATION) >= 8
