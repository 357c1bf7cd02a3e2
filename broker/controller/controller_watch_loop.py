"""Whether this broker reaches the controller: pings it, and says when it has not answered for too long."""

import asyncio
import time
from collections.abc import Callable

from ottla.broker.peers import PATIENT_PROBE_TIMEOUT_S, Identity, probe
from ottla.net.channel import Channel, connect
from ottla.net.retry import backoff
from ottla.wire.errors import OttlaError
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.requests import ApiVersionsRequest

PING_S = 0.5
PING_TIMEOUT_S = 1.0
ASLEEP_S = 2.0
"""A pause between two probes that is longer than this was a pause of this process: it says nothing about the controller."""
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 0.5


class ControllerWatch:
    """Pings the broker that is the controller. Owns a task until ``close``.

    A controller that is paused, or to or from which packets are lost, keeps its ZooKeeper session for a while, or for good:
    no connection of its own ends that other brokers could notice.
    """

    def __init__(
        self, identity: Identity, controller: BrokerEndpoint, on_silent: Callable[[], None], silence_max_s: float
    ) -> None:
        """``on_silent`` is called again and again while the controller has not answered for ``silence_max_s``."""
        self._identity = identity
        self._controller = controller
        self._on_silent = on_silent
        self._silence_max_s = silence_max_s
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"watch controller {controller.id}")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._ping_until_silent()
            await self._probe_until_answered()

    async def _ping_until_silent(self) -> None:
        where, channel = self._controller, None
        try:
            client_id = f"probe-of-broker-{self._identity.broker_id}"
            channel = await connect(where.host, where.port, client_id=client_id, timeout_s=PING_TIMEOUT_S)
            while await self._answers(channel):
                await channel.closed_within(PING_S)
        except OttlaError:
            pass  # refused or silent: the probes tell
        finally:
            if channel is not None:
                channel.abort()

    async def _answers(self, channel: Channel) -> bool:
        if not channel.usable or channel.peer is None or channel.peer.broker_id != self._controller.id:
            return False
        await channel.request(ApiVersionsRequest(software="probe"), PING_TIMEOUT_S)
        return True

    async def _probe_until_answered(self) -> None:
        began_at = probed_at = time.monotonic()
        for wait_s in backoff(FIRST_RETRY_S, LAST_RETRY_S):
            await asyncio.sleep(wait_s)  # also where the controller lives and takes no more connections
            found = await probe(self._controller, self._identity, PATIENT_PROBE_TIMEOUT_S)
            now = time.monotonic()
            if found.answered:
                return
            if now - probed_at > ASLEEP_S:
                began_at = now
            probed_at = now
            if now - began_at >= self._silence_max_s:
                self._on_silent()
