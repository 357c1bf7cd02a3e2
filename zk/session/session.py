"""One ZooKeeper session behind asyncio: its life. What it can be asked is in requests.py.

kazoo runs its own threads; everything it tells us is carried to the event loop before anybody else sees it. Requests are
pipelined and never retried here: a lost connection leaves a write's outcome unknown, and only the caller can find it out.
"""

import asyncio
import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from ottla.zk.access import Digest
from ottla.zk.errors import AuthenticationFailed, ConnectionLost, SessionExpired, ZkError, ZkUnavailable
from ottla.zk.session.connect_string import parse_connect
from ottla.zk.session.handshake import Handshake, HandshakeSocket
from ottla.zk.session.pipeline import Pipeline, call_safely, finish
from ottla.zk.session.requests import ZkRequests
from ottla.zk.session.session_state import SessionLife
from ottla.zk.session.session_state import SessionState as SessionState

logger = logging.getLogger(__name__)

# kazoo warns about every failed attempt to connect; we log the changes of state ourselves, once each. And at its lowest level
# it would log whole requests, the one with the password too.
_kazoo_logger = logging.getLogger("ottla.zk.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

_RESTART_DELAY_S = 1.0
_CLOSE_TIMEOUT_S = 10.0

# A server that has not answered for about two thirds of the session timeout is given up: this part of it is left then.
_SILENCE_LEFT = 0.35


class _KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, but a dial that one dead server cannot spend the whole session timeout on."""

    def __init__(self, dial_timeout_s: float) -> None:
        super().__init__()
        self._dial_timeout_s = dial_timeout_s
        self._socket: HandshakeSocket | None = None

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> socket.socket:
        self._socket = HandshakeSocket(super().create_connection(*args, timeout=self._dial_timeout_s, **options))
        return self._socket

    def select(self, readers: list[Any], writers: list[Any], _: list[Any], timeout: float | None = None) -> Any:
        """kazoo selects several times per request, and makes and closes an epoll each time: a poll halves the cost."""
        poll = select.poll()
        by_fd = {ready.fileno(): ready for ready in (*readers, *writers)}
        for fd, ready in by_fd.items():
            poll.register(fd, select.POLLIN if ready in readers else select.POLLOUT)
        found = [by_fd[fd] for fd, _ in poll.poll(None if timeout is None else timeout * 1000)]
        return [ready for ready in found if ready in readers], [ready for ready in found if ready in writers], []

    def hang_up(self) -> None:
        """Make kazoo's thread see the end of the connection, and reconnect."""
        try:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was closed already

    @property
    def handshake(self) -> Handshake | None:
        return self._socket.handshake if self._socket is not None else None


class ZkSession(ZkRequests):
    """A session that reconnects for ever by itself; all methods belong to the event loop that called ``start``.

    With a digest it is that user's, after every reconnect too; what it creates belongs to that user if ``sets_acl``.
    """

    def __init__(
        self, connect: str, *, timeout_ms: int = 6000, digest: Digest | None = None, sets_acl: bool = False
    ) -> None:
        assert digest is not None or not sets_acl, "nobody would own what is created"
        self.connect = parse_connect(connect)
        self.digest = digest
        self.sets_acl = sets_acl
        self._refused = False
        self._life = SessionLife(timeout_ms / 1000)
        self._subscribers: list[Callable[[SessionState], None]] = []
        self._connected = asyncio.Event()
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.Future[Any] | None = None
        self._handler = _KazooHandler(dial_timeout_s=max(0.5, self.timeout_s / len(self.connect.hosts)))
        self._client: Any = KazooClient(
            hosts=self.connect.servers,
            timeout=self.timeout_s,
            handler=self._handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.7, max_jitter=0.4),
            logger=_kazoo_logger,
            auth_data=[("digest", digest.text)] if digest is not None else None,
        )

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, timeout_s: float = 15.0, *, make_root: bool = True) -> None:
        """Connect and (``make_root``) make sure of the chroot; ZkUnavailable, naming the servers, if none answers in time.

        AuthenticationFailed at once if a server refuses the digest scheme. A *wrong* password it does not refuse: whoever
        comes with one is somebody else, who is NotAuthorized later.
        """
        self._loop = asyncio.get_running_loop()
        self._pipeline = Pipeline(self._check_connected, self._life.answered)
        self._client.add_listener(self._listen)
        self._client.start_async()
        try:
            await self.wait_connected(timeout_s)
            await (self.create_if_missing("/") if make_root else self.exists("/"))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session: its ephemeral znodes vanish at once. Waits a bounded time for the server to agree."""
        if self._closed:
            return
        self._closed = True
        self._stop_timer()
        self._pipeline.drop_watches()
        stopped = self._loop.create_future()
        # A daemon thread, because kazoo may wait longer than we want to for a server that does not answer.
        threading.Thread(target=self._stop_client, args=(stopped,), daemon=True).start()
        await asyncio.wait([stopped], timeout=_CLOSE_TIMEOUT_S)
        self._pipeline.fail_in_flight(ConnectionLost("the session was closed"))
        self._connected.set()  # whoever waits for a connection is to learn that there will be none

    def _stop_client(self, stopped: asyncio.Future[None]) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # a dead connection thread must not keep us from closing
            logger.debug("zookeeper client did not stop cleanly error=%r", error)
        self._pipeline.to_loop(finish, stopped, None)

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """Return once there is a connection; ZkUnavailable if there is none in time or the session was closed."""
        try:
            await asyncio.wait_for(self._connected.wait(), timeout_s)
        except TimeoutError:
            raise ZkUnavailable(
                f"no ZooKeeper server answered within {timeout_s} s, tried {self.connect.servers}",
                hint="is ZooKeeper running, and is zookeeper.connect right?",
            ) from None
        if self._closed:
            raise ZkUnavailable("the ZooKeeper session was closed")

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._life.session_id

    @property
    def timeout_s(self) -> float:
        """The session timeout that the server granted, which may differ from the one asked for."""
        return self._life.timeout_s

    @property
    def expires_at(self) -> float:
        """The moment of ``time.monotonic`` until which the session surely lives."""
        return self._life.expires_at

    @property
    def answered_at(self) -> float:
        """The moment of ``time.monotonic`` when the last request that was answered was sent."""
        return self.expires_at - self.timeout_s

    @property
    def connected(self) -> bool:
        return self._life.state is SessionState.CONNECTED and not self._closed

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called; such a session never connects again."""
        return self._closed

    def surely_alive(self) -> bool:
        """Whether ZooKeeper cannot have expired this session yet, by our own monotonic clock."""
        return not self._closed and self._life.surely_alive(time.monotonic())

    def is_own(self, session_id: int) -> bool:
        """Whether this is our session id, or was before a session expired."""
        return session_id in self._life.own_session_ids

    def subscribe(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call back on the event loop at every change of state; returns how to stop that.

        After EXPIRED all ephemeral znodes must be taken for lost, even if the next CONNECTED brings the same session id
        (a server that was frozen may still know a session that we gave up).
        """
        self._subscribers.append(callback)
        return partial(self._subscribers.remove, callback)

    def _listen(self, kazoo_state: str) -> None:
        """Runs on kazoo's connection thread, where any request to ZooKeeper would hang for ever."""
        client_id = self._client.client_id
        session_id = client_id[0] if client_id else 0
        how = self._client.client_state
        self._pipeline.to_loop(self._on_kazoo_state, kazoo_state, session_id, self._handler.handshake, how)

    def _on_kazoo_state(self, kazoo_state: str, session_id: int, handshake: Handshake | None, how: str) -> None:
        if self._closed:
            return
        self._stop_timer()
        if kazoo_state == KazooState.CONNECTED:
            assert handshake is not None, "kazoo connected without a reply"
            self._refused = False  # not yet: kazoo sends the digest only now, and our requests after the answer to it
            self._announce(self._life.connected(session_id, handshake), "handshake done")
            self._start_timer(self.timeout_s / 3, self._heartbeat)
        elif kazoo_state == KazooState.SUSPENDED:
            self._announce(self._life.suspended(), "connection lost")
            self._check_deadline()
        else:
            if how == KeeperState.AUTH_FAILED:
                self._refuse()
            self._announce(self._life.lost(), "zookeeper says so")
            if how in (KeeperState.CLOSED, KeeperState.AUTH_FAILED):
                # kazoo's thread ends on a reply that it does not understand, and on a refusal; without it nobody reconnects.
                self._start_timer(_RESTART_DELAY_S, self._restart_client)

    def _refuse(self) -> None:
        self._refused = True
        logger.error("zookeeper refused our digest error=%s", self._refusal())
        self._pipeline.fail_in_flight(self._refusal())

    def _refusal(self) -> ZkError:
        return AuthenticationFailed(
            f"ZooKeeper {self.connect.servers} refused the {self.digest}",
            hint="its servers must allow the digest scheme, or brokers do without zookeeper.digest",
        )

    def _check_connected(self, path: str) -> None:
        # kazoo would keep the request until it reconnects, perhaps for minutes: say at once that it was not sent
        if not self.connected:
            if self._refused:
                raise self._refusal()
            raise ZkUnavailable(
                f"not connected to ZooKeeper {self.connect.servers}: the request for {path} was not sent"
            )

    def _check_deadline(self) -> None:
        now = time.monotonic()
        self._announce(self._life.deadline(now), "no answer for a whole session timeout")
        if self._life.state is SessionState.SUSPENDED:
            self._start_timer(self.expires_at - now, self._check_deadline)

    def _announce(self, states: list[SessionState], why: str) -> None:
        for state in states:
            fields = f"session={self.session_id:#x} timeout_s={self.timeout_s} servers={self.connect.servers}"
            logger.info("zookeeper session %s %s why=%r", state.value, fields, why)
            if state is SessionState.CONNECTED:
                self._connected.set()
            else:
                self._connected.clear()
                self._pipeline.drop_watches()
            if state is SessionState.EXPIRED:
                self._pipeline.fail_in_flight(SessionExpired(f"the ZooKeeper session expired: {why}"))
            for callback in list(self._subscribers):
                call_safely(callback, state)

    def _restart_client(self) -> None:
        threading.Thread(target=self._client.start_async, daemon=True).start()

    def _start_timer(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(max(0.001, delay_s), callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heartbeat(self) -> None:
        """A cheap request: its answer proves that the session lived when it was sent. kazoo's pings tell us nothing.

        kazoo does not even ping while it has requests to send, so it would never notice that a frozen server answers none
        of them. We do, and early enough to find another server before the session expires.
        """
        silent = self._beat is not None and not self._beat.done()
        if silent and time.monotonic() > self.expires_at - _SILENCE_LEFT * self.timeout_s:
            logger.warning("zookeeper server is silent, hanging up session=%#x", self.session_id)
            self._handler.hang_up()
        elif not silent:
            self._beat = self._pipeline.send(partial(self._client.exists_async, "/"), lambda: None)
            self._beat.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._start_timer(self.timeout_s / 3, self._heartbeat)
