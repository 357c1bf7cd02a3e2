"""CreateTopics and DeleteTopics: for the controller to do, so any other broker says who that is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from ottla.broker.api.later import while_asked
from ottla.net.connection import Connection
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest, NotController, OttlaError
from ottla.wire.messages import Done
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.wire.requests import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    ReassignRequest,
    TopicResult,
)

TOPICS_MAX = 1_000
TIMEOUT_MAX_S = 120.0


class TopicAuthority(Protocol):
    """The controller, as far as this file needs it."""

    async def create_topic(self, topic: NewTopic, *, validate_only: bool, timeout_s: float) -> str: ...
    async def delete_topic(self, name: str, *, topic_id: str = "", timeout_s: float) -> None: ...
    async def add_partitions(self, name: str, count: int, *, timeout_s: float) -> None: ...
    async def set_config(self, name: str, config: Mapping[str, str], *, timeout_s: float) -> None: ...
    async def move(self, where: TopicPartition, replicas: list[int], *, timeout_s: float) -> None: ...


class TopicHandlers:
    """``authority`` gives the controller if it is on this broker."""

    def __init__(self, authority: Callable[[], TopicAuthority | None]) -> None:
        self._authority = authority

    def create(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, CreateTopicsRequest)
        controller = self._controller(len(request.topics))
        timeout_s = _timeout_s(request.timeout_ms)

        async def create_one(topic: NewTopic) -> TopicResult:
            work = controller.create_topic(topic, validate_only=request.validate_only, timeout_s=timeout_s)
            return await _result(topic.name, work)

        async def create_all() -> Reply:
            return Reply(CreateTopicsResponse([await create_one(topic) for topic in request.topics]))

        return while_asked(create_all())

    def delete(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DeleteTopicsRequest)
        controller = self._controller(len(request.names))
        timeout_s = _timeout_s(request.timeout_ms)
        ids = request.topic_ids if request.topic_ids is not None else [""] * len(request.names)
        if len(ids) != len(request.names):
            raise InvalidRequest(f"{len(request.names)} names with {len(ids)} topic ids")

        async def delete_one(name: str, topic_id: str) -> TopicResult:
            return await _result(name, controller.delete_topic(name, topic_id=topic_id, timeout_s=timeout_s))

        async def delete_all() -> Reply:
            works = [delete_one(name, topic_id) for name, topic_id in zip(request.names, ids, strict=True)]
            return Reply(DeleteTopicsResponse(list(await asyncio.gather(*works))))

        return while_asked(delete_all())

    def add_partitions(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, CreatePartitionsRequest)
        timeout_s = _timeout_s(request.timeout_ms)
        return while_asked(_done(self._controller(1).add_partitions(request.name, request.count, timeout_s=timeout_s)))

    def set_config(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, AlterConfigsRequest)
        timeout_s = _timeout_s(request.timeout_ms)
        return while_asked(_done(self._controller(1).set_config(request.name, request.config, timeout_s=timeout_s)))

    def move(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ReassignRequest)
        where = TopicPartition(check_topic_name(request.topic), request.partition)
        timeout_s = _timeout_s(request.timeout_ms)
        return while_asked(_done(self._controller(1).move(where, request.replicas, timeout_s=timeout_s)))

    def _controller(self, count: int) -> TopicAuthority:
        if count > TOPICS_MAX:
            raise InvalidRequest(f"{count} topics in one request; at most {TOPICS_MAX}")
        controller = self._authority()
        if controller is None:
            raise NotController
        return controller


async def _done(work: Awaitable[None]) -> Reply:
    await work
    return Reply(Done())


async def _result(name: str, work: Awaitable[str | None]) -> TopicResult:
    try:
        topic_id = await work
    except OttlaError as error:
        return TopicResult(error.code, str(error), name)
    return TopicResult(0, "", name, topic_id or "")


def _timeout_s(timeout_ms: int) -> float:
    return min(max(timeout_ms, 1) / 1000, TIMEOUT_MAX_S)
