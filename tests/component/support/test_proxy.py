"""The proxy that tests cut links with does what it says."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.chaos.proxy import Proxy, from_broker, from_clients


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that says everything back."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(client: socket.socket) -> None:
            with client:
                try:
                    while chunk := client.recv(1024):
                        client.sendall(chunk)
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def proxy(echo: tuple[str, int]) -> Iterator[Proxy]:
    with Proxy(echo) as running:
        yield running


def dial(proxy: Proxy, greeting: bytes = b"hello") -> socket.socket:
    host, _, port = proxy.address.partition(":")
    client = socket.create_connection((host, int(port)), 10)
    client.sendall(greeting)
    return client


def ended(client: socket.socket) -> bool:
    """Whether the next that comes is the connection's end."""
    try:
        return client.recv(1024) == b""
    except ConnectionResetError:
        return True


def test_bytes_pass_both_ways(proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert client.recv(1024) == b"hello"


def test_reset_ends_the_chosen_connections_only(proxy: Proxy) -> None:
    with dial(proxy, b"I am broker-2") as broker, dial(proxy, b"I am ottla") as client:
        assert broker.recv(1024) == b"I am broker-2"
        assert client.recv(1024) == b"I am ottla"
        assert proxy.reset(from_clients) == 1
        assert ended(client)
        broker.sendall(b"still here")
        assert broker.recv(1024) == b"still here"
        assert proxy.reset(from_broker(1)) == 0


def test_cut_refuses_new_connections_until_healed(proxy: Proxy) -> None:
    proxy.cut()
    with dial(proxy) as client:
        assert ended(client)
    proxy.heal()
    with dial(proxy) as client:
        assert client.recv(1024) == b"hello"


def test_silence_holds_everything_back_and_heal_delivers_it(proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert client.recv(1024) == b"hello"
        proxy.silence()
        client.sendall(b"later")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1024)
        client.settimeout(10)
        proxy.heal()
        assert client.recv(1024) == b"later"


def test_delay_makes_everything_arrive_later(proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert client.recv(1024) == b"hello"
        proxy.delay(0.1)
        began = time.monotonic()
        client.sendall(b"slow")
        assert client.recv(1024) == b"slow"
        assert time.monotonic() - began >= 0.2


def test_refused_until_healed_and_then_found_at_the_same_address(proxy: Proxy) -> None:
    address = proxy.address
    with dial(proxy) as client:
        assert client.recv(1024) == b"hello"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            dial(proxy)
    proxy.heal()
    assert proxy.address == address
    with dial(proxy) as client:
        assert client.recv(1024) == b"hello"
