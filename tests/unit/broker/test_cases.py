"""Every script in tests/cases gives the transcript that stands in it."""

from pathlib import Path

import pytest

from tests.support.transcripts import check_transcript, transcript
from tests.unit.broker.controller.fencing_script import FencingScript
from tests.unit.broker.controller.request_script import RequestScript
from tests.unit.broker.groups.consumer_group_script import ConsumerGroupScript
from tests.unit.broker.groups.group_script import GroupScript
from tests.unit.broker.replication_script import ReplicationScript

CASES = Path(__file__).parents[2] / "cases"
CONTROLLER = sorted((CASES / "controller").glob("*.txt"))
CONSUMER_GROUPS = sorted((CASES / "consumer_groups").glob("*.txt"))
FENCING = sorted((CASES / "fencing").glob("*.txt"))
GROUPS = sorted((CASES / "groups").glob("*.txt"))
REPLICATION = sorted((CASES / "replication").glob("*.txt"))


@pytest.mark.parametrize("path", CONTROLLER, ids=lambda path: path.stem)
def test_controller_transcript(path):
    check_transcript(path, RequestScript().run)


@pytest.mark.parametrize("path", FENCING, ids=lambda path: path.stem)
def test_fencing_transcript(path):
    check_transcript(path, FencingScript().run)


@pytest.mark.parametrize("path", REPLICATION, ids=lambda path: path.stem)
def test_replication_transcript(path):
    check_transcript(path, ReplicationScript().run)


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: path.stem)
def test_group_transcript(path):
    check_transcript(path, GroupScript().run)


@pytest.mark.parametrize("path", CONSUMER_GROUPS, ids=lambda path: path.stem)
def test_consumer_group_transcript(path):
    check_transcript(path, ConsumerGroupScript().run)


def test_there_are_scripts():
    assert len(CONSUMER_GROUPS) >= 10
    assert len(GROUPS) >= 15
    assert len(CONTROLLER) >= 10
    assert len(FENCING) >= 12
    assert len(REPLICATION) >= 8


def test_a_transcript_that_does_not_hold_is_told_from_one_that_does():
    true = "lead epoch=1 replicas=1,2 isr=1,2\n----\nhigh watermark 0, counting 1,2\n"
    assert transcript(true, ReplicationScript().run) == true
    false = true.replace("counting 1,2", "counting 1")
    assert transcript(false, ReplicationScript().run) == true
