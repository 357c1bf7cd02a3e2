"""Knocking at a broker's door: who is dead is found dead, also while the kernel still takes the process away."""

import asyncio

from ottla.broker.peers import KNOCKS, Identity, Probe, probe
from ottla.wire.messages import BrokerEndpoint

ME = Identity(1, 1, "c", "secret")


class Door:
    """Lets everybody in and throws them out at once; after ``closes_after`` of them nobody listens any more."""

    def __init__(self, closes_after: int) -> None:
        self._left = closes_after
        self.knocks = 0

    async def open(self) -> BrokerEndpoint:
        self._server = await asyncio.start_server(self._knocked, "127.0.0.1", 0)
        return BrokerEndpoint(2, "127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _knocked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks += 1
        if self.knocks == self._left:
            self._server.close()
        writer.transport.abort()

    def close(self) -> None:
        self._server.close()


async def test_process_that_is_being_taken_away_is_found_dead() -> None:
    door = Door(closes_after=1)
    assert await probe(await door.open(), ME) == Probe(refused=True)


async def test_broker_that_lets_nobody_in_is_not_dead_and_not_knocked_at_for_ever() -> None:
    door = Door(closes_after=100)
    assert await probe(await door.open(), ME) == Probe(refused=False)
    assert door.knocks == KNOCKS
    door.close()
