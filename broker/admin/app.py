"""Health for orchestrators, metrics for Prometheus. Nothing here changes anything."""

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

logger = logging.getLogger(__name__)

BODY_MAX = 1024 * 1024
KEEPALIVE_S = 15.0


class AdminServer:
    """``why_not_ready`` says what is missing, or None; ``refresh`` brings gauges up to date before a scrape."""

    def __init__(
        self, registry: CollectorRegistry, why_not_ready: Callable[[], str | None], refresh: Callable[[], None]
    ) -> None:
        self._registry = registry
        self._why_not_ready = why_not_ready
        self._refresh = refresh
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Serve; gives the port that was taken."""
        app = web.Application(client_max_size=BODY_MAX)
        app.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEPALIVE_S, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()
        address = self._runner.addresses[0]
        return int(address[1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._why_not_ready()
        return web.Response(text=f"{missing or 'ready'}\n", status=503 if missing else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        self._refresh()
        body = await asyncio.to_thread(generate_latest, self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
