"""Listening sockets and the connections that came through them."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from ottla.net.connection import Connection
from ottla.net.host import Handler
from ottla.net.limits import Limits
from ottla.net.reply import Turn
from ottla.wire.dialect import Dialect
from ottla.wire.framing import BufferPool
from ottla.wire.native import NATIVE

logger = logging.getLogger(__name__)

SWEEP_S = 1.0
"""How often connections are looked over for deadlines that have passed."""

COMPLAINTS_PER_SWEEP = 5
"""A peer that sends garbage in a loop must not fill the disk with our complaints about it."""

CALM_S = 10.0
"""How long descriptors must suffice for every connection until a shortage of them counts as over."""

BACKLOG = 1024

RECOUNTS = 8
"""What is unsent is counted when an eighth of what is allowed may have come since the last time."""


class Server:
    """Serves one address or more, with one set of limits. ``connections`` are those open now."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits | None = None,
        turn: Turn | None = None,
        dialects: Sequence[Dialect] = (NATIVE,),
    ) -> None:
        self.handler = handler
        self.listener = ""
        self.dialects = dialects
        self.limits = limits or Limits()
        self.turn = turn or Turn()
        self.pool = BufferPool(self.limits.pending_frames_bytes)
        self.connections: set[Connection] = set()
        self.refused = 0
        self.turned_away = 0
        """Connections that were closed because descriptors are nearly exhausted."""
        self.on_closed: list[Callable[[Connection], None]] = []
        """All are called when a connection has ended."""
        self._per_ip: Counter[str] = Counter()
        self._proving: set[Connection] = set()
        self._short_since: float | None = None
        self._short_until = 0.0
        self._complaints = 0
        self._unsent_at_most = 0
        self._empty = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int, listener: str = "") -> int:
        """Listen; the port that was taken is given back (``port`` may be 0).

        May be called again for another address. Its connections know it by the name of its listener.
        """
        loop = asyncio.get_running_loop()
        door = _Door(self, listener)
        server = await loop.create_server(lambda: Connection(door), host or None, port, backlog=BACKLOG)
        self._servers.append(server)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    async def stop(self) -> None:
        """Take no more connections and hang up on those there are."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            self._empty.clear()
            await self._empty.wait()

    def admit(self, connection: Connection) -> bool:
        limits = self.limits
        if len(self.connections) >= limits.connections or self._per_ip[connection.ip] >= limits.connections_per_ip:
            self.complain(
                connection, f"there are {len(self.connections)} connections, {self._per_ip[connection.ip]} of its own"
            )
            return False
        if connection.descriptor >= limits.descriptors and not self._may_prove(connection):
            return False
        self.connections.add(connection)
        self._per_ip[connection.ip] += 1
        return True

    def _may_prove(self, connection: Connection) -> bool:
        """Descriptors are nearly exhausted: the rest is for logs and for brokers, and this may be one."""
        now = time.monotonic()
        self._short_until = now + CALM_S
        if self._short_since is None:
            self._short_since = now
            logger.warning(
                "file descriptors are nearly exhausted: clients are turned away descriptor=%d clients_below=%d connections=%d:"
                " raise the limit of open files, or have fewer clients and partitions",
                connection.descriptor, self.limits.descriptors, len(self.connections),
            )  # fmt: skip
        self._proving = {other for other in self._proving if other in self.connections and other.is_proving}
        if len(self._proving) >= self.limits.proving:
            self.turn_away(connection)
            return False
        connection.must_prove = True
        self._proving.add(connection)
        return True

    def turn_away(self, connection: Connection) -> None:
        """A client cannot be served for want of descriptors."""
        self.turned_away += 1

    def _note_calm(self, now: float) -> None:
        """Log the end of an episode in which clients were turned away."""
        if self._short_since is not None and now > self._short_until:
            logger.info(
                "clients are let in again after=%.1fs turned_away=%d connections=%d",
                self._short_until - CALM_S - self._short_since, self.turned_away, len(self.connections),
            )  # fmt: skip
            self._short_since = None

    def forget(self, connection: Connection) -> None:
        self._proving.discard(connection)
        if connection in self.connections:
            self.connections.remove(connection)
            self._per_ip[connection.ip] -= 1
            if not self._per_ip[connection.ip]:
                del self._per_ip[connection.ip]
        if not self.connections:
            self._empty.set()
        for closed in self.on_closed:
            try:
                closed(connection)
            except Exception:  # of one listener: the others, and whoever waits for answers here, must hear of it
                logger.exception("what follows from the end of a connection failed peer=%s", connection.peer)

    def complain(self, connection: Connection, why: str) -> None:
        self.refused += 1
        self._complaints += 1
        if self._complaints <= COMPLAINTS_PER_SWEEP:
            logger.warning("closing a connection peer=%s why=%s", connection.peer, why)

    def unsent_memory(self) -> int:
        """How much memory holds answers that peers have not taken."""
        return sum(connection.unsent_memory() for connection in self.connections)

    def count_unsent(self, count: int) -> None:
        """Connections have so many bytes more for their peers; if it may be too much, those pay that do not read."""
        self._unsent_at_most += count
        limit = self.limits.unsent_bytes
        if self._unsent_at_most <= limit:
            return
        total = self.unsent_memory()
        for connection in sorted(self.connections, key=_slowness) if total > limit else ():
            if total <= limit:
                break
            self.complain(connection, f"answers that nobody reads hold {total} bytes; allowed are {limit}")
            total -= connection.unsent_memory()
            connection.abort()
        self._unsent_at_most = min(total, limit - limit // RECOUNTS)  # or every answer would be a reason to count

    def _sweep(self) -> None:
        now = time.monotonic()
        if self._complaints > COMPLAINTS_PER_SWEEP:
            logger.warning("closed more connections count=%d", self._complaints - COMPLAINTS_PER_SWEEP)
        self._complaints = 0
        self._note_calm(now)
        for connection in list(self.connections):
            if connection.proves_too_slowly(now):
                self.turn_away(connection)
                connection.abort()
                continue
            why = connection.overdue(now)
            if why is not None:
                self.complain(connection, why)
                connection.abort()
            elif connection.has_gone():
                connection.abort()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)


class _Door:
    """One address of a server, as its connections know it."""

    def __init__(self, server: Server, listener: str) -> None:
        self.listener = listener
        self.handler = server.handler
        self.dialects = server.dialects
        self.limits = server.limits
        self.pool = server.pool
        self.turn = server.turn
        self.admit = server.admit
        self.forget = server.forget
        self.turn_away = server.turn_away
        self.complain = server.complain
        self.count_unsent = server.count_unsent


def _slowness(connection: Connection) -> tuple[float, int]:
    """Sorts those first that have not read for longest, then those that hold most."""
    stalled_at = connection.stalled_at
    return (stalled_at if stalled_at is not None else float("inf"), -connection.unsent_memory())
