"""Many things asked of the controller: what becomes of each when attempts fail, are half done, or go unheard."""

from collections.abc import Awaitable, Callable
from typing import Any

from ottla.client.wanted import Wanted, WantedDeletion, WantedPartitions, ask_for_each, by_topic, not_done
from ottla.wire.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicResult,
    TopicToDelete,
)
from ottla.wire.errors import (
    ClientTimeout,
    InvalidPartitions,
    NetworkException,
    NotController,
    OttlaError,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import Request

Answer = OttlaError | list[OttlaError | None]


class ScriptedCluster:
    """A cluster whose controller answers as scripted: with a failure of the request, or an error or None for each part."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[list[str]] = []

    async def ask_controller(self, request: Request, kind: type[Any], timeout_s: float) -> Any:
        assert isinstance(request, CreateTopicsRequest | DeleteTopicsRequest)
        names = [topic.name for topic in request.topics]
        self.asked.append(names)
        answer = self._answers.pop(0)
        if isinstance(answer, OttlaError):
            raise answer
        pairs = zip(names, answer, strict=True)
        return kind([TopicResult(error.code if error else 0, str(error or ""), name) for name, error in pairs])

    def attempt_s(self, timeout_s: float) -> float:
        return timeout_s

    def tried(self) -> str:
        return "tried: 1.2.3.4"

    async def retry(self, attempt: Callable[[], Awaitable[None]], timeout_s: float, what: str) -> None:
        while self._answers:
            try:
                return await attempt()
            except OttlaError as error:
                if not error.retriable:
                    raise
        raise ClientTimeout(what)


async def create(cluster: ScriptedCluster, *names: str) -> dict[str, OttlaError | None]:
    wanted = [Wanted(NewTopic(name, 1, 1, {}), name) for name in names]
    await ask_for_each(
        cluster,  # type: ignore[arg-type]
        wanted,
        lambda parts: CreateTopicsRequest(parts, 1000),
        CreateTopicsResponse,
        lambda answer: answer.topics,
        10,
        lambda some: f"{not_done(some)} created",
    )
    return by_topic(wanted)


async def delete(cluster: ScriptedCluster, **ids: str) -> dict[str, OttlaError | None]:
    wanted = [WantedDeletion(TopicToDelete(name, topic_id), name) for name, topic_id in ids.items()]
    await ask_for_each(
        cluster,  # type: ignore[arg-type]
        wanted,
        lambda parts: DeleteTopicsRequest(parts, 1000),
        DeleteTopicsResponse,
        lambda answer: answer.topics,
        10,
        lambda some: f"{not_done(some)} deleted",
    )
    return by_topic(wanted)


def kinds(outcomes: dict[str, OttlaError | None]) -> dict[str, type[OttlaError] | None]:
    return {name: type(error) if error is not None else None for name, error in outcomes.items()}


async def test_only_what_is_not_settled_is_asked_for_again() -> None:
    cluster = ScriptedCluster([None, NotController(), TopicAlreadyExists()], [None])
    assert kinds(await create(cluster, "a", "b", "c")) == {"a": None, "b": None, "c": TopicAlreadyExists}
    assert cluster.asked == [["a", "b", "c"], ["b"]]


async def test_when_time_is_over_each_that_is_left_knows() -> None:
    cluster = ScriptedCluster([None, NotController(), NotController()])
    outcomes = await create(cluster, "a", "b", "c")
    assert kinds(outcomes) == {"a": None, "b": ClientTimeout, "c": ClientTimeout}
    assert outcomes["b"] is not outcomes["c"]


async def test_nothing_wanted_asks_nobody() -> None:
    assert await create(ScriptedCluster()) == {}


async def test_topic_that_went_by_an_attempt_that_was_not_heard_of_is_deleted() -> None:
    cluster = ScriptedCluster(NetworkException(), [UnknownTopicOrPartition(), None])
    assert kinds(await delete(cluster, a="id-of-a", b="id-of-b")) == {"a": None, "b": None}


async def test_topic_that_never_was_is_not_deleted() -> None:
    cluster = ScriptedCluster(NetworkException(), [UnknownTopicOrPartition(), None])
    assert kinds(await delete(cluster, a="", b="id-of-b")) == {"a": UnknownTopicOrPartition, "b": None}


async def test_where_the_id_may_be_an_old_one_the_name_is_asked_for() -> None:
    cluster = ScriptedCluster([UnknownTopicOrPartition()], [None])
    assert kinds(await delete(cluster, a="an-old-id")) == {"a": None}


def test_partitions_may_be_there_only_if_an_attempt_was_not_heard_of() -> None:
    wanted = WantedPartitions(NewPartitions("a", 3), "a")
    refusal = TopicResult(InvalidPartitions.code, "has 3", "a")
    wanted.answered(refusal)
    assert wanted.settled
    assert not wanted.may_be_there
    again = WantedPartitions(NewPartitions("a", 3), "a")
    again.unheard(NetworkException())
    again.answered(refusal)
    assert again.may_be_there


async def test_what_is_not_done_in_time_is_told_of_it_alone_and_by_its_own_reason() -> None:
    """Of three topics one was created, and the others were not for different reasons."""
    cluster = ScriptedCluster([None, NotController("not me"), RequestTimedOut("too late for c")])
    outcomes = await create(cluster, "a", "b", "c")
    assert outcomes["a"] is None
    assert {name: str(error) for name, error in outcomes.items() if error} == {
        "b": "topic 'b' was not created within 10 s: not me; tried: 1.2.3.4",
        "c": "topic 'c' was not created within 10 s: too late for c; tried: 1.2.3.4",
    }
