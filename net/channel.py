"""The client's side of a connection: requests go out at once, answers come back in the same order."""

import asyncio
import itertools
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from ottla.net.busy_poll import busy_poll
from ottla.wire import native
from ottla.wire.batch import Buffer
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    NetworkException,
    NoBrokersAvailable,
    OttlaError,
    RemoteProtocolError,
)
from ottla.wire.framing import FRAME_MAX, BufferPool, FrameReader
from ottla.wire.messages import Message, Request
from ottla.wire.requests import ApiVersionsRequest, ApiVersionsResponse

M = TypeVar("M", bound=Message)

SOFTWARE = "ottla-python"

WRITE_BUFFER_HIGH = 8 * 1024 * 1024
"""What may wait in this process for the socket to take it before ``writable`` says no."""

CLOSE_TIMEOUT_S = 5.0
"""How long closing waits for the peer to take what was sent (with acks=0 nobody else waits for it)."""

_thread = threading.local()


class Answer(NamedTuple):
    """A response that has come: the message, and the records that came with it."""

    message: Message
    attachments: list[memoryview]


Receiver = Callable[["Answer | OttlaError"], None]
"""Who is called with the answer, once; or with what makes that there is none."""


class Channel(asyncio.BufferedProtocol):
    """One connection to one broker. Made by ``connect``; broken once, broken for ever."""

    def __init__(self, address: str, client_id: str, frame_max: int = FRAME_MAX) -> None:
        self.address = address
        self.peer: ApiVersionsResponse | None = None
        self._client_id = client_id
        self._reader = FrameReader(_pool_of_thread(), frame_max, detach=True)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[int, type[Message], Receiver]] = deque()
        self._ids = itertools.count(1)
        self._broken: OttlaError | None = None
        self._busy = busy_poll()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- for callers -----------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        return self._broken is None and self._transport is not None

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def call(self, request: Request, receiver: Receiver, attachments: Sequence[Buffer] = ()) -> None:
        """Send now; ``receiver`` is called as soon as the answer is there, or NetworkException once none can come."""
        broken = self._broken
        if broken is not None or self._transport is None:
            receiver(broken or ClientClosed())
            return
        correlation_id = next(self._ids) & 0x7FFFFFFF
        pieces = native.encode_request(request, correlation_id, self._client_id, attachments)
        self._waiting.append((correlation_id, type(request).response, receiver))
        self._write(pieces)
        self._busy.active()

    def send(self, request: Request, attachments: Sequence[Buffer] = ()) -> asyncio.Future[Answer]:
        """As ``call``, with a future that brings the answer."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.call(request, partial(_settle, answer), attachments)
        return answer

    def send_unanswered(self, request: Request, attachments: Sequence[Buffer] = ()) -> None:
        """Send a request that the broker does not answer (produce with acks=0)."""
        if not self.usable:
            raise self._broken or ClientClosed()
        self._write(native.encode_request(request, 0, self._client_id, attachments))

    async def request(self, request: Request, timeout_s: float, attachments: Sequence[Buffer] = ()) -> Answer:
        """Send and wait for the answer; no longer than ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.send(request, attachments)
        except TimeoutError:
            name = type(request).__name__
            raise ClientTimeout(
                f"{self.address} did not answer {name} in {timeout_s:g} s", broker=self.address
            ) from None

    async def ask(self, request: Request, kind: type[M], timeout_s: float) -> M:
        """As ``request``, for the many answers that have no records."""
        return cast(M, (await self.request(request, timeout_s)).message)

    async def writable(self) -> None:
        """Wait while the socket has more to take than it can."""
        await self._writable.wait()

    async def closed_within(self, seconds: float) -> None:
        """Wait until the connection is gone, at most so long."""
        await asyncio.wait([self._closed], timeout=seconds)

    async def close(self) -> None:
        abandoned = bool(self._waiting)
        self._break(ClientClosed(f"the connection to {self.address} was closed"))
        if self._transport is not None:
            if not abandoned:
                self._transport.close()
                await asyncio.wait([self._closed], timeout=CLOSE_TIMEOUT_S)
            self._transport.abort()
            # Bounded: a connection that was cancelled while it was made may never be told that it is lost.
            await asyncio.wait([self._closed], timeout=CLOSE_TIMEOUT_S)

    def abort(self) -> None:
        """Hang up now, and wait for nothing."""
        self._break(ClientClosed(f"the connection to {self.address} was closed"))
        if self._transport is not None:
            self._transport.abort()

    # --- for asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        set_no_delay(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.received(nbytes)
        try:
            while (body := self._reader.next_frame()) is not None:
                self._received(body)
            self._busy.active()
        except OttlaError as error:
            error.broker = self.address
            self._break(error)
            if self._transport is not None:
                self._transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        why = f"the connection to {self.address} was lost" + (f": {exc}" if exc else "")
        self._break(NetworkException(why, broker=self.address))
        self._reader.close()
        self._writable.set()
        if not self._closed.done():
            self._closed.set_result(None)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _write(self, pieces: list[Buffer]) -> None:
        assert self._transport is not None
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(cast("list[bytes]", pieces))

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

    def _break(self, why: OttlaError) -> None:
        """Nothing can be sent or come any more; everybody who waits is told why."""
        if self._broken is not None:
            return
        self._broken = why
        waiting, self._waiting = self._waiting, deque()
        for _, _, receiver in waiting:
            receiver(type(why)(str(why), broker=self.address))


def _settle(future: asyncio.Future[Answer], answer: "Answer | OttlaError") -> None:
    if future.done():  # nobody waits any more
        return
    if isinstance(answer, OttlaError):
        future.set_exception(answer)
        future.exception()  # looked at: a caller that has gone away is no news for the log
    else:
        future.set_result(answer)


def _pool_of_thread() -> BufferPool:
    """One for all channels of a thread: each thread has its own event loop, and a shared buffer must not be shared by two."""
    pool: BufferPool | None = getattr(_thread, "pool", None)
    if pool is None:
        # A client asked for every byte it gets: the frame limit is limit enough.
        pool = _thread.pool = BufferPool(limit=2**40)
    return pool


async def connect(host: str, port: int, *, client_id: str, timeout_s: float, frame_max: int = FRAME_MAX) -> Channel:
    """Connect and shake hands (ApiVersions), all within ``timeout_s``."""
    address = f"{host}:{port}"
    loop = asyncio.get_running_loop()
    channel = Channel(address, client_id, frame_max)
    try:
        async with asyncio.timeout(timeout_s):
            await loop.create_connection(lambda: channel, host, port)
            answer = await channel.send(ApiVersionsRequest(software=SOFTWARE))
    except TimeoutError:
        await channel.close()
        raise ClientTimeout(f"{address} did not answer in {timeout_s:g} s", broker=address) from None
    except OSError as error:
        raise NoBrokersAvailable(f"cannot connect to {address}: {error.strerror or error}", broker=address) from error
    except BaseException:
        await channel.close()
        raise
    channel.peer = cast(ApiVersionsResponse, answer.message)
    return channel


def set_no_delay(transport: asyncio.BaseTransport) -> None:
    """Small frames leave at once: batching is ours to decide, not the kernel's."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
