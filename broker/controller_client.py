"""What a broker asks of the controller, wherever that is: to let others lead, for it shuts down or its disk failed; and to
create a topic that a client wants."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from ottla.broker.cluster_view import ClusterView
from ottla.broker.controller.api import Asked, ControllerApi
from ottla.broker.peers import Identity, connect_as_broker
from ottla.wire.admin import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from ottla.wire.control import ControlledShutdownRequest, ControlledShutdownResponse, UnreachableLeadersRequest
from ottla.wire.errors import ClientTimeout, NotController, OttlaError, RequestTimedOut
from ottla.wire.messages import Done, Message, PartitionName, Request
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 5.0
ASK_TIMEOUT_S = 1.5
"""How long one try to be relieved may take: a controller that is asleep will not be woken by waiting."""
RETRY_S = 0.1


class Member(Protocol):
    """This broker as a member of the cluster, as far as leaving needs it."""

    identity: Identity

    @property
    def controller(self) -> ControllerApi | None: ...


async def controlled_shutdown(member: Member, view: ClusterView, retries: int) -> None:
    """Have leadership moved away before this broker stops; if that cannot be done in a few tries, stop all the same."""
    if len(view.brokers) < 2:
        return
    for _ in range(1 + retries):
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                left = await _shut_down(member, view)
            logger.info("broker is relieved broker=%d still_led=%d", member.identity.broker_id, len(left))
            return
        except (OttlaError, TimeoutError) as error:
            logger.info("broker is not relieved broker=%d error=%r", member.identity.broker_id, error)
            await asyncio.sleep(RETRY_S)


async def report_failed_replicas(member: Member, view: ClusterView, failed: list[TopicPartition]) -> None:
    """Tell the controller that the disk failed under partitions that this broker leads."""
    controller = member.controller
    if controller is not None:
        me = member.identity
        await controller.replicas_failed(me.broker_id, me.broker_epoch, failed, _by_itself())
    else:
        await _send_to_controller(member, view, _names(failed))


async def report_damaged_replicas(member: Member, view: ClusterView, damaged: list[TopicPartition]) -> None:
    """Tell the controller that the logs of partitions here have a damaged batch."""
    controller = member.controller
    if controller is not None:
        me = member.identity
        await controller.replicas_damaged(me.broker_id, me.broker_epoch, damaged, _by_itself())
    else:
        await _send_to_controller(member, view, [], _names(damaged))


async def report_unreachable_leaders(member: Member, view: ClusterView, leaders: list[int]) -> None:
    """Tell the controller which leaders this broker cannot fetch from, if it is not one of them."""
    me, controller = member.identity, member.controller
    if controller is not None:
        await controller.leaders_unreachable(me.broker_id, me.broker_epoch, leaders, _by_itself())
        return
    endpoint = view.endpoint(view.controller)
    leaders = [leader for leader in leaders if leader != view.controller]
    if endpoint is None or not leaders:
        return
    channel = await connect_as_broker(me, endpoint, ASK_TIMEOUT_S)
    try:
        request = UnreachableLeadersRequest(me.broker_id, me.broker_epoch, leaders)
        await channel.ask(request, Done, SHUTDOWN_TIMEOUT_S + 1)
    finally:
        await channel.close()


async def _shut_down(member: Member, view: ClusterView) -> list[TopicPartition]:
    """Be relieved of all partitions; gives those that are still led."""
    controller = member.controller
    if controller is not None:
        me = member.identity
        return await controller.controlled_shutdown(me.broker_id, me.broker_epoch, _by_itself())
    return await _send_to_controller(member, view, None)


async def _send_to_controller(
    member: Member, view: ClusterView, failed: list[PartitionName] | None, damaged: Sequence[PartitionName] = ()
) -> list[TopicPartition]:
    endpoint = view.endpoint(view.controller)
    if endpoint is None:
        raise NotController("no controller is known")
    me = member.identity
    channel = await connect_as_broker(me, endpoint)
    try:
        request = ControlledShutdownRequest(me.broker_id, me.broker_epoch, failed, list(damaged) or None)
        answer = await channel.ask(request, ControlledShutdownResponse, SHUTDOWN_TIMEOUT_S + 1)
        return [TopicPartition(name.topic, name.partition) for name in answer.still_led]
    finally:
        await channel.close()


def _by_itself() -> Asked:
    return Asked("itself", SHUTDOWN_TIMEOUT_S)


def _names(partitions: Sequence[TopicPartition]) -> list[PartitionName]:
    return [PartitionName(*where) for where in partitions]


async def ask_controller(
    member: Member, view: ClusterView, request: Request, kind: type[Message], timeout_s: float
) -> Message:
    """Have the controller, on another broker, answer what a client asked here.

    Raises what the client can make sense of: that this broker does not reach another one is none of its errors.
    """
    endpoint = view.endpoint(view.controller)
    if endpoint is None or view.controller == member.identity.broker_id:
        raise NotController("no controller is known")
    who = f"the controller, broker {endpoint.id},"
    try:
        channel = await connect_as_broker(member.identity, endpoint)
    except OttlaError as error:
        raise NotController(f"{who} cannot be reached: {error}") from None
    try:
        return await channel.ask(request, kind, timeout_s + 1)
    except ClientTimeout as error:
        raise RequestTimedOut(f"{who} does not answer: {error}") from None
    finally:
        await channel.close()


async def create_topic(member: Member, view: ClusterView, topic: NewTopic, timeout_s: float) -> None:
    """Have a topic created; who asks here waits until this broker knows of it."""
    controller = member.controller
    if controller is not None:
        await controller.create_topic(topic, Asked("a client's request for its metadata", timeout_s))
        return
    endpoint = view.endpoint(view.controller)
    if endpoint is None:
        raise NotController("no controller is known")
    channel = await connect_as_broker(member.identity, endpoint)
    try:
        request = CreateTopicsRequest([topic], int(timeout_s * 1000))
        answer = await channel.ask(request, CreateTopicsResponse, timeout_s + 1)
        answer.topics[0].raise_if_failed(topic=topic.name)
    finally:
        await channel.close()
