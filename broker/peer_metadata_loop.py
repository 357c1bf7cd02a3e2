"""Metadata from other brokers, while this one is cut off from ZooKeeper and its controller tells it nothing.

What was led here is led by others soon, and clients that ask here must hear of it (docs/decisions/0051).
"""

import asyncio
import logging
import random
import time
from typing import Protocol

from ottla.broker.cluster_view import ClusterView
from ottla.broker.peers import Identity, connect_as_broker
from ottla.broker.replication.partitions import Partitions
from ottla.net.channel import Channel
from ottla.wire.control import PeerMetadataRequest, PeerMetadataResponse, UpdateMetadataRequest
from ottla.wire.errors import BrokerNotAvailable, OttlaError

logger = logging.getLogger(__name__)

ASK_S = 0.1
"""How often others are asked. Clients wait for so long, at most, after the next leader is known to others."""

ASKED_AT_ONCE = 3
"""One that does not answer must not keep the others from being asked."""

TIMEOUT_S = 1.0
HEARD_S = 1.0
"""For so long what a broker said that is not cut off is as good as the controller's word."""


class Member(Protocol):
    """This broker as a member of the cluster, as far as this loop needs it."""

    identity: Identity

    @property
    def is_cut_off(self) -> bool: ...


class PeerMetadataLoop:
    """Owns a task from ``start`` to ``stop``, and one for each broker that is asked."""

    def __init__(self, member: Member, view: ClusterView, partitions: Partitions) -> None:
        self._member = member
        self._view = view
        self._partitions = partitions
        self._channels: dict[int, Channel] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._heard_at = float("-inf")
        """When a broker that is not cut off last answered, by the monotonic clock."""
        self._any_heard_at = float("-inf")
        """When any other broker last answered, or this one began to be cut off."""
        self._was_cut_off = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_isolated(self) -> bool:
        """Whether this broker reaches neither ZooKeeper nor any other broker: others may lead, and it cannot learn of it."""
        is_silent = self._was_cut_off and time.monotonic() - self._any_heard_at > HEARD_S
        return is_silent and self._member.is_cut_off and bool(self._view.brokers.keys() - {self._id})

    @property
    def _id(self) -> int:
        return self._member.identity.broker_id

    @property
    def in_doubt(self) -> bool:
        """Whether brokers that are not cut off may know more than this one, and it cannot ask them."""
        return self._member.is_cut_off and time.monotonic() - self._heard_at > HEARD_S

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="metadata from peers")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._hang_up()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ASK_S)
            try:
                await self._look()
            except Exception:
                logger.exception("asking other brokers for metadata failed")

    async def _look(self) -> None:
        was_cut_off, self._was_cut_off = self._was_cut_off, self._member.is_cut_off
        if self._was_cut_off:
            if not was_cut_off:
                self._any_heard_at = time.monotonic()
            self._ask_some()
        elif was_cut_off:
            await self._hang_up()

    def _ask_some(self) -> None:
        others = [broker for broker in self._view.brokers if broker != self._id and broker not in self._asking]
        for broker in random.sample(others, min(len(others), max(0, ASKED_AT_ONCE - len(self._asking)))):
            task = asyncio.get_running_loop().create_task(self._ask(broker), name=f"metadata from broker {broker}")
            self._asking[broker] = task
            task.add_done_callback(lambda _, broker=broker: self._asking.pop(broker, None))  # type: ignore[misc]

    async def _ask(self, broker: int) -> None:
        try:
            pieces = await self._newer_metadata(broker)
            if pieces and self._member.is_cut_off and self._view.take_from_peer(pieces):
                replaced = self._partitions.step_down_where_replaced(self._view)
                logger.info(
                    "metadata taken from a peer, for ZooKeeper cannot be reached peer=%d version=%s replaced_in=%s",
                    broker, self._view.version, replaced,
                )  # fmt: skip
        except OttlaError as error:
            logger.debug("a peer was not asked for metadata peer=%d error=%s", broker, error)
        except Exception:
            logger.exception("metadata of a peer was not taken peer=%d", broker)

    async def _newer_metadata(self, broker: int) -> list[UpdateMetadataRequest]:
        channel = await self._channel(broker)
        pieces: list[UpdateMetadataRequest] = []
        known = self._view.version
        while True:
            request = PeerMetadataRequest(known, len(pieces))
            answer = await channel.ask(request, PeerMetadataResponse, TIMEOUT_S)
            self._any_heard_at = time.monotonic()
            if answer.has_zookeeper:
                self._heard_at = time.monotonic()
            if answer.update is None:
                return []
            if pieces and _version(answer.update) != _version(pieces[0]):
                return []  # it has changed meanwhile: next time
            pieces.append(answer.update)
            if not answer.update.more:
                return pieces

    async def _channel(self, broker: int) -> Channel:
        channel = self._channels.get(broker)
        if channel is None or not channel.usable:
            endpoint = self._view.endpoint(broker)
            if endpoint is None:
                raise BrokerNotAvailable(f"broker {broker} is not among those that are known")
            channel = self._channels[broker] = await connect_as_broker(self._member.identity, endpoint, TIMEOUT_S)
        return channel

    async def _hang_up(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        channels, self._channels = self._channels, {}
        await asyncio.gather(*(channel.close() for channel in channels.values()), return_exceptions=True)


def _version(update: UpdateMetadataRequest) -> tuple[int, int]:
    return update.controller_epoch, update.version
