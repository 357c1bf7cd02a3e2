"""A TCP proxy that cuts, silences and delays a link, while both its ends stay healthy."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType

CHUNK = 65536
GREETING_S = 10.0

Chosen = Callable[[bytes], bool]
"""Whether a connection is meant, told by the first bytes that its client sent."""

Held = Callable[[bytes, bool], bool]
"""Whether bytes of such a connection must wait: those to the target (True) or those from it (False)."""


def everybody(greeting: bytes) -> bool:
    return True


def from_broker(broker_id: int) -> Chosen:
    """Connections that another broker has opened, its knocks at the door included."""
    return lambda greeting: f"broker-{broker_id}".encode() in greeting


def from_clients(greeting: bytes) -> bool:
    """Connections of producers, consumers and admins."""
    return b"broker-" not in greeting


class _Connection:
    """Two sockets and a thread for each direction; the one from the client also knows what its first bytes were."""

    def __init__(self, client: socket.socket, target: tuple[str, int], proxy: "Proxy") -> None:
        self.greeting: bytes | None = None
        self._client = client
        self._target = target
        self._server: socket.socket | None = None
        self._proxy = proxy

    def run(self) -> None:
        """Carry bytes until one side ends; the other one then hears the same end."""
        try:
            first = self._client.recv(CHUNK)
            self.greeting = first
            self._proxy.let_pass(first, upward=True)
            self._server = socket.create_connection(self._target, GREETING_S)
            self._server.settimeout(None)
            self._server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._server.sendall(first)
            down = threading.Thread(target=self._carry, args=(self._server, self._client, False), daemon=True)
            down.start()
            if first:
                self._carry(self._client, self._server, True)
            down.join()
        except OSError:
            pass
        finally:
            self.reset()
            self._proxy.forget(self)

    def _carry(self, source: socket.socket, sink: socket.socket, upward: bool) -> None:
        greeting = self.greeting or b""
        try:
            while chunk := source.recv(CHUNK):
                self._proxy.let_pass(greeting, upward)
                sink.sendall(chunk)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset()

    def reset(self) -> None:
        """RST on both sides, as a firewall or a dead machine's successor would."""
        for end in (self._client, self._server):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RDWR)
                with contextlib.suppress(OSError):
                    end.close()


class Proxy:
    """Listens on a free port of this machine and carries every connection to ``target``.

    with Proxy(("127.0.0.1", 2181)) as proxy:
        connect(proxy.address)
        proxy.cut()
        proxy.heal()
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._state = threading.Condition()
        self._connections: set[_Connection] = set()
        self._cut: Chosen | None = None
        self._held: Held | None = None
        self._slow: Chosen | None = None
        self._delay_s = 0.0
        self._closed = False
        self._refused_at: tuple[str, int] | None = None
        self._listen(("127.0.0.1", 0))

    def _listen(self, at: tuple[str, int]) -> None:
        self._listener = socket.create_server(at, backlog=128)
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def _stop_listening(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    @property
    def address(self) -> str:
        host, port = self._refused_at or self._listener.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._state:
            self._closed = True
            connections = list(self._connections)
            self._state.notify_all()
        self._stop_listening()
        for connection in connections:
            connection.reset()

    # --- faults --------------------------------------------------------------------------------------------------------

    def reset(self, chosen: Chosen = everybody) -> int:
        """Reset the connections that stand; new ones are welcome. How many there were."""
        with self._state:
            doomed = [one for one in self._connections if one.greeting is not None and chosen(one.greeting)]
        for connection in doomed:
            connection.reset()
        return len(doomed)

    def cut(self, chosen: Chosen = everybody) -> None:
        """Reset the connections that stand, and every new one at once, until ``heal``."""
        with self._state:
            self._cut = chosen
        self.reset(chosen)

    def refuse(self) -> None:
        """End the connections that stand and listen no more until ``heal``: who knocks is refused, as if nobody were there."""
        if self._refused_at is None:
            self._refused_at = self._listener.getsockname()
            self._stop_listening()
            self.reset()

    def listen_again(self) -> None:
        """The end of ``refuse`` alone."""
        if self._refused_at is not None:
            self._listen(self._refused_at)
            self._refused_at = None

    def silence(self, chosen: Chosen = everybody, *, answers_only: bool = False) -> None:
        """Carry nothing until ``heal``, but keep connections open; with ``answers_only``, requests still arrive."""
        self.hold(lambda greeting, upward: chosen(greeting) and not (upward and answers_only))

    def hold(self, held: Held | None) -> None:
        """Carry nothing that this rule holds back; what an earlier rule held back and this one does not arrives now."""
        with self._state:
            self._held = held
            self._state.notify_all()

    def delay(self, delay_s: float, chosen: Chosen = everybody) -> None:
        """Everything arrives so much later; 0 ends it."""
        self._slow, self._delay_s = chosen, delay_s

    def heal(self) -> None:
        """What was held back arrives now."""
        with self._state:
            self._cut = self._held = None
            self._delay_s = 0.0
            self._state.notify_all()
        self.listen_again()

    # --- for connections -----------------------------------------------------------------------------------------------

    def let_pass(self, greeting: bytes, upward: bool) -> None:
        """Return when these bytes may travel on; ConnectionError if their link is cut."""
        if self._delay_s and self._slow is not None and self._slow(greeting):
            time.sleep(self._delay_s)
        with self._state:
            if self._cut is not None and self._cut(greeting):
                raise ConnectionResetError
            while self._held is not None and self._held(greeting, upward) and not self._closed:
                self._state.wait()

    def forget(self, connection: _Connection) -> None:
        with self._state:
            self._connections.discard(connection)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(client, self._target, self)
            with self._state:
                if self._closed:
                    client.close()
                    return
                self._connections.add(connection)
            threading.Thread(target=connection.run, daemon=True).start()
