"""Links of a cluster are cut between named ends, in one direction or both, whoever opened the connection."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import cast

import pytest

from ottla.chaos.faults import CLIENTS
from ottla.chaos.links import LinkedCluster
from ottla.chaos.proxy import Proxy
from ottla.local import LocalCluster


class Echo:
    """A server that says everything back, and knows what has arrived."""

    def __init__(self) -> None:
        self.arrived: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                while chunk := client.recv(1024):
                    self.arrived.append(chunk)
                    client.sendall(chunk)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def links(echo: Echo) -> Iterator[LinkedCluster]:
    """Two brokers and one ZooKeeper, all of them the echo."""
    with Proxy(echo.address) as to0, Proxy(echo.address) as to1, Proxy(echo.address) as zk0, Proxy(echo.address) as zk1:
        yield LinkedCluster(cast(LocalCluster, None), [to0, to1], [[zk0], [zk1]])


def dial(proxy: Proxy, greeting: bytes) -> socket.socket:
    host, _, port = proxy.address.partition(":")
    client = socket.create_connection((host, int(port)), 10)
    client.sendall(greeting)
    return client


def arrives(echo: Echo, what: bytes, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while what not in echo.arrived:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def answered(client: socket.socket, what: bytes, within_s: float = 5.0) -> bool:
    client.settimeout(within_s)
    try:
        return client.recv(1024) == what
    except TimeoutError:
        return False


QUIET_S = 0.2


def test_what_one_end_sends_is_held_and_the_other_direction_works(links: LinkedCluster, echo: Echo) -> None:
    links.block("broker1", "broker0")
    with dial(links.to[0], b"I am broker-1") as client:
        assert not arrives(echo, b"I am broker-1", QUIET_S)
        links.unblock("broker1", "broker0")
        assert answered(client, b"I am broker-1")
    links.block("broker0", "broker1")
    with dial(links.to[0], b"broker-1 again") as client:
        assert arrives(echo, b"broker-1 again")
        assert not answered(client, b"broker-1 again", QUIET_S)
        links.unblock("broker0", "broker1")
        assert answered(client, b"broker-1 again")


def test_cut_holds_on_connections_that_the_other_end_has_opened(links: LinkedCluster, echo: Echo) -> None:
    links.block("broker1", "broker0")  # on the way to broker 1, answers are what broker 1 sends
    with dial(links.to[1], b"I am broker-0") as client:
        assert arrives(echo, b"I am broker-0")
        assert not answered(client, b"I am broker-0", QUIET_S)


def test_cut_meets_nobody_else(links: LinkedCluster) -> None:
    links.block("broker1", "broker0")
    with dial(links.to[0], b"I am ottla") as client:
        assert answered(client, b"I am ottla")
    links.block(CLIENTS, "broker0")
    with dial(links.to[0], b"I am broker-2") as broker, dial(links.to[0], b"I am ottla too") as client:
        assert answered(broker, b"I am broker-2")
        assert not answered(client, b"I am ottla too", QUIET_S)


def test_ways_to_zookeeper_are_cut_one_by_one_and_healed_together(links: LinkedCluster) -> None:
    links.block("broker0", "zookeeper0")
    with dial(links.zookeeper_of[0][0], b"ping") as cut, dial(links.zookeeper_of[1][0], b"ping") as whole:
        assert answered(whole, b"ping")
        assert not answered(cut, b"ping", QUIET_S)
        links.heal()
        assert answered(cut, b"ping")
