"""What a ZooKeeper server grants when we connect, read from the bytes that come in.

kazoo keeps the negotiated session timeout to itself, but lets us make its sockets; the first reply on each of them has it.
"""

import socket
import struct
import time
from dataclasses import dataclass

# The reply to a connect request: its length, the protocol version, then the timeout granted in milliseconds.
_REPLY_HEAD = struct.Struct(">iii")


@dataclass(frozen=True, slots=True)
class Handshake:
    """The session timeout that the server granted, and a time before we asked for it."""

    timeout_s: float
    started_at: float


class HandshakeSocket(socket.socket):
    """A connected socket that remembers what the server granted in its first reply."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected.family, connected.type, connected.proto, fileno=connected.detach())
        self._started_at = time.monotonic()
        self._head = b""

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        if len(self._head) < _REPLY_HEAD.size:
            self._head += data[: _REPLY_HEAD.size]
        return data

    @property
    def handshake(self) -> Handshake | None:
        """None as long as nothing was granted."""
        if len(self._head) < _REPLY_HEAD.size:
            return None
        timeout_ms: int = _REPLY_HEAD.unpack_from(self._head)[2]
        return Handshake(timeout_ms / 1000, self._started_at)
