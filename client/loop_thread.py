"""The thread behind all blocking clients of a process: one event loop, started by the first of them."""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from ottla.wire.errors import ClientClosed, OttlaError

R = TypeVar("R")

logger = logging.getLogger(__name__)

EXIT_TIMEOUT_S = 5.0
"""How long a process that ends without closing a client waits for what that client still has to deliver."""


class BlockingClient(Protocol):
    """What the loop thread must be able to ask of the clients that it drives."""

    def close_at_exit(self, timeout: float) -> None:
        """The process ends and nobody closed this client."""

    def forked(self, why: OttlaError) -> None:
        """This process is a forked child: the thread that drove this client is not in it."""


class LoopThread:
    """An event loop that runs in a daemon thread of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = _new_loop()
        self.clients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._thread = threading.Thread(target=self.loop.run_forever, name="ottla-client", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        return threading.get_ident() == self._thread.ident

    @property
    def lost(self) -> bool:
        """Whether this process is a forked child, in which the thread does not run."""
        return self.pid != os.getpid()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine there and wait for its result here."""
        if self.lost:
            work.close()
            raise forked_error()
        if self.is_current:
            work.close()
            raise callback_error()
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, make: Callable[[], R]) -> R:
        """Call a function there: for objects that must be made on their event loop."""
        if self.is_current:
            return make()
        made: Future[R] = Future()

        def do() -> None:
            try:
                made.set_result(make())
            except BaseException as error:
                made.set_exception(error)

        self.loop.call_soon_threadsafe(do)
        return made.result()


_lock = threading.Lock()
_shared: LoopThread | None = None


def shared_loop_thread() -> LoopThread:
    """The process's loop thread; a forked child gets one of its own."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        return _shared


def refuse_on_loop_thread() -> None:
    """Raise where waiting would wait for ever: on the thread that brings what is waited for."""
    if _shared is not None and _shared.is_current:
        raise callback_error()


def callback_error() -> RuntimeError:
    return RuntimeError("a blocking client was used in a callback of its own thread; use the asyncio twin there")


def forked_error() -> ClientClosed:
    return ClientClosed("this client was made before the process forked", hint="make a new one in the child process")


def _after_fork() -> None:
    global _lock, _shared
    before, _shared = _shared, None
    _lock = threading.Lock()  # the thread that held it may not be here
    if before is not None:
        for client in list(before.clients):
            client.forked(forked_error())


def _at_exit() -> None:
    """Deliver what clients that nobody closed still hold, and leave no task to complain about."""
    if _shared is None:
        return
    for client in list(_shared.clients):
        try:
            client.close_at_exit(EXIT_TIMEOUT_S)
        except OttlaError as error:
            logger.warning("a client was not closed before the process ended: %s", error)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
