"""Under a channel: requests go out at once, answers come back in the same order. Nothing waits here; all of it is compiled."""

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from ottla.net.busy_poll import busy_poll
from ottla.net.socket_options import set_no_delay
from ottla.wire import native
from ottla.wire.batch import Buffer
from ottla.wire.errors import ClientClosed, NetworkException, OttlaError, RemoteProtocolError
from ottla.wire.framing import FRAME_MAX, BufferPool, FrameReader
from ottla.wire.messages import Message, Request

WRITE_BUFFER_HIGH = 8 * 1024 * 1024
"""What may wait in this process for the socket to take it before ``writable`` says no."""

_thread = threading.local()


class Answer:
    """A response that has come: the message, and the records that came with it."""

    __slots__ = ("attachments", "message")

    def __init__(self, message: Message, attachments: list[memoryview]) -> None:
        self.message = message
        self.attachments = attachments


Receiver = Callable[["Answer | OttlaError"], None]
"""Who is called with the answer, once; or with what makes that there is none."""


class Exchange(asyncio.BufferedProtocol):
    """One connection to one broker, as its event loop sees it. Broken once, broken for ever.

    With ``borrow`` the attachments of an answer are gone when its receiver returns; else they belong to the receiver.
    """

    def __init__(self, address: str, client_id: str, frame_max: int = FRAME_MAX, *, borrow: bool = False) -> None:
        self.address = address
        self.transport: asyncio.Transport | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken: OttlaError | None = None
        self._client_id = client_id
        self._reader = FrameReader(_pool_of_thread(), frame_max, trusted=True, detach=not borrow)
        self._waiting: deque[tuple[int, type[Message], Receiver]] = deque()
        self._ids = itertools.count(1)
        self._busy = busy_poll()

    @property
    def usable(self) -> bool:
        return self.broken is None and self.transport is not None

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def call(self, request: Request, receiver: Receiver, attachments: Sequence[Buffer] = ()) -> None:
        """Send now; ``receiver`` is called as soon as the answer is there, or NetworkException once none can come."""
        broken = self.broken
        if broken is not None or self.transport is None:
            receiver(broken or ClientClosed())
            return
        correlation_id = next(self._ids) & 0x7FFFFFFF
        pieces = native.encode_request(request, correlation_id, self._client_id, attachments)
        self._waiting.append((correlation_id, type(request).response, receiver))
        self._write(pieces)
        self._busy.active(len(attachments[0]) if attachments else 0)

    def send_unanswered(self, request: Request, attachments: Sequence[Buffer] = ()) -> None:
        """Send a request that the broker does not answer (produce with acks=0)."""
        if not self.usable:
            raise self.broken or ClientClosed()
        self._write(native.encode_request(request, 0, self._client_id, attachments))

    def give_up(self, why: OttlaError) -> None:
        """Nothing can be sent or come any more; everybody who waits is told why."""
        if self.broken is not None:
            return
        self.broken = why
        waiting, self._waiting = self._waiting, deque()
        for _, _, receiver in waiting:
            receiver(type(why)(str(why), broker=self.address))

    # --- for asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        set_no_delay(self.transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.received(nbytes)
        try:
            while (body := self._reader.next_frame()) is not None:
                self._received(body)
            self._busy.active(nbytes)
        except OttlaError as error:
            error.broker = self.address
            self.give_up(error)
            if self.transport is not None:
                self.transport.abort()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        why = f"the connection to {self.address} was lost" + (f": {exc}" if exc else "")
        self.give_up(NetworkException(why, broker=self.address))
        self._reader.close()
        self.writable.set()
        if not self.closed.done():
            self.closed.set_result(None)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _write(self, pieces: list[Buffer]) -> None:
        assert self.transport is not None
        if len(pieces) == 1:
            self.transport.write(pieces[0])
        else:
            self.transport.writelines(cast("list[bytes]", pieces))

    def _received(self, body: memoryview) -> None:
        response = native.decode_response(body)
        if not self._waiting or self._waiting[0][0] != response.correlation_id:
            raise RemoteProtocolError(
                f"{self.address} answered request {response.correlation_id}, which is not the next"
            )
        _, kind, receiver = self._waiting[0]
        if response.error is not None:
            response.error.broker = self.address
            self._waiting.popleft()
            receiver(response.error)
            return
        message: Any = native.decode_fields(kind, response.fields)
        attachments = native.cut_attachments(message, response.tail)
        self._waiting.popleft()  # not before it could be read: whoever is left here is told when the connection breaks
        receiver(Answer(message, attachments))


def _pool_of_thread() -> BufferPool:
    """One for all channels of a thread: each thread has its own event loop, and a shared buffer must not be shared by two."""
    pool: BufferPool | None = getattr(_thread, "pool", None)
    if pool is None:
        # A client asked for every byte it gets: the frame limit is limit enough.
        pool = _thread.pool = BufferPool(limit=2**40)
    return pool
