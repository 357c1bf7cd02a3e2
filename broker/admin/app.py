"""Health for orchestrators, metrics for Prometheus. Nothing here changes anything."""

import asyncio
import logging
import time
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ottla.broker.metrics import Metrics
from ottla.broker.stall_watch import StallWatch

logger = logging.getLogger(__name__)

BODY_MAX = 1024 * 1024
KEEPALIVE_S = 15.0

CONNECTION_MAX_S = 60.0
"""No connection is kept longer, so that one which says nothing, or says it byte by byte, is not kept for ever."""

CONNECTIONS_MAX = 500
SWEEP_S = 2.0


class _OwnFaults(logging.Filter):
    """Lets pass what went wrong here, not what a peer sent: a scanner must not fill the log with tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


logger.addFilter(_OwnFaults())


class AdminServer:
    """``why_not_ready`` says what is missing, or None; ``refresh`` brings gauges up to date before a scrape."""

    def __init__(self, metrics: Metrics, why_not_ready: Callable[[], str | None], refresh: Callable[[], None]) -> None:
        self._all_metrics = metrics
        self._registry = metrics.registry
        self._stalls = StallWatch(metrics.stalls)
        self._why_not_ready = why_not_ready
        self._refresh = refresh
        self._runner: web.AppRunner | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._seen: dict[web.RequestHandler, float] = {}

    async def start(self, host: str, port: int) -> int:
        """Serve; gives the port that was taken."""
        app = web.Application(client_max_size=BODY_MAX)
        app.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        self._runner = web.AppRunner(
            app, access_log=None, logger=logger, keepalive_timeout=KEEPALIVE_S, handle_signals=False
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()
        self._sweep()
        self._stalls.start()
        address = self._runner.addresses[0]
        return int(address[1])

    def _sweep(self) -> None:
        """Hang up on connections that are too old, and on the oldest where there are too many."""
        assert self._runner is not None
        assert self._runner.server is not None
        now = time.monotonic()
        open_now = self._runner.server.connections
        self._seen = {connection: self._seen.get(connection, now) for connection in open_now}
        by_age = sorted(self._seen, key=self._seen.__getitem__)
        surplus = len(by_age) - CONNECTIONS_MAX
        for number, connection in enumerate(by_age):
            if number < surplus or now - self._seen[connection] > CONNECTION_MAX_S:
                connection.force_close()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._stalls.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._why_not_ready()
        return web.Response(text=f"{missing or 'ready'}\n", status=503 if missing else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        self._refresh()
        longest_s, busy_s = self._stalls.take_longest()
        self._all_metrics.longest_stall.set(longest_s)
        self._all_metrics.longest_busy.set(busy_s)
        body = await asyncio.to_thread(generate_latest, self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
