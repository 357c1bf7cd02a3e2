"""From a request to its handler, and from whatever that raises to one answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import cast

from ottla.broker.metrics import Metrics
from ottla.net.connection import Connection
from ottla.net.reply import Later, Reply
from ottla.wire.connection import IncomingRequest
from ottla.wire.errors import OttlaError, UnknownServerError, UnsupportedVersion
from ottla.wire.messages import ACKS_NONE, Api
from ottla.wire.requests import ProduceRequest

logger = logging.getLogger(__name__)

Answer = Reply | Later | asyncio.Future[Reply] | None
ApiHandler = Callable[[IncomingRequest, Connection], Answer]


class Dispatch:
    """The server's handler: knows the handler of every api, counts, and never raises."""

    def __init__(self, handlers: Mapping[Api, ApiHandler], metrics: Metrics) -> None:
        self._metrics = metrics
        self._table = {int(api): (handler, metrics.timing(api.name)) for api, handler in handlers.items()}

    def __call__(self, request: IncomingRequest, connection: Connection) -> Answer:
        entry = self._table.get(request.api)
        if entry is None:
            return self._failed(request, UnsupportedVersion(f"api {request.api} is not served here"))
        handler, timing = entry
        began = time.perf_counter()
        try:
            reply: Answer = handler(request, connection)
        except Exception as error:
            reply = self._failed(request, error)
        timing.observe(time.perf_counter() - began)
        return self._guarded(request, reply) if isinstance(reply, asyncio.Future) else reply

    def _guarded(self, request: IncomingRequest, later: asyncio.Future[Reply]) -> asyncio.Future[Reply]:
        """A future that never fails with anything but what a client may see."""

        def log_failure(done: asyncio.Future[Reply]) -> None:
            if not done.cancelled() and done.exception() is not None:
                self._failed(request, cast(Exception, done.exception()))

        later.add_done_callback(log_failure)
        return later

    def _failed(self, request: IncomingRequest, error: Exception) -> Reply | None:
        api = Api(request.api).name if request.api in Api._value2member_map_ else str(request.api)
        if not isinstance(error, OttlaError):
            logger.error("request failed api=%s client=%r", api, request.client_id, exc_info=error)
            error = UnknownServerError(f"{api} failed; the broker's log has the details")
        self._metrics.request_errors.labels(api, error.wire_name()).inc()
        if isinstance(request.message, ProduceRequest) and request.message.acks == ACKS_NONE:
            return None  # nobody waits for an answer
        # The traceback leads to frames that lead to this reply: a circle that would keep the whole request in memory.
        error.__traceback__ = None
        return Reply(None, error=error)
