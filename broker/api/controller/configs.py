"""AlterConfigs and IncrementalAlterConfigs: for the controller to do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ottla.broker.api.broker_loggers import BrokerLoggers
from ottla.broker.api.controller.each import Controller, asked_by, check_count, each, present, timeout_s_of
from ottla.broker.api.later import while_asked
from ottla.broker.controller.api import Asked
from ottla.broker.groups.limits import check_group_id
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    BROKER_LOGGER_RESOURCE,
    GROUP_RESOURCE,
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigAlteration,
    ConfigReplacement,
    ConfigResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.messages import Message, Request

RESOURCES_MAX = 1_000

AskController = Callable[[Request, type[Message], float], Awaitable[Message]]


class ConfigHandlers:
    """``controller`` gives the controller if it is on this broker."""

    def __init__(self, controller: Controller, ask_controller: AskController, loggers: BrokerLoggers) -> None:
        """``ask_controller`` has the controller answer a request, wherever it is."""
        self._controller = controller
        self._ask_controller = ask_controller
        self._loggers = loggers

    def alter(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, AlterConfigsRequest)
        check_count(request.resources, RESOURCES_MAX)
        if request.any_broker and self._controller() is None:
            return while_asked(self._pass_on(request, AlterConfigsResponse))
        controller = present(self._controller)

        async def replace(resource: ConfigReplacement, asked: Asked) -> None:
            _check_name(resource)
            await controller.replace_config(resource, asked, validate_only=request.validate_only)

        async def replace_all() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            return Reply(AlterConfigsResponse(await _results(request.resources, replace, asked)))

        return while_asked(replace_all())

    def incremental_alter(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, IncrementalAlterConfigsRequest)
        check_count(request.resources, RESOURCES_MAX)
        if any(resource.resource_type == BROKER_LOGGER_RESOURCE for resource in request.resources):
            return while_asked(self._alter_with_loggers(incoming, request))
        return self._alter(incoming, request)

    def _alter(self, incoming: IncomingRequest, request: IncrementalAlterConfigsRequest) -> asyncio.Future[Reply]:
        if request.any_broker and self._controller() is None:
            return while_asked(self._pass_on(request, IncrementalAlterConfigsResponse))
        controller = present(self._controller)

        async def alter(resource: ConfigAlteration, asked: Asked) -> None:
            _check_name(resource)
            await controller.alter_config(resource, asked, validate_only=request.validate_only)

        async def alter_all() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            return Reply(IncrementalAlterConfigsResponse(await _results(request.resources, alter, asked)))

        return while_asked(alter_all())

    async def _alter_with_loggers(self, incoming: IncomingRequest, request: IncrementalAlterConfigsRequest) -> Reply:
        """Change the levels of this broker's loggers here, and the other resources as always."""
        others = [one for one in request.resources if one.resource_type != BROKER_LOGGER_RESOURCE]
        elsewhere: Iterator[ConfigResult] = iter(())
        if others:
            reply = await self._alter(incoming, replace(request, resources=others))
            assert isinstance(reply.message, IncrementalAlterConfigsResponse)
            elsewhere = iter(reply.message.resources)
        loggers = [one for one in request.resources if one.resource_type == BROKER_LOGGER_RESOURCE]
        here = iter(self._loggers.altered(loggers, validate_only=request.validate_only))
        results = [
            next(here if one.resource_type == BROKER_LOGGER_RESOURCE else elsewhere) for one in request.resources
        ]
        return Reply(IncrementalAlterConfigsResponse(results))

    async def _pass_on(
        self, request: AlterConfigsRequest | IncrementalAlterConfigsRequest, kind: type[Message]
    ) -> Reply:
        """Kafka's clients send settings of a broker to that broker, and others to whoever is near."""
        there = replace(request, any_broker=False)  # whoever is no controller any more says so
        return Reply(await self._ask_controller(there, kind, timeout_s_of(request.timeout_ms)))


def _check_name(resource: ConfigReplacement | ConfigAlteration) -> None:
    if resource.resource_type == GROUP_RESOURCE:
        check_group_id(resource.name)


T = TypeVar("T", ConfigReplacement, ConfigAlteration)


async def _results(
    resources: Sequence[T], do: Callable[[T, Asked], Awaitable[None]], asked: Asked
) -> list[ConfigResult]:
    outcomes = await each(resources, lambda resource: (resource.resource_type, resource.name), do, asked)
    return [
        ConfigResult(done.error_code, done.error_message, resource.resource_type, resource.name)
        for resource, done in zip(resources, outcomes, strict=True)
    ]
