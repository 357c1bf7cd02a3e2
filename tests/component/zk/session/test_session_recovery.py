"""A session against a server that speaks nonsense."""

import asyncio
import struct

import pytest

from ottla.zk.errors import SessionExpired
from ottla.zk.session.session import SessionState, ZkSession

_CONNECT_REPLY = struct.Struct(">iiqi16sb")
_REPLY_HEADER = struct.Struct(">iqi")
_CLOSE = -11
_GET_DATA = 4
_UNKNOWN_ERROR = -199
_EMPTY_NODE = b"\0" * 72


class StrangeServer:
    """Grants a new session to every connection; on the first it answers reads with an error number that nobody knows."""

    def __init__(self) -> None:
        self.sessions = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._frame(reader)
            self.sessions += 1
            session = self.sessions
            self._reply(writer, _CONNECT_REPLY.pack(0, 4000, session, 16, b"p" * 16, 0))
            while True:
                xid, kind = struct.unpack_from(">ii", await self._frame(reader))
                error = _UNKNOWN_ERROR if session == 1 and kind == _GET_DATA else 0
                self._reply(writer, _REPLY_HEADER.pack(xid, 1, error) + _EMPTY_NODE)
                if kind == _CLOSE:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(length)

    def _reply(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        writer.write(struct.pack(">i", len(body)) + body)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_reply_that_kazoo_dies_of_costs_the_session_but_not_the_client() -> None:
    strange = StrangeServer()
    server = await asyncio.start_server(strange.serve, "127.0.0.1", 0)
    session = ZkSession(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_ms=4000)
    states: list[SessionState] = []
    session.subscribe(states.append)
    try:
        await session.start(10)
        with pytest.raises(SessionExpired):
            await session.get("/")
        await session.wait_connected(10)
        assert (await session.get("/"))[0] == b""
    finally:
        await session.close()
        server.close()
    assert states == [SessionState.CONNECTED, SessionState.EXPIRED, SessionState.CONNECTED]
    assert strange.sessions == 2
