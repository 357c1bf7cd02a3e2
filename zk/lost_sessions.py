"""Retries work on ZooKeeper that may be repeated when the connection or the session is lost; used while a broker starts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.zk.errors import ConnectionLost, SessionExpired, ZkUnavailable
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)

R = TypeVar("R")

RETRY_S = 0.2


async def retry_when_lost(session: ZkSession, work: Callable[[], Awaitable[R]]) -> R:
    """Do ``work`` until ZooKeeper was there from its beginning to its end; any other error is raised."""
    while True:
        try:
            return await work()
        except (ConnectionLost, SessionExpired, ZkUnavailable) as error:
            if session.closed:
                raise
            logger.warning("ZooKeeper was lost while the broker starts, which waits for it error=%s", error)
            await asyncio.sleep(RETRY_S)
            await session.wait_connected()
