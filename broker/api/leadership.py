"""Moving leadership on request: a broker that leaves is relieved first, preferred leaders get back what is theirs."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ottla.broker.api.later import while_asked
from ottla.broker.cluster_view import ClusterView
from ottla.broker.peers import Identity, connect_as_broker
from ottla.net.connection import Connection
from ottla.net.reply import Reply
from ottla.wire.control import ControlledShutdownRequest, ControlledShutdownResponse, ElectLeadersRequest, PartitionName
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NotController, OttlaError
from ottla.wire.messages import Done
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 5.0
ASK_TIMEOUT_S = 1.5
"""How long one try to be relieved may take: a controller that is asleep will not be woken by waiting."""
RETRY_S = 0.1
TIMEOUT_MAX_S = 120.0


class LeadershipAuthority(Protocol):
    """The controller, as far as this file needs it."""

    async def relieve(self, broker_id: int, broker_epoch: int, *, timeout_s: float) -> list[TopicPartition]: ...
    async def replace(
        self, broker_id: int, broker_epoch: int, partitions: list[TopicPartition], *, timeout_s: float
    ) -> None: ...
    async def elect_preferred(self, partitions: list[TopicPartition] | None, *, timeout_s: float) -> None: ...
    async def elect_unclean(self, partitions: list[TopicPartition] | None, *, timeout_s: float) -> None: ...


class Member(Protocol):
    """This broker as a member of the cluster, as far as leaving needs it."""

    identity: Identity

    @property
    def controller(self) -> LeadershipAuthority | None: ...


class LeadershipHandlers:
    """``authority`` gives the controller if it is on this broker."""

    def __init__(self, authority: Callable[[], LeadershipAuthority | None]) -> None:
        self._authority = authority

    def shutdown(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ControlledShutdownRequest)
        controller = self._controller()

        async def relieve() -> Reply:
            if request.failed is not None:
                failed = [TopicPartition(name.topic, name.partition) for name in request.failed]
                await controller.replace(request.broker_id, request.broker_epoch, failed, timeout_s=SHUTDOWN_TIMEOUT_S)
                return Reply(ControlledShutdownResponse([]))
            left = await controller.relieve(request.broker_id, request.broker_epoch, timeout_s=SHUTDOWN_TIMEOUT_S)
            return Reply(ControlledShutdownResponse([PartitionName(*where) for where in left]))

        return while_asked(relieve())

    def elect(self, incoming: IncomingRequest, connection: Connection) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, ElectLeadersRequest)
        controller = self._controller()
        named = request.partitions
        wanted = [TopicPartition(name.topic, name.partition) for name in named] if named is not None else None

        async def elect() -> Reply:
            how = controller.elect_unclean if request.unclean else controller.elect_preferred
            await how(wanted, timeout_s=min(max(request.timeout_ms, 1) / 1000, TIMEOUT_MAX_S))
            return Reply(Done())

        return while_asked(elect())

    def _controller(self) -> LeadershipAuthority:
        controller = self._authority()
        if controller is None:
            raise NotController
        return controller


async def leave_in_order(member: Member, view: ClusterView, retries: int) -> None:
    """Have leadership moved away before this broker stops; if that cannot be done in a few tries, stop all the same."""
    if len(view.brokers) < 2:
        return
    for _ in range(1 + retries):
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                left = await _ask_to_be_relieved(member, view)
            logger.info("broker is relieved broker=%d still_led=%d", member.identity.broker_id, len(left))
            return
        except (OttlaError, TimeoutError) as error:
            logger.info("broker is not relieved broker=%d error=%r", member.identity.broker_id, error)
            await asyncio.sleep(RETRY_S)


async def ask_for_replacement(member: Member, view: ClusterView, failed: list[TopicPartition]) -> None:
    """Tell the controller that the disk failed under partitions that this broker leads."""
    await _ask_to_be_relieved(member, view, failed)


async def _ask_to_be_relieved(
    member: Member, view: ClusterView, failed: list[TopicPartition] | None = None
) -> list[TopicPartition]:
    """Of all partitions, or only of those that failed; gives those that are still led."""
    me, controller = member.identity, member.controller
    if controller is not None:
        if failed is None:
            return await controller.relieve(me.broker_id, me.broker_epoch, timeout_s=SHUTDOWN_TIMEOUT_S)
        await controller.replace(me.broker_id, me.broker_epoch, failed, timeout_s=SHUTDOWN_TIMEOUT_S)
        return []
    endpoint = view.endpoint(view.controller)
    if endpoint is None:
        raise NotController("no controller is known")
    channel = await connect_as_broker(me, endpoint)
    try:
        names = [PartitionName(*where) for where in failed] if failed is not None else None
        request = ControlledShutdownRequest(me.broker_id, me.broker_epoch, names)
        answer = await channel.ask(request, ControlledShutdownResponse, SHUTDOWN_TIMEOUT_S + 1)
        return [TopicPartition(name.topic, name.partition) for name in answer.still_led]
    finally:
        await channel.close()
