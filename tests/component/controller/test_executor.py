"""What a controller does when ZooKeeper does not answer in the middle of something."""

from typing import Any

import pytest

from ottla.broker.controller import executor as module
from ottla.broker.controller.decisions.actions import CreateTopic, MarkForDeletion, WriteConfig
from ottla.broker.controller.decisions.state import ControllerState
from ottla.broker.controller.events import Cause, OutOfStep
from ottla.broker.controller.executor import Executor
from ottla.broker.controller.links import Links
from ottla.broker.controller.removals import Removals
from ottla.wire.errors import TopicAlreadyExists
from ottla.zk.errors import ConnectionLost, SessionExpired, ZkUnavailable
from ottla.zk.znodes.topics import TopicZnode

CAUSE = Cause("3-1", "a test")


@pytest.fixture
def executor() -> Executor:
    """Without ZooKeeper and without brokers."""
    nobody: Any = None
    links = Links(lambda broker: nobody)
    return Executor(nobody, nobody, ControllerState(9, 3), links, Removals(), lambda *deleted: None)


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (ConnectionLost, OutOfStep),  # it may have happened: only reading everything tells
        (SessionExpired, OutOfStep),
        (ZkUnavailable, ZkUnavailable),  # it was not sent
        (TopicAlreadyExists, TopicAlreadyExists),
    ],
)
@pytest.mark.parametrize(
    ("write", "action"),
    [
        ("create_topic", CreateTopic("t", TopicZnode({}), {}, {})),
        ("set_topic_config", WriteConfig("t", {})),
        ("mark_for_deletion", MarkForDeletion("t")),
    ],
)
async def test_term_ends_where_it_cannot_be_known_what_was_written(
    executor: Executor,
    monkeypatch: pytest.MonkeyPatch,
    write: str,
    action: CreateTopic | WriteConfig | MarkForDeletion,
    raised: type[Exception],
    seen: type[Exception],
) -> None:
    async def fail(*args: object, **more: object) -> None:
        raise raised("because")

    monkeypatch.setattr(module, write, fail)
    with pytest.raises(seen):
        await executor.act([action], CAUSE)


async def test_what_an_id_stands_for_is_said_once_and_only_if_something_follows(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def succeed(*args: object, **more: object) -> None:
        pass

    monkeypatch.setattr(module, "set_topic_config", succeed)
    with caplog.at_level("INFO"):
        await executor.act([], Cause("3-1", "nothing"))
        await executor.act([WriteConfig("a", {}), WriteConfig("b", {})], Cause("3-2", "somebody asked"))
    assert "3-1" not in caplog.text
    assert caplog.text.count("controller event cause=3-2: somebody asked") == 1
