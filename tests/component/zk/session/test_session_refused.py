"""A session with servers that refuse who it says it is."""

import asyncio
import struct
import time

import pytest

from ottla.zk.access import Digest
from ottla.zk.errors import AuthenticationFailed
from ottla.zk.session.session import ZkSession
from tests.support.machine import scaled

_AUTH, _CLOSE = 100, -11
_AUTH_FAILED = -115
_CONNECT_REPLY = struct.Struct(">iiqi16sb")
_REPLY_HEADER = struct.Struct(">iqi")
_EMPTY_NODE = b"\0" * 72


class RefusingServer:
    """Grants sessions, and refuses as many digests as told (as with zookeeper.DigestAuthenticationProvider.enabled=false)."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.told: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._frame(reader)
            self._reply(writer, _CONNECT_REPLY.pack(0, 4000, len(self.told) + 1, 16, b"p" * 16, 0))
            while True:
                frame = await self._frame(reader)
                xid, kind = struct.unpack_from(">ii", frame)
                if kind == _AUTH:
                    self.told.append(frame)
                    refused = len(self.told) <= self.refusals
                    self._reply(writer, _REPLY_HEADER.pack(xid, 0, _AUTH_FAILED if refused else 0))
                    if refused:
                        return
                else:
                    self._reply(writer, _REPLY_HEADER.pack(xid, 1, 0) + _EMPTY_NODE)
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


async def test_start_ends_at_once_and_says_why() -> None:
    refusing = RefusingServer(refusals=1000)
    server = await asyncio.start_server(refusing.serve, "127.0.0.1", 0)
    session = ZkSession(
        f"127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_ms=4000, digest=Digest("ottla:s3cret")
    )
    began = time.monotonic()
    try:
        with pytest.raises(AuthenticationFailed, match="refused the digest of user ottla") as refused:
            await session.start(60)
    finally:
        await session.close()
        server.close()
    assert time.monotonic() - began < scaled(5), "it did not wait for its timeout"
    assert refused.value.hint
    assert "s3cret" not in str(refused.value)
    assert b"digest" in refusing.told[0]
    assert b"ottla:s3cret" in refusing.told[0]


async def test_a_session_that_is_refused_later_tries_again() -> None:
    """One server of an ensemble may be set up wrongly: the session is lost, but not the client."""
    refusing = RefusingServer(refusals=0)
    server = await asyncio.start_server(refusing.serve, "127.0.0.1", 0)
    session = ZkSession(
        f"127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_ms=4000, digest=Digest("ottla:s3cret")
    )
    try:
        await session.start(10)
        refusing.refusals = len(refusing.told) + 1
        session._handler.hang_up()
        deadline = time.monotonic() + 20
        while True:
            try:
                await session.wait_connected(10)
                if len(refusing.told) > refusing.refusals and (await session.get("/"))[0] == b"":
                    break
            except AuthenticationFailed:
                pass
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
    finally:
        await session.close()
        server.close()
