"""A real server on loopback, in this process and on uvloop, as the broker has it."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
import uvloop

from ottla.net import server as server_module
from ottla.net.connection import Connection
from ottla.net.host import Handler
from ottla.net.limits import Limits
from ottla.net.reply import Reply
from ottla.net.server import Server
from ottla.wire import native
from ottla.wire.dialect import Dialect, IncomingRequest
from ottla.wire.messages import Request
from ottla.wire.requests import ApiVersionsRequest, ApiVersionsResponse

SWEEP_S = 0.05


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


def answer_versions(request: IncomingRequest, connection: Connection) -> Reply:
    """The simplest handler: every request is answered at once, with the client's own name."""
    return Reply(ApiVersionsResponse([], request.client_id, 0, "cluster", b"nonce"))


class RunningServer:
    """A server and where it listens."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port

    async def connect(self, **options: Any) -> "RawPeer":
        return RawPeer(*await asyncio.open_connection("127.0.0.1", self.port, **options))


class RawPeer:
    """A client that may send anything, and reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, request: Request, correlation_id: int = 1, client_id: str = "raw") -> None:
        self.send(frame(request, correlation_id, client_id))

    async def answer(self, timeout_s: float = 5.0) -> native.IncomingResponse:
        async with asyncio.timeout(timeout_s):
            (size,) = struct.unpack(">I", await self.reader.readexactly(4))
            return native.decode_response(memoryview(await self.reader.readexactly(size)))

    async def closed(self, timeout_s: float = 5.0) -> bytes:
        """Wait until the server hangs up; what it sent before that."""
        async with asyncio.timeout(timeout_s):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def finish(self) -> None:
        """FIN: nothing more will come from this side."""
        self.writer.write_eof()

    def reset(self) -> None:
        """RST instead of FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: on, 0 s
        self.writer.transport.abort()

    async def aclose(self) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(Exception):
            await self.writer.wait_closed()


def frame(request: Request, correlation_id: int = 1, client_id: str = "raw", attachments: Any = ()) -> bytes:
    return b"".join(bytes(piece) for piece in native.encode_request(request, correlation_id, client_id, attachments))


HELLO = ApiVersionsRequest("test")

Serve = Callable[..., Awaitable[RunningServer]]


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    """Starts servers that look after deadlines twenty times a second: ``await serve(handler, idle_s=0.2)``."""
    monkeypatch.setattr(server_module, "SWEEP_S", SWEEP_S)
    running: list[Server] = []

    async def start(
        handler: Handler = answer_versions, dialects: Sequence[Dialect] = (native.NATIVE,), **limits: Any
    ) -> RunningServer:
        server = Server(handler, Limits(**limits), dialects=dialects)
        running.append(server)
        return RunningServer(server, await server.start("127.0.0.1", 0))

    yield start
    for server in running:
        await server.stop()
        assert not server.connections
        assert server.pool.in_use == 0, "all receive buffers came back"


@pytest.fixture
async def loop_errors() -> AsyncIterator[list[dict[str, Any]]]:
    """What reached the event loop's exception handler: nothing ever should, so the test fails if something did."""
    loop = asyncio.get_running_loop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    yield errors
    loop.set_exception_handler(None)
    assert errors == []
