"""From a request to its handler, and from whatever that raises to one answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from ottla.broker.api.who_may import Rule, everybody
from ottla.broker.metrics import Metrics
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import ClusterAuthorizationFailed, OttlaError, UnknownServerError, UnsupportedVersion
from ottla.wire.messages import ACKS_NONE, Api
from ottla.wire.requests import ProduceRequest

logger = logging.getLogger(__name__)

Answer = Reply | Later | asyncio.Future[Reply] | None
ApiHandler = Callable[[IncomingRequest, Peer], Answer]


class Route(NamedTuple):
    """Who answers a request, and who may send it."""

    handler: ApiHandler
    who_may: Rule


class Dispatch:
    """The server's handler: knows the handler of every api, asks who may, counts, and never raises."""

    def __init__(self, routes: Mapping[Api, Route], metrics: Metrics) -> None:
        self._metrics = metrics
        self._table = {
            int(api): (route.handler, None if route.who_may is everybody else route.who_may, metrics.timing(api.name))
            for api, route in routes.items()
        }

    def __call__(self, request: IncomingRequest, connection: Peer) -> Answer:
        entry = self._table.get(request.message.api)
        if entry is None:
            return self._failed(request, UnsupportedVersion(f"api {request.api} is not served here"))
        handler, rule, timing = entry
        began = time.perf_counter()
        try:
            if rule is not None:
                self._check(rule, request, connection)
            reply: Answer = handler(request, connection)
        except Exception as error:
            reply = self._failed(request, error)
            if reply is None:
                connection.close()  # with acks=0 there is no other way to tell
        timing.observe(time.perf_counter() - began)
        return self._guarded(request, reply) if isinstance(reply, asyncio.Future) else reply

    def _check(self, rule: Rule, request: IncomingRequest, connection: Peer) -> None:
        why_not = rule(request.message, connection.principal)
        if why_not is not None:
            connection.refuse(f"{connection.principal} sent {Api(request.api).name}: {why_not}")
            raise ClusterAuthorizationFailed(why_not)

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
