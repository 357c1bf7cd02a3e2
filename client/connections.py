"""A client's connections to brokers, and which addresses could not be asked of late."""

import asyncio
import time
from collections.abc import Iterable

from ottla.client.config import ClientConfig
from ottla.client.connect_loop import connect_unhurried
from ottla.net.busy_poll import stay_awake
from ottla.net.channel import Channel
from ottla.wire.errors import ClientClosed, OttlaError

MAIN_LANE, FETCH_LANE, CONTROL_LANE, JOIN_LANE, HEARTBEAT_LANE, COMMIT_LANE = range(6)
"""Answers come in the order of the requests, so a fetch that waits for records, a change that waits for all brokers, a join
that waits for others or a heartbeat that waits for news would hold up all behind it: each kind has its own connection."""

Address = tuple[str, int]


class Connections:
    """One for each address and lane, made when somebody wants it."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._channels: dict[tuple[str, int, int], Channel] = {}
        self._connecting: dict[tuple[str, int, int], asyncio.Lock] = {}
        self._failed_at: dict[Address, float] = {}
        self.tried: dict[str, str] = {}
        """The addresses that could not be asked, and why."""
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # once there was anything to connect

    async def to(self, host: str, port: int, lane: int = MAIN_LANE) -> Channel:
        if self.closed:
            raise ClientClosed
        address = (host, port, lane)
        channel = self._channels.get(address)
        if channel is not None and channel.usable:
            return channel
        async with self._connecting.setdefault(address, asyncio.Lock()):
            channel = self._channels.get(address)
            if channel is None or not channel.usable:
                channel = self._channels[address] = await self._connect(host, port)
            return channel

    def standing(self, host: str, port: int) -> Channel | None:
        """The main connection to an address if it stands."""
        channel = self._channels.get((host, port, MAIN_LANE))
        return channel if channel is not None and channel.usable else None

    async def _connect(self, host: str, port: int) -> Channel:
        self._loop = asyncio.get_running_loop()
        timeout_s = self._config.connect_timeout_ms / 1000
        stay_awake(self._config.busy_poll_us)
        try:
            channel = await connect_unhurried(host, port, client_id=self._config.client_id, timeout_s=timeout_s)
        except OttlaError as error:
            self.failed((host, port), error)
            raise
        self.tried.pop(f"{host}:{port}", None)
        if self.closed:  # meanwhile
            await channel.close()
            raise ClientClosed
        return channel

    # --- who is likely to answer -------------------------------------------------------------------------------------

    def failed(self, address: Address, error: OttlaError) -> None:
        self._failed_at[address] = time.monotonic()
        self.tried["{}:{}".format(*address)] = str(error)

    def answered(self, address: Address) -> None:
        self._failed_at.pop(address, None)
        self.tried.pop("{}:{}".format(*address), None)

    def suspect(self, address: str) -> None:
        """A broker does not answer: ask the others first."""
        host, _, port = address.rpartition(":")
        self._failed_at[(host, int(port))] = time.monotonic()

    def likely_first(self, addresses: Iterable[Address]) -> list[Address]:
        """In this order: who did not fail, or longest ago, and of those whom we are connected to."""

        def unlikely(address: Address) -> tuple[float, bool]:
            return self._failed_at.get(address, 0.0), self.standing(*address) is None

        return sorted(dict.fromkeys(addresses), key=unlikely)

    async def close(self) -> None:
        self.closed = True
        channels, self._channels = self._channels, {}
        await asyncio.gather(*(channel.close() for channel in channels.values()))

    def abort(self) -> None:
        """As ``close``, at once and without waiting for anything."""
        self.closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.abort()

    def abandon(self) -> None:
        """As ``abort``, soon and from any thread: nobody has the client any more."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self.abort)
            except RuntimeError:
                pass  # the event loop is closed, and with it all connections
