"""The controller's connection to one broker: orders go out one by one, each until it is obeyed or pointless."""

import asyncio
import logging

from ottla.broker.peers import Identity, connect_as_broker
from ottla.net.channel import Channel
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClusterAuthorizationFailed,
    InvalidRequest,
    OttlaError,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    UnsupportedVersion,
)
from ottla.wire.requests import BrokerEndpoint, ControlRequest

logger = logging.getLogger(__name__)

ORDER_TIMEOUT_S = 30.0

FINAL = (StaleControllerEpoch, StaleBrokerEpoch, ClusterAuthorizationFailed, InvalidRequest, UnsupportedVersion)
"""Answers after which it is pointless to say the same again; after any other the order still stands."""
FIRST_RETRY_S, LAST_RETRY_S = 0.02, 0.5


class Link:
    """A queue of orders to one life of one broker."""

    def __init__(self, identity: Identity, to: BrokerEndpoint) -> None:
        self._identity = identity
        self._to = to
        self._orders: asyncio.Queue[tuple[ControlRequest, asyncio.Future[bool]]] = asyncio.Queue()
        self._channel: Channel | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"link to broker {to.id}")

    def tell(self, order: ControlRequest) -> asyncio.Future[bool]:
        """Queue an order; the future says whether the broker obeyed, once it is known."""
        obeyed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._orders.put_nowait((order, obeyed))
        return obeyed

    async def close(self) -> None:
        """The broker is gone, or we are no longer the controller: forget what was not said."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
        while not self._orders.empty():
            _settle(self._orders.get_nowait()[1], False)

    async def _run(self) -> None:
        while True:
            order, obeyed = await self._orders.get()
            try:
                _settle(obeyed, await self._deliver(order))
            finally:
                _settle(obeyed, False)

    async def _deliver(self, order: ControlRequest) -> bool:
        """Say it until it is heard; an answer that is an error is an answer."""
        for wait_s in backoff(FIRST_RETRY_S, LAST_RETRY_S):
            try:
                if self._channel is None or not self._channel.usable:
                    self._channel = await connect_as_broker(self._identity, self._to)
            except OttlaError as error:
                logger.info("a broker cannot be reached broker=%d error=%s", self._to.id, error)
                await asyncio.sleep(wait_s)
                continue
            try:
                await self._channel.request(order, ORDER_TIMEOUT_S)
                return True
            except OttlaError as error:
                if isinstance(error, FINAL):
                    logger.warning("an order was refused broker=%d api=%s error=%s", self._to.id, order.api.name, error)
                    return False
                logger.info("an order was not heard broker=%d api=%s error=%s", self._to.id, order.api.name, error)
                if not self._channel.usable:
                    await self._channel.close()
            await asyncio.sleep(wait_s)
        return False


def _settle(obeyed: asyncio.Future[bool], how: bool) -> None:
    if not obeyed.done():
        obeyed.set_result(how)
