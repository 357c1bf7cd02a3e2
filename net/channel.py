"""The client's side of a connection: connecting, asking and waiting for the answer, closing."""

import asyncio
import ipaddress
import itertools
import socket
from collections.abc import Sequence
from functools import partial
from typing import TypeVar, cast

from ottla.net.exchange import Answer, Exchange
from ottla.net.socket_options import CLIENT_SILENCE_MAX_MS, end_when_silent
from ottla.wire.batch import Buffer
from ottla.wire.errors import BrokerRefused, ClientClosed, ClientTimeout, NoBrokersAvailable, OttlaError
from ottla.wire.framing import FRAME_MAX
from ottla.wire.messages import Message, Request
from ottla.wire.requests import ApiVersionsRequest, ApiVersionsResponse

M = TypeVar("M", bound=Message)

SOFTWARE = "ottla-python"

CLOSE_TIMEOUT_S = 5.0
"""How long closing waits for the peer to take what was sent (with acks=0 nobody else waits for it)."""


FIRST_DIALS_S, DIAL_S = (1.0, 1.0, 1.0), 3.0
"""How long one attempt to connect may take. The kernel repeats a lost first packet after 1, 2, 4 ... seconds: a new attempt
finds a network that works again sooner. Later ones are for networks on which an answer takes longer than a second."""


class Channel:
    """One connection to one broker. Made by ``connect``; broken once, broken for ever.

    ``call`` sends a request at once and has its receiver called with the answer, ``send_unanswered`` sends one that has none.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.address = exchange.address
        self.peer: ApiVersionsResponse | None = None
        self.call = exchange.call
        self.send_unanswered = exchange.send_unanswered

    @property
    def usable(self) -> bool:
        return self._exchange.usable

    @property
    def in_flight(self) -> int:
        return self._exchange.in_flight

    def send(self, request: Request, attachments: Sequence[Buffer] = ()) -> asyncio.Future[Answer]:
        """As ``call``, with a future that brings the answer."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.call(request, partial(_settle, answer), attachments)
        return answer

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
        await self._exchange.writable.wait()

    async def closed_within(self, seconds: float) -> None:
        """Wait until the connection is gone, at most so long."""
        await asyncio.wait([self._exchange.closed], timeout=seconds)

    async def close(self) -> None:
        abandoned = self._exchange.in_flight > 0
        self._exchange.give_up(ClientClosed(f"the connection to {self.address} was closed"))
        transport = self._exchange.transport
        if transport is not None:
            if not abandoned:
                transport.close()
                await asyncio.wait([self._exchange.closed], timeout=CLOSE_TIMEOUT_S)
            transport.abort()
            # Bounded: a connection that was cancelled while it was made may never be told that it is lost.
            await asyncio.wait([self._exchange.closed], timeout=CLOSE_TIMEOUT_S)

    def abort(self) -> None:
        """Hang up now, and wait for nothing."""
        self._exchange.give_up(ClientClosed(f"the connection to {self.address} was closed"))
        if self._exchange.transport is not None:
            self._exchange.transport.abort()


async def connect(
    host: str,
    port: int,
    *,
    client_id: str,
    timeout_s: float,
    frame_max: int = FRAME_MAX,
    borrow: bool = False,
    silence_max_ms: int = CLIENT_SILENCE_MAX_MS,
) -> Channel:
    """Connect and shake hands (ApiVersions), all within ``timeout_s``.

    The connection ends when the peer's machine acknowledges nothing for ``silence_max_ms``.
    """
    address = f"{host}:{port}"
    exchange = Exchange(address, client_id, frame_max, borrow=borrow)
    channel = Channel(exchange)
    try:
        async with asyncio.timeout(timeout_s):
            await _open(exchange, host, port)
            if exchange.transport is not None:
                end_when_silent(exchange.transport, silence_max_ms)
            answer = await channel.send(ApiVersionsRequest(software=SOFTWARE))
    except TimeoutError:
        await channel.close()
        raise ClientTimeout(f"{address} did not answer in {timeout_s:g} s", broker=address) from None
    except ConnectionRefusedError:
        raise BrokerRefused(f"cannot connect to {address}: Connection refused", broker=address) from None
    except OSError as error:
        raise NoBrokersAvailable(f"cannot connect to {address}: {error.strerror or error}", broker=address) from error
    except BaseException:
        await channel.close()
        raise
    channel.peer = cast(ApiVersionsResponse, answer.message)
    return channel


async def _open(exchange: Exchange, host: str, port: int) -> None:
    """Try the addresses of a host one after the other, again where nobody answers; the caller limits the time.

    ConnectionRefusedError means that all of them refused.
    """
    loop = asyncio.get_running_loop()
    addresses = await _addresses(host, port)
    for dial_s in itertools.chain(FIRST_DIALS_S, itertools.repeat(DIAL_S)):
        failed: OSError | None = None
        for address in addresses:
            try:
                sock = await _dial(address, port, dial_s)
            except OSError as error:  # TimeoutError is one
                if failed is None or not isinstance(error, ConnectionRefusedError):
                    failed = error
            else:
                await loop.create_connection(lambda: exchange, sock=sock)
                return
        assert failed is not None
        if not isinstance(failed, TimeoutError):
            raise failed


async def _dial(address: str, port: int, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def _addresses(host: str, port: int) -> list[str]:
    try:
        ipaddress.ip_address(host)
        return [host]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _settle(future: asyncio.Future[Answer], answer: "Answer | OttlaError") -> None:
    if future.done():  # nobody waits any more
        return
    if isinstance(answer, OttlaError):
        future.set_exception(answer)
        future.exception()  # looked at: a caller that has gone away is no news for the log
    else:
        future.set_result(answer)
