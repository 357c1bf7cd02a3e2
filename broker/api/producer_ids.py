"""InitProducerId: numbers for idempotent producers, taken from ZooKeeper a thousand at a time."""

import asyncio
from collections.abc import Iterator

from ottla.broker.api.later import later
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import BrokerNotAvailable, OttlaError
from ottla.wire.requests import InitProducerIdResponse
from ottla.zk.metadata import next_producer_id_block
from ottla.zk.session.session import ZkSession


class InitProducerIdHandler:
    """No number is ever given twice: a block belongs to one life of one broker, and what it does not use is lost."""

    def __init__(self, session: ZkSession, broker_id: int) -> None:
        self._session = session
        self._broker_id = broker_id
        self._block: Iterator[int] = iter(())
        self._taking = asyncio.Lock()

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | asyncio.Future[Reply]:
        producer_id = next(self._block, None)
        return _reply(producer_id) if producer_id is not None else later(self._from_new_block())

    async def _from_new_block(self) -> Reply:
        return _reply(await self.take())

    async def take(self) -> int:
        """A number that nobody else gets."""
        async with self._taking:
            producer_id = next(self._block, None)
            if producer_id is None:
                try:
                    self._block = iter(await next_producer_id_block(self._session, self._broker_id))
                except OttlaError as error:
                    raise BrokerNotAvailable(f"no producer id at the moment: {error}") from None
                producer_id = next(self._block)
        return producer_id


def _reply(producer_id: int) -> Reply:
    return Reply(InitProducerIdResponse(producer_id, 0))
