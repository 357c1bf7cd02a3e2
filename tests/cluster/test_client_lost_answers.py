"""What an admin asked for was done and the answer was lost: asked again, it is not told that somebody else did it."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from ottla.client import AsyncAdmin
from ottla.wire.admin import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from ottla.wire.errors import (
    InvalidPartitions,
    InvalidRequest,
    NetworkException,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import Message, Request

pytestmark = pytest.mark.cluster


class Line:
    """Loses answers of the controller on demand."""

    def __init__(self, admin: AsyncAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
        self.to_lose = 0
        self.asked: list[Request] = []
        ask = admin._cluster.ask_controller

        async def ask_and_lose(request: Request, kind: type[Message], timeout_s: float) -> Message:
            self.asked.append(request)
            answer = await ask(request, kind, timeout_s)
            if self.to_lose:
                self.to_lose -= 1
                await self.meanwhile()
                raise NetworkException("the answer was lost")
            return answer

        monkeypatch.setattr(admin._cluster, "ask_controller", ask_and_lose)

    async def meanwhile(self) -> None:
        """What happens before the admin asks again."""


@pytest.fixture
async def admin(bootstrap: str) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(bootstrap_servers=bootstrap) as running:
        yield running


@pytest.fixture
async def other(bootstrap: str) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(bootstrap_servers=bootstrap) as running:
        yield running


@pytest.fixture
def line(admin: AsyncAdmin, monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(admin, monkeypatch)


async def test_topic_that_was_created_unheard_is_ours(admin: AsyncAdmin, line: Line, name: str) -> None:
    line.to_lose = 2
    topic_id = await admin.create_topic(name, partitions=2)
    assert len(line.asked) == 3
    found = await admin.describe_topic(name)
    assert (found.topic_id, len(found.partitions)) == (topic_id, 2)
    with pytest.raises(TopicAlreadyExists):
        await admin.create_topic(name, partitions=2)


async def test_topic_of_somebody_else_is_not_taken_for_ours(
    admin: AsyncAdmin, other: AsyncAdmin, line: Line, name: str
) -> None:
    async def replace() -> None:
        await other.delete_topic(name)
        await other.create_topic(name, partitions=2)

    line.to_lose, line.meanwhile = 1, replace  # type: ignore[method-assign]
    with pytest.raises(TopicAlreadyExists):
        await admin.create_topic(name, partitions=2)


async def test_topic_that_was_deleted_unheard_is_gone_and_its_successor_stays(
    admin: AsyncAdmin, other: AsyncAdmin, line: Line, name: str
) -> None:
    await admin.create_topic(name)
    line.to_lose = 1
    await admin.delete_topic(name)
    with pytest.raises(UnknownTopicOrPartition):
        await admin.delete_topic(name)

    async def recreate() -> None:
        await other.create_topic(name, partitions=3)

    await other.create_topic(name)
    line.to_lose, line.meanwhile = 1, recreate  # type: ignore[method-assign]
    await admin.delete_topic(name)
    assert len((await other.describe_topic(name)).partitions) == 3, "not what was meant to be deleted"


async def test_partitions_that_were_added_unheard_are_what_was_asked_for(
    admin: AsyncAdmin, other: AsyncAdmin, line: Line, name: str
) -> None:
    await admin.create_topic(name)
    line.to_lose = 1
    await admin.add_partitions(name, 3)
    assert len((await admin.describe_topic(name)).partitions) == 3
    with pytest.raises(InvalidPartitions):
        await admin.add_partitions(name, 3)

    async def add_more() -> None:
        await other.add_partitions(name, 5)

    line.to_lose, line.meanwhile = 1, add_more  # type: ignore[method-assign]
    with pytest.raises(InvalidPartitions):
        await admin.add_partitions(name, 4)


async def test_settings_that_were_changed_unheard_are_set(admin: AsyncAdmin, line: Line, name: str) -> None:
    await admin.create_topic(name)
    line.to_lose = 1
    await admin.alter_topic_config(name, {"retention.ms": "5000"})
    assert (await admin.describe_topic(name)).config == {"retention.ms": "5000"}


@pytest.mark.parametrize("topic_id", ["short", "A" * 22, "!" * 22, "x" * 5000])
async def test_topic_id_that_is_no_random_uuid_is_refused(admin: AsyncAdmin, name: str, topic_id: str) -> None:
    request = CreateTopicsRequest([NewTopic(name, 1, 1, {}, None, topic_id)], 5000)
    answer = await admin._cluster.ask_controller(request, CreateTopicsResponse, 5.0)
    assert answer.topics[0].error_code == InvalidRequest.code


async def test_topic_id_of_another_topic_is_refused(admin: AsyncAdmin, name: str) -> None:
    topic_id = await admin.create_topic(name)
    request = CreateTopicsRequest([NewTopic(f"{name}-{uuid.uuid4().hex[:4]}", 1, 1, {}, None, topic_id)], 5000)
    answer = await admin._cluster.ask_controller(request, CreateTopicsResponse, 5.0)
    assert answer.topics[0].error_code == InvalidRequest.code


async def test_two_who_create_one_topic_at_once_are_told_apart(admin: AsyncAdmin, other: AsyncAdmin, name: str) -> None:
    results = await asyncio.gather(admin.create_topic(name), other.create_topic(name), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["TopicAlreadyExists", "str"]
