"""Who leads, and where: ControlledShutdown, ElectLeaders and the reassignment of partitions. For the controller to do."""

import asyncio

from ottla.broker.api.controller.each import Controller, asked_by, check_count, each, present
from ottla.broker.api.later import while_asked
from ottla.broker.controller.api import Asked
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    Reassignment,
)
from ottla.wire.control import ControlledShutdownRequest, ControlledShutdownResponse, UnreachableLeadersRequest
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, InvalidRequest
from ottla.wire.messages import Done, PartitionName
from ottla.wire.names import TopicPartition

SHUTDOWN_TIMEOUT_S = 5.0


class LeadershipHandlers:
    """``controller`` gives the controller if it is on this broker."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def shutdown(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ControlledShutdownRequest)
        controller = present(self._controller)
        asked = Asked("itself", SHUTDOWN_TIMEOUT_S)

        async def relieve() -> Reply:
            if request.damaged:
                damaged = [TopicPartition(name.topic, name.partition) for name in request.damaged]
                await controller.replicas_damaged(request.broker_id, request.broker_epoch, damaged, asked)
                return Reply(ControlledShutdownResponse([]))
            if request.failed is not None:
                failed = [TopicPartition(name.topic, name.partition) for name in request.failed]
                await controller.replicas_failed(request.broker_id, request.broker_epoch, failed, asked)
                return Reply(ControlledShutdownResponse([]))
            left = await controller.controlled_shutdown(request.broker_id, request.broker_epoch, asked)
            return Reply(ControlledShutdownResponse([PartitionName(*where) for where in left]))

        return while_asked(relieve())

    def unreachable(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, UnreachableLeadersRequest)
        check_count(request.leaders)
        controller = present(self._controller)

        async def note() -> Reply:
            asked = Asked("a follower", SHUTDOWN_TIMEOUT_S)
            await controller.leaders_unreachable(request.broker_id, request.broker_epoch, request.leaders, asked)
            return Reply(Done())

        return while_asked(note())

    def elect(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ElectLeadersRequest)
        if request.election_type not in ElectionType._value2member_map_:
            raise InvalidRequest(f"election type {request.election_type} is not known")
        controller = present(self._controller)
        wanted = _named(request.partitions)

        async def elect() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            results = await controller.elect_leaders(ElectionType(request.election_type), wanted, asked)
            return Reply(
                ElectLeadersResponse(
                    [
                        PartitionResult(error.code, str(error), *where)
                        if error is not None
                        else PartitionResult(NO_ERROR, "", *where)
                        for where, error in results.items()
                    ]
                )
            )

        return while_asked(elect())

    def reassign(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, AlterPartitionReassignmentsRequest)
        check_count(request.partitions)
        controller = present(self._controller)

        async def reassign(move: Reassignment, asked: Asked) -> None:
            await controller.reassign(TopicPartition(move.topic, move.partition), move.replicas, asked)

        async def reassign_all() -> Reply:
            asked = asked_by(incoming, request.timeout_ms)
            moves = request.partitions
            outcomes = await each(moves, lambda move: TopicPartition(move.topic, move.partition), reassign, asked)
            return Reply(
                AlterPartitionReassignmentsResponse(
                    [
                        PartitionResult(done.error_code, done.error_message, move.topic, move.partition)
                        for move, done in zip(moves, outcomes, strict=True)
                    ]
                )
            )

        return while_asked(reassign_all())

    def reassignments(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, ListPartitionReassignmentsRequest)
        wanted = _named(request.partitions)
        moving = present(self._controller).reassignments(wanted)
        return Reply(ListPartitionReassignmentsResponse(moving))


def _named(partitions: list[PartitionName] | None) -> list[TopicPartition] | None:
    if partitions is None:
        return None
    check_count(partitions)
    return [TopicPartition(name.topic, name.partition) for name in partitions]
