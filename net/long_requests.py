"""Reading long requests in a thread of their own: what one client sends must not keep the event loop."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ottla.wire.dialect import Dialect, IncomingRequest, UnreadableRequest
from ottla.wire.errors import RemoteProtocolError

logger = logging.getLogger(__name__)

Read = Callable[[IncomingRequest | UnreadableRequest | None, str], None]
"""Called with the request, or with None and why it cannot be read."""

_reader = ThreadPoolExecutor(1, "long requests")


def read_in_thread(dialect: Dialect, body: memoryview, on_read: Read) -> None:
    """Call ``on_read`` on this event loop when a request has been read. They are read one by one, in the order of arrival."""
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
