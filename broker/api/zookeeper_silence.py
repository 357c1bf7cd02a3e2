"""Answers that wait for ZooKeeper: if it is silent, whoever asked hears that, and not only that time is over."""

import asyncio
import time
from collections.abc import Callable

from ottla.broker.api.later import while_asked
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import CoordinatorNotAvailable
from ottla.zk.session.session import ZkSession

SILENCE_S = 3.0
"""How long it may say nothing; less than clients wait for an answer."""

SlowHandler = Callable[[IncomingRequest, Peer], asyncio.Future[Reply]]


class UnlessZooKeeperIsSilent:
    """Of a handler that waits for nothing but ZooKeeper it makes one that gives up with CoordinatorNotAvailable.

    Not because it takes long (a request may name a thousand groups), but because nothing at all was answered.
    """

    def __init__(self, session: ZkSession) -> None:
        self._session = session

    def __call__(self, handler: SlowHandler) -> SlowHandler:
        def handle(incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
            return while_asked(self._wait(handler(incoming, connection)))

        return handle

    async def _wait(self, answer: asyncio.Future[Reply]) -> Reply:
        try:
            while not answer.done():
                looked_at = time.monotonic()
                await asyncio.wait([answer], timeout=SILENCE_S)
                if not answer.done() and self._session.answered_at < looked_at:
                    raise CoordinatorNotAvailable(
                        f"ZooKeeper has not answered this broker for {time.monotonic() - self._session.answered_at:.0f} s"
                    )
            return answer.result()
        finally:
            answer.cancel()  # nobody waits for it any more; what must go on all the same is shielded
