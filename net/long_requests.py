"""Reading long requests in a thread of their own: what one client sends must not keep the event loop.

What is read becomes many objects, which stay until the request is answered. So only a few are in hand at once, for all
connections together; the others wait as the bytes that they came in, in the order of their arrival.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from weakref import WeakKeyDictionary

from ottla.wire.dialect import Dialect, IncomingRequest, UnreadableRequest
from ottla.wire.errors import RemoteProtocolError

logger = logging.getLogger(__name__)

IN_HAND_MAX: Final = 4
"""Of 400,000 elements each takes up to 200 MB."""

OnRead = Callable[[IncomingRequest | UnreadableRequest | None, str], None]
"""Called with the request, or with None and why it cannot be read."""

_reader = ThreadPoolExecutor(1, "long requests")


class LongRequests:
    """Those of one event loop."""

    def __init__(self) -> None:
        self.in_hand = 0
        self._waiting: deque[tuple[Dialect, memoryview, OnRead]] = deque()

    def read(self, dialect: Dialect, body: memoryview, on_read: OnRead) -> None:
        """Call ``on_read`` when the request has been read. Whoever calls this calls ``release`` when it is answered."""
        self._waiting.append((dialect, body, on_read))
        self._begin()

    def release(self) -> None:
        self.in_hand -= 1
        self._begin()

    def _begin(self) -> None:
        if not self._waiting or self.in_hand >= IN_HAND_MAX:
            return
        dialect, body, on_read = self._waiting.popleft()
        self.in_hand += 1
        reading = asyncio.get_running_loop().run_in_executor(_reader, dialect.read_long_request, body)

        def done(future: asyncio.Future[IncomingRequest | UnreadableRequest]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is None and not future.cancelled():
                on_read(future.result(), "")
                return
            if not isinstance(error, RemoteProtocolError):
                logger.error("a long request could not be read", exc_info=error)
            on_read(None, str(error) if isinstance(error, RemoteProtocolError) else "its request could not be read")

        reading.add_done_callback(done)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LongRequests] = WeakKeyDictionary()


def long_requests() -> LongRequests:
    """Those of the running event loop."""
    return _of_loops.setdefault(asyncio.get_running_loop(), LongRequests())
