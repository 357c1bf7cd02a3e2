"""Options of TCP sockets: small frames leave at once, and a connection whose packets are lost ends within seconds."""

import asyncio
import socket

BROKER_SILENCE_MAX_MS = 3_000
"""How long a connection between brokers lives while the other side acknowledges nothing.

Without it the kernel repeats lost packets after ever longer pauses: after a network cut of a minute, a connection that survived
it is silent for up to another minute.
"""
CLIENT_SILENCE_MAX_MS = 15_000
"""The same for connections that clients open. It is longer, because a leader does not read from a producer while too few
replicas are in sync, and the producer must not lose its connection for that."""
PROBES = 3
"""A connection without traffic is probed so often in that time: the side that only waits for an answer notices a cut, too."""


_TCP_CLOSE, _TCP_CLOSE_WAIT = 7, 8


def set_no_delay(transport: asyncio.BaseTransport) -> None:
    """Small frames leave at once: batching is ours to decide, not the kernel's."""
    sock = _tcp_socket(transport)
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def end_when_silent(transport: asyncio.BaseTransport, silence_max_ms: int) -> None:
    """End the connection when nothing is acknowledged for so long, not even keepalive probes.

    A peer that does not read for so long although its machine is reached counts as silent, too (its window is closed).
    """
    sock = _tcp_socket(transport)
    if sock is None or not hasattr(socket, "TCP_USER_TIMEOUT"):  # only Linux has it
        return
    interval_s = max(1, silence_max_ms // 1000 // PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_max_ms)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, interval_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)


def _tcp_socket(transport: asyncio.BaseTransport) -> socket.socket | None:
    sock: socket.socket | None = transport.get_extra_info("socket")
    return sock if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) else None


def has_hung_up(sock: socket.socket) -> bool:
    """Whether the peer has reset the connection, or says nothing more, as the kernel knows it."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (_TCP_CLOSE, _TCP_CLOSE_WAIT)
