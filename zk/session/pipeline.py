"""The bridge between kazoo's threads and the event loop: requests in flight and armed watches."""

import asyncio
import enum
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.zk.errors import ZkError, is_answer, zk_error

logger = logging.getLogger(__name__)

# kazoo wakes its thread by one byte per request through a blocking socket pair that holds about 270 of them. More
# requests than that, handed over while its thread does not read, would block the event loop.
_REQUESTS_IN_FLIGHT_MAX = 128


class WatchEvent(enum.Enum):
    """Why a watch was called; NONE: the connection dropped and the watch with it."""

    NONE = "NONE"
    CREATED = "CREATED"
    DELETED = "DELETED"
    CHANGED = "CHANGED"
    CHILD = "CHILD"


Watch = Callable[[WatchEvent], None]


class Pipeline:
    """Requests that were sent and not answered yet, in order; it belongs to the event loop that made it."""

    def __init__(self, check_connected: Callable[[str], None], answered: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._check_connected = check_connected
        self._answered = answered
        self._window = asyncio.Semaphore(_REQUESTS_IN_FLIGHT_MAX)
        self._in_flight: set[asyncio.Future[Any]] = set()
        self._watches: set[Watch] = set()

    async def request(self, call: Callable[..., Any], path: str, watch: Watch | None = None) -> Any:
        """Send one request by calling kazoo and await its answer; many may wait at once, they are sent in order."""
        window = self._window
        await window.acquire()
        try:
            self._check_connected(path)
            if watch is not None:
                call = partial(call, watch=self._armed(watch))
            answer = self.send(call, window.release)
        except BaseException:
            window.release()
            raise
        try:
            return await answer
        except Exception as error:
            raise as_zk_error(error, path) from None

    def send(self, call: Callable[[], Any], finished: Callable[[], None]) -> asyncio.Future[Any]:
        """``finished`` is called when kazoo is through with the request, even if the caller gave up before."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._in_flight.add(answer)
        answer.add_done_callback(self._in_flight.discard)
        sent_at = time.monotonic()
        call().rawlink(lambda result: self.to_loop(self._on_answer, answer, sent_at, result, finished))
        return answer

    def _on_answer(
        self, answer: asyncio.Future[Any], sent_at: float, result: Any, finished: Callable[[], None]
    ) -> None:
        finished()
        error = result.exception
        if error is None or is_answer(getattr(error, "code", None)):
            self._answered(sent_at)
        finish(answer, result.value, error)

    def fail_in_flight(self, error: ZkError) -> None:
        """The session is over. kazoo never finishes a request whose reply it could not read: its place is given up here."""
        self._window = asyncio.Semaphore(_REQUESTS_IN_FLIGHT_MAX)
        for answer in list(self._in_flight):
            finish(answer, None, error)

    def _armed(self, watch: Watch) -> Callable[[Any], None]:
        """What kazoo calls, on a thread of its own; ``once`` is new each time, so it tells one watch from the next."""
        once: Watch = partial(watch)
        self._watches.add(once)
        return lambda event: self.to_loop(self._fire, once, WatchEvent(event.type))

    def _fire(self, once: Watch, event: WatchEvent) -> None:
        if once in self._watches:
            self._watches.discard(once)
            call_safely(once, event)

    def drop_watches(self) -> None:
        """Tell everybody who watches something that nobody will call them any more."""
        for once in list(self._watches):
            self._fire(once, WatchEvent.NONE)

    def to_loop(self, callback: Callable[..., None], *args: Any) -> None:
        """Call back on the event loop; may be used from any thread."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            pass  # the loop was closed under us: nobody is left to tell


def finish(answer: asyncio.Future[Any], value: Any, error: Exception | None = None) -> None:
    """Give a future its result, unless it has one: its owner was cancelled, or the session expired first."""
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)


def call_safely(callback: Callable[[Any], None], argument: object) -> None:
    """Whoever is called back may fail; the session goes on."""
    try:
        callback(argument)
    except Exception:
        logger.exception("zookeeper callback failed callback=%r argument=%r", callback, argument)


def as_zk_error(error: Exception, path: str) -> ZkError:
    return error if isinstance(error, ZkError) else zk_error(getattr(error, "code", None), path, error)
