"""Topics that are made for clients that ask for them: the answer does not wait for a slow controller."""

import asyncio
import time

import pytest

from ottla.broker.api.auto_topics import ANSWER_AFTER_S, AutoTopics, TopicDefaults
from ottla.broker.cluster_view import ClusterView
from ottla.wire.admin import NewTopic
from ottla.wire.errors import UnknownTopicOrPartition
from tests.support.machine import scaled


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_kafkas_internal_topics_are_not_made_and_it_is_said_why(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """They would be ordinary topics: everybody could write to them, and monitors of groups read nothing from them."""

    async def create(topic: NewTopic, timeout_s: float) -> None:
        raise AssertionError(topic.name)

    auto = AutoTopics(ClusterView("c"), create, lambda: TopicDefaults(1, 1))
    for _ in range(2):
        assert auto.missing([name, "t"]) == ["t"]
    assert [record.levelname for record in caplog.records] == ["WARNING"], "it is said once"
    assert name in caplog.text
    (told,) = ClusterView("c").describe([name], "CLIENTS").topics
    assert told.error_code == UnknownTopicOrPartition.code
    assert "is not made on demand" in told.error_message


async def test_a_client_is_answered_while_the_controller_is_busy_and_the_topic_is_made_once() -> None:
    asked: list[str] = []
    busy = asyncio.Event()

    async def create(topic: NewTopic, timeout_s: float) -> None:
        asked.append(topic.name)
        await busy.wait()
        asked.append("done")

    auto = AutoTopics(ClusterView("c"), create, lambda: TopicDefaults(1, 1))
    began = time.monotonic()
    await auto.make(["t"])
    await auto.make(["t"])  # it asks again
    assert 2 * ANSWER_AFTER_S <= time.monotonic() - began < 2 * ANSWER_AFTER_S + scaled(0.5)
    assert asked == ["t"]
    busy.set()
    async with asyncio.timeout(scaled(5)):
        while asked != ["t", "done"]:  # noqa: ASYNC110  # nobody can tell when it is done
            await asyncio.sleep(0)
