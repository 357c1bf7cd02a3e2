"""The thread behind all blocking clients of a process: one event loop, started by the first of them."""

import asyncio
import atexit
import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from ottla.wire.errors import ClientClosed, OttlaError

R = TypeVar("R")

logger = logging.getLogger(__name__)

EXIT_TIMEOUT_S = 5.0
"""How long a process that ends without closing its clients waits for what they still have to deliver."""

EXIT_LEAST_S = 0.1
"""What each of them gets though others took longer."""


class BlockingClient(Protocol):
    """What the loop thread must be able to ask of the clients that it drives."""

    def _close_at_exit(self, timeout: float) -> bool:
        """The process ends: close. Whether somebody should be told that he forgot to."""

    def _forked(self, why: OttlaError) -> None:
        """This process is a forked child: the thread that drove this client is not in it."""


class LoopThread:
    """An event loop that runs in a daemon thread of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = _new_loop()
        self.clients: weakref.WeakSet[BlockingClient] = weakref.WeakSet()
        self._closing: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="ottla-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Whatever is raised in a callback, others wait for what this thread brings."""
        while True:
            try:
                self.loop.run_forever()
                return
            except BaseException:
                logger.exception("something that was called on the client's thread tried to end it")

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
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, R]) -> "Future[R]":
        """As ``run``, without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

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

    def close_unowned(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close a client that nobody has any more; waits for nothing, for garbage may be collected in any thread."""
        self.loop.call_soon_threadsafe(self._close_alone, close)

    def _close_alone(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self.loop.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closed_alone)

    def _closed_alone(self, task: "asyncio.Task[None]") -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("a client that nobody closed could not be closed: %s", task.exception())

    async def unowned_closed(self, timeout: float) -> None:
        """Wait, at most so long, for the clients that nobody has any more."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=timeout)


_lock = threading.Lock()
_shared: LoopThread | None = None


def shared_loop_thread() -> LoopThread:
    """The process's loop thread; a forked child gets one of its own."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        return _shared


def is_loop_thread() -> bool:
    return _shared is not None and _shared.is_current


def refuse_on_loop_thread() -> None:
    """Raise where waiting would wait for ever: on the thread that brings what is waited for."""
    if is_loop_thread():
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
            client._forked(forked_error())


after_clients: list[Callable[[], None]] = []
"""Called when the process ends, once all clients are closed."""


def _at_exit() -> None:
    try:
        if _shared is not None:
            _close_all(_shared)
    finally:
        for last in after_clients:
            last()


def _close_all(shared: LoopThread) -> None:
    """Deliver what clients that nobody closed still hold, and leave no task to complain about."""
    deadline = time.monotonic() + EXIT_TIMEOUT_S

    def left_s() -> float:
        return max(deadline - time.monotonic(), EXIT_LEAST_S)

    forgotten = 0
    for client in list(shared.clients):
        try:
            forgotten += client._close_at_exit(left_s())
        except Exception as error:  # whatever it is, the others have records, too
            logger.warning("a client was not closed before the process ended: %s", error)
    shared.run(shared.unowned_closed(left_s()))
    if forgotten:  # last: with -W error this raises
        text = "a producer was" if forgotten == 1 else f"{forgotten} producers were"
        warnings.warn(f"{text} not closed before the process ended", ResourceWarning, 2)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
