"""What a connection needs of its server, and what answers its requests."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.net.limits import Limits
from ottla.net.reply import Later, Reply, Turn
from ottla.wire.dialect import Dialect, IncomingRequest
from ottla.wire.framing import BufferPool

if TYPE_CHECKING:
    from ottla.net.connection import Connection

Handler = Callable[[IncomingRequest, "Connection"], "Reply | Later | asyncio.Future[Reply] | None"]


class Host(Protocol):
    """What a connection needs of its server."""

    handler: Handler
    listener: str
    dialects: Sequence[Dialect]
    limits: Limits
    pool: BufferPool
    turn: Turn

    def admit(self, connection: "Connection") -> bool: ...
    def forget(self, connection: "Connection") -> None: ...
    def turn_away(self, connection: "Connection") -> None: ...
    def complain(self, connection: "Connection", why: str) -> None: ...
    def count_unsent(self, count: int) -> None: ...
