"""The controller's connection to one broker: orders go out one by one, and its end is the first sign of a failure."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.controller.decisions.pieces import in_pieces
from ottla.broker.controller.waiting_orders import WaitingOrders, settle
from ottla.broker.peers import PATIENT_PROBE_TIMEOUT_S, Identity, connect_as_broker, probe
from ottla.net.channel import Channel
from ottla.net.retry import backoff
from ottla.wire.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Order,
    StopReplicaRequest,
    WitnessRequest,
    WitnessResponse,
)
from ottla.wire.errors import (
    ClientTimeout,
    ClusterAuthorizationFailed,
    InvalidRequest,
    LocalProtocolError,
    OttlaError,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    UnsupportedVersion,
)
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import TopicPartition
from ottla.wire.requests import ApiVersionsRequest

logger = logging.getLogger(__name__)

ORDER_TIMEOUT_S = 30.0

FINAL = (StaleControllerEpoch, StaleBrokerEpoch, ClusterAuthorizationFailed, InvalidRequest, UnsupportedVersion)
"""Answers after which it is pointless to say the same again; after any other the order still stands."""
FIRST_RETRY_S, LAST_RETRY_S = 0.02, 0.5
PING_S = 0.25
PING_TIMEOUT_S = 1.0
WITNESS_TIMEOUT_S = 2 * PATIENT_PROBE_TIMEOUT_S
ENDED_S = 2.0
"""A broker whose connection has ended and that does not answer since then is suspected after this time, if not earlier."""
ASLEEP_S = 2.0
"""A pause between two probes that is longer than this was a pause of this process: it says nothing about the other broker."""


class Evidence(NamedTuple):
    """What a link has found out about an incarnation of a broker that does not answer."""

    broker: int
    epoch: int
    refused: bool
    """Nobody listens at its address: its process is gone."""
    reached: bool
    """Whether the link ever reached it."""
    suffices: bool
    """Whether it has not answered for long enough to be fenced, if others do not reach it either."""


class _CannotDelete(Exception):
    """The broker answered a patient deletion with an error."""


@dataclass(frozen=True)
class LinkEvents:
    """Whom a link calls. ``obeyed``: with a broker, its epoch, the request, and the partitions that it can neither lead nor
    follow. ``behind``: orders were dropped, and no more are taken until ``begin_anew``."""

    suspected: Callable[[Evidence], None]
    reached: Callable[[int], None]
    obeyed: Callable[[int, int, LeaderAndIsrRequest, list[TopicPartition]], None]
    behind: Callable[[int, int], None]


class Link:
    """A queue of orders to one incarnation of one broker. Owns two tasks until ``close``."""

    def __init__(
        self, identity: Identity, to: BrokerEndpoint, epoch: int, events: LinkEvents, silence_max_s: float
    ) -> None:
        """``silence_max_s``: how long a broker may give no answer before it is suspected."""
        self._identity = identity
        self._to = to
        self._epoch = epoch
        self._events = events
        self._silence_max_s = silence_max_s
        self._is_silent = False
        self._delivering = False
        self._may_wait = False
        self._behind = False
        self._orders = WaitingOrders()
        self._channel: Channel | None = None
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name=f"link to broker {to.id}")
        self._watch = loop.create_task(self._keep_connected(), name=f"watch broker {to.id}")
        self._connecting = asyncio.Lock()

    def tell(self, order: Order, *, is_patient: bool = False) -> asyncio.Future[bool]:
        """Queue an order; the future says whether the broker obeyed, once it is known.

        A patient deletion is sent when nothing else waits, with others of its kind.
        """
        obeyed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if not self._behind and self._orders.is_full:
            logger.warning(
                "a broker is behind, and is told everything anew broker=%d orders=%d", self._to.id, len(self._orders)
            )
            self._behind = True
            self._orders.forget()
            self._events.behind(self._to.id, self._epoch)
        # Invariant: an order that comes after one that was dropped is not sent; it would look as if all before it were known.
        if self._behind:
            obeyed.set_result(False)
        elif is_patient and isinstance(order, StopReplicaRequest):
            self._orders.put_deletion(order, obeyed)
        else:
            self._orders.put(order, obeyed)
        return obeyed

    def begin_anew(self) -> None:
        """What is told from here on does not rely on what was dropped."""
        self._behind = False

    async def asks_whether_connected(self, about: int) -> bool | None:
        """Whether this broker still hears of another one; None if it cannot be asked now."""
        if self._channel is None or not self._channel.usable or self._is_silent:
            return None
        try:
            answer = await self._channel.ask(WitnessRequest(about), WitnessResponse, WITNESS_TIMEOUT_S)
        except OttlaError:
            return None
        return answer.reachable

    async def close(self) -> None:
        """The broker is gone, or we are no longer the controller: forget what was not said."""
        self._task.cancel()
        self._watch.cancel()
        await asyncio.gather(self._task, self._watch, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
        self._orders.forget()

    async def _run(self) -> None:
        while True:
            order, waiting, deletions = await self._orders.get()
            self._delivering, self._may_wait = True, bool(deletions)
            try:
                obeyed = await self._deliver_all(order)
                for each in waiting:
                    settle(each, obeyed)
            except _CannotDelete as error:
                # A log on a broken disk stays, and so does its topic; but leaders change, and other topics come and go.
                logger.warning("a deletion waits for all other orders %s error=%s", self._named(order), error)
                self._orders.put_back(deletions)
                waiting = []
            except Exception:  # a link that ended by itself would leave the broker without orders for ever
                logger.exception("an order was dropped %s", self._named(order))
            finally:
                self._delivering = False
                for each in waiting:
                    settle(each, False)

    async def _deliver_all(self, order: Order) -> bool:
        """Obeyed if every piece of it was."""
        for piece in in_pieces(order):
            if not await self._deliver(piece):
                return False
        return True

    async def _deliver(self, order: Order) -> bool:
        """Say it until it is heard; an answer that is an error is an answer."""
        for wait_s in backoff(FIRST_RETRY_S, LAST_RETRY_S):
            try:
                channel = await self._connected()
            except OttlaError as error:
                logger.info("a broker cannot be reached broker=%d error=%s", self._to.id, error)
                await asyncio.sleep(wait_s)
                continue
            try:
                answer = (await channel.request(order, ORDER_TIMEOUT_S)).message
                if isinstance(answer, LeaderAndIsrResponse) and isinstance(order, LeaderAndIsrRequest):
                    failed = [TopicPartition(name.topic, name.partition) for name in answer.failed]
                    self._events.obeyed(self._to.id, self._epoch, order, failed)
                return True
            except LocalProtocolError as error:
                # It will not become shorter, and those behind it must be told all the same.
                logger.error("an order cannot be sent %s error=%s", self._named(order), error)
                return False
            except OttlaError as error:
                if isinstance(error, FINAL):
                    logger.warning("an order was refused %s error=%s", self._named(order), error)
                    return False
                logger.info("an order was not heard %s error=%s", self._named(order), error)
                if isinstance(error, ClientTimeout) or not channel.usable:
                    await channel.close()
                elif self._may_wait:
                    raise _CannotDelete(str(error)) from error
            await asyncio.sleep(wait_s)
        return False

    def _named(self, order: Order) -> str:
        return f"broker={self._to.id} api={order.api.name} cause={order.cause}"

    async def _connected(self) -> Channel:
        async with self._connecting:
            if self._channel is None or not self._channel.usable:
                self._channel = await connect_as_broker(self._identity, self._to)
                self._events.reached(self._to.id)
            return self._channel

    # --- is it alive? ----------------------------------------------------------------------------------------------------

    async def _keep_connected(self) -> None:
        """Hold the connection; when it ends or nothing is answered any more, find out at once whether the broker lives."""
        waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while True:
            silent = False
            try:
                channel = await self._connected()
                waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
                while channel.usable and not silent:
                    silent = await self._finds_silence(channel)
            except OttlaError:
                pass
            await self._probe_until_answered(self._silence_max_s if silent else min(ENDED_S, self._silence_max_s))
            if silent and channel.usable and not self._delivering:
                await (
                    channel.close()
                )  # what was sent before the silence may be lost; an order in flight may merely be slow
            await asyncio.sleep(next(waits))

    async def _finds_silence(self, channel: Channel) -> bool:
        """Ping the broker, and return whether it did not answer in time."""
        await channel.closed_within(PING_S)
        if not channel.usable:
            return False
        try:
            await channel.request(ApiVersionsRequest(software="controller"), PING_TIMEOUT_S)
        except ClientTimeout:
            return True
        return False

    async def _probe_until_answered(self, suffices_after_s: float) -> None:
        """Probe the broker over new connections until it answers one, and report as long as it does not.

        A ping that is not answered says little: it waits behind orders. A broker that answers no probe is paused, or packets
        to it or from it are lost.
        """
        began_at = probed_at = time.monotonic()
        for wait_s in backoff(FIRST_RETRY_S, LAST_RETRY_S):
            found = await probe(self._to, self._identity, PATIENT_PROBE_TIMEOUT_S)
            now = time.monotonic()
            if found.answered and found.epoch <= self._epoch:
                self._is_silent = False
                return
            if now - probed_at > ASLEEP_S:
                began_at = now
            probed_at = now
            suffices = found.refused or found.answered or now - began_at >= suffices_after_s
            if suffices and not self._is_silent and not found.refused:
                logger.info("a broker is silent broker=%d silent_s=%.1f", self._to.id, now - began_at)
            self._is_silent = suffices
            self._events.suspected(
                Evidence(self._to.id, self._epoch, found.refused, self._channel is not None, suffices)
            )
            await asyncio.sleep(wait_s)
