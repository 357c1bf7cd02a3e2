"""The thread behind all blocking clients of a process: one event loop, started by the first of them."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ottla.wire.errors import ClientTimeout

R = TypeVar("R")


class LoopThread:
    """An event loop that runs in a daemon thread of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="ottla-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R], timeout: float | None = None) -> R:
        """Run a coroutine there and wait for its result here."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking client was used in a callback of its own thread; use the asyncio twin there")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise ClientTimeout(f"no result within {timeout:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def call(self, make: Callable[[], R]) -> R:
        """Call a function there: for objects that must be made on their event loop."""
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
        if _shared is None or _shared.pid != os.getpid():
            _shared = LoopThread()
        return _shared


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
