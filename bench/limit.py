"""The bare limit of this machine: the same bytes through loopback sockets into a file, and back, with no protocol at all."""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

CHUNK = 64 * 1024
READ_SIZE = 256 * 1024


def write_limit(total_bytes: int, folder: Path | None = None) -> float:
    """MB/s from one process through a loopback socket into a file of another."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "limit"
        return _timed(lambda listener: _sink(listener, path), lambda sock: _push(sock, total_bytes), total_bytes)


def read_limit(total_bytes: int, folder: Path | None = None) -> float:
    """MB/s from a file of one process through a loopback socket into the memory of another."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "limit"
        with path.open("wb") as file:
            for _ in range(total_bytes // CHUNK):
                file.write(bytes(CHUNK))
        return _timed(lambda listener: _source(listener, path), _drain, total_bytes)


def replicated_write_limit(total_bytes: int, folder: Path | None = None) -> float:
    """MB/s from one process to a leader that writes a file and sends the same on to two followers that write files too."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        followers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        addresses = [follower.getsockname() for follower in followers]
        context = multiprocessing.get_context("fork")
        for number, follower in enumerate(followers):
            context.Process(target=_sink, args=(follower, Path(place) / f"follower{number}"), daemon=True).start()
        path = Path(place) / "leader"
        return _timed(
            lambda listener: _relay(listener, path, addresses), lambda sock: _push(sock, total_bytes), total_bytes
        )


def echo_latency(rounds: int = 5000, size: int = 1024) -> list[float]:
    """Seconds for one small message there and one byte back, between two processes."""
    taken: list[float] = []
    _timed(lambda listener: _echo(listener, size), lambda sock: _ping(sock, rounds, size, taken), 1)
    return taken


def replicated_echo_latency(rounds: int = 3000, size: int = 1024) -> list[float]:
    """As ``echo_latency``, where the second process first sends the message on to two others and hears a byte from both."""
    followers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [follower.getsockname() for follower in followers]
    context = multiprocessing.get_context("fork")
    for follower in followers:
        context.Process(target=_echo, args=(follower, size), daemon=True).start()
    taken: list[float] = []
    _timed(lambda listener: _echo(listener, size, addresses), lambda sock: _ping(sock, rounds, size, taken), 1)
    return taken


def _timed(serve: Callable[[socket.socket], None], use: Callable[[socket.socket], None], total_bytes: int) -> float:
    listener = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
    process.start()
    with socket.create_connection(listener.getsockname()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        os.sync()  # what others wrote must not be waited for in our time
        began = time.perf_counter()
        use(sock)
        elapsed = time.perf_counter() - began
    process.join(10)
    listener.close()
    return total_bytes / elapsed / 1e6


def _push(sock: socket.socket, total_bytes: int) -> None:
    chunk = bytes(CHUNK)
    for _ in range(total_bytes // CHUNK):
        sock.sendall(chunk)
    sock.shutdown(socket.SHUT_WR)
    sock.recv(1)  # the other side has written everything


def _sink(listener: socket.socket, path: Path) -> None:
    sock, _ = listener.accept()
    buffer = memoryview(bytearray(READ_SIZE))
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    while count := sock.recv_into(buffer):
        os.write(file, buffer[:count])
    sock.sendall(b"!")
    sock.close()


def _relay(listener: socket.socket, path: Path, addresses: list[tuple[str, int]]) -> None:
    sock, _ = listener.accept()
    followers = [socket.create_connection(address) for address in addresses]
    buffer = memoryview(bytearray(READ_SIZE))
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    while count := sock.recv_into(buffer):
        os.write(file, buffer[:count])
        for follower in followers:
            follower.sendall(buffer[:count])
    for follower in followers:
        follower.shutdown(socket.SHUT_WR)
        follower.recv(1)  # it has written everything
    sock.sendall(b"!")
    sock.close()


def _source(listener: socket.socket, path: Path) -> None:
    sock, _ = listener.accept()
    with path.open("rb") as file:
        sock.sendfile(file)
    sock.close()


def _drain(sock: socket.socket) -> None:
    buffer = bytearray(READ_SIZE)
    while sock.recv_into(buffer):
        pass


def _ping(sock: socket.socket, rounds: int, size: int, taken: list[float]) -> None:
    message = bytes(size)
    for _ in range(rounds):
        began = time.perf_counter()
        sock.sendall(message)
        sock.recv(1)
        taken.append(time.perf_counter() - began)


def _echo(listener: socket.socket, size: int, followers: Sequence[tuple[str, int]] = ()) -> None:
    sock, _ = listener.accept()
    others = [socket.create_connection(address) for address in followers]
    for each in (sock, *others):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        got = b""
        while len(got) < size:
            piece = sock.recv(size - len(got))
            if not piece:
                return
            got += piece
        for other in others:
            other.sendall(got)
        for other in others:
            other.recv(1)
        sock.sendall(b"!")
