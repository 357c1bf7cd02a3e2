"""CreateTopics, DeleteTopics and CreatePartitions: for the controller to do, so any other broker says that it is not."""

import asyncio
from collections.abc import Callable

from ottla.broker.api.auto_topics import TopicDefaults
from ottla.broker.api.controller.each import Controller, asked_by, check_count, each, present
from ottla.broker.api.later import while_asked
from ottla.broker.controller.api import Asked
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicResult,
    TopicToDelete,
)
from ottla.wire.dialect import IncomingRequest

TOPICS_MAX = 1_000


class TopicHandlers:
    """``controller`` gives the controller if it is on this broker."""

    def __init__(self, controller: Controller, defaults: Callable[[], TopicDefaults]) -> None:
        self._controller = controller
        self._defaults = defaults

    def create(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, CreateTopicsRequest)
        check_count(request.topics, TOPICS_MAX)
        controller = present(self._controller)
        for topic in request.topics:
            self._defaults().complete(topic)

        async def create(topic: NewTopic, asked: Asked) -> str:
            return await controller.create_topic(topic, asked, validate_only=request.validate_only)

        async def create_all() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            outcomes = await each(request.topics, lambda topic: topic.name, create, asked)
            return Reply(
                CreateTopicsResponse(
                    [
                        TopicResult(done.error_code, done.error_message, topic.name, done.value)
                        for topic, done in zip(request.topics, outcomes, strict=True)
                    ]
                )
            )

        return while_asked(create_all())

    def delete(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DeleteTopicsRequest)
        check_count(request.topics, TOPICS_MAX)
        controller = present(self._controller)

        async def delete(topic: TopicToDelete, asked: Asked) -> str:
            return await controller.delete_topic(topic.name, asked, topic_id=topic.topic_id)

        async def delete_all() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            topics = request.topics
            outcomes = await each(topics, lambda topic: topic.name or topic.topic_id, delete, asked, at_once=TOPICS_MAX)
            return Reply(
                DeleteTopicsResponse(
                    [
                        TopicResult(done.error_code, done.error_message, topic.name or done.value, topic.topic_id)
                        for topic, done in zip(topics, outcomes, strict=True)
                    ]
                )
            )

        return while_asked(delete_all())

    def create_partitions(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, CreatePartitionsRequest)
        check_count(request.topics, TOPICS_MAX)
        controller = present(self._controller)

        async def create(topic: NewPartitions, asked: Asked) -> None:
            await controller.create_partitions(topic, asked, validate_only=request.validate_only)

        async def create_all() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            outcomes = await each(request.topics, lambda topic: topic.name, create, asked)
            return Reply(
                CreatePartitionsResponse(
                    [
                        TopicResult(done.error_code, done.error_message, topic.name)
                        for topic, done in zip(request.topics, outcomes, strict=True)
                    ]
                )
            )

        return while_asked(create_all())
