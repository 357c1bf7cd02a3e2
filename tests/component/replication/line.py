"""A connection between a follower and its leader with no socket in it: both real ends, and what crosses between them."""

import asyncio
from collections.abc import Iterable
from typing import Any

from ottla.broker.peers import BrokerPrincipal
from ottla.net.channel import Channel
from ottla.net.connection import Connection
from ottla.net.exchange import Exchange
from ottla.net.server import Server
from ottla.wire import native
from ottla.wire.batch import Buffer
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError
from ottla.wire.framing import LENGTH, LENGTH_SIZE
from ottla.wire.requests import FetchRequest, FetchResponse

Name = tuple[str, int]


class Line:
    """What is written at one end arrives at the other in the next turn of the event loop."""

    def __init__(self, server: Server, broker_id: int, **options: Any) -> None:
        """``broker_id`` is whom the peer has proven to be, ``options`` are those of its end."""
        self.requests: list[FetchRequest] = []
        self.responses: list[FetchResponse | OttlaError] = []
        self.to_damage: set[Name] = set()
        """Records of these partitions do not come as they were sent."""
        self.held = False
        """Whether answers are still on their way, until ``release``."""
        exchange = Exchange("leader:9092", f"broker-{broker_id}", **options)
        self.connection = Connection(server)
        self._to_leader = _End(self, self.connection, self._note_request)
        self._to_follower = _End(self, exchange, self._note_response)
        self.connection.connection_made(self._to_follower)
        exchange.connection_made(self._to_leader)
        self.connection.principal = BrokerPrincipal(broker_id)
        self.channel = Channel(exchange)

    @property
    def named(self) -> list[list[Name]]:
        """The partitions that each request named. What only ends the wait of the request before is no fetch."""
        return [_names(request.parts) for request in self.requests if request.max_bytes]

    @property
    def told(self) -> list[list[Name]]:
        """The partitions that each answer spoke of."""
        return [_names(response.parts) for response in self.responses if isinstance(response, FetchResponse)]

    @property
    def errors(self) -> set[int]:
        """With what partitions were refused."""
        answers = [response for response in self.responses if isinstance(response, FetchResponse)]
        return {part.error_code for answer in answers for part in answer.parts}

    def release(self) -> None:
        self.held = False
        self._to_follower.deliver()

    def cut(self) -> None:
        """Both ends lose the connection, and what was on its way is lost."""
        self._to_leader.abort()

    def lost(self) -> None:
        for end in (self._to_leader, self._to_follower):
            end.lose()

    def may_deliver(self, end: "_End") -> bool:
        return not (self.held and end is self._to_follower)

    def _note_request(self, body: memoryview) -> None:
        request = native.NATIVE.read_request(body)
        assert isinstance(request, IncomingRequest)
        assert isinstance(request.message, FetchRequest)
        self.requests.append(request.message)

    def _note_response(self, body: memoryview) -> None:
        response = native.decode_response(body)
        if response.error is not None:
            self.responses.append(response.error)
            return
        message = native.decode_fields(FetchResponse, response.fields)
        self.responses.append(message)
        for part, records in zip(message.parts, native.cut_attachments(message, response.tail), strict=True):
            if records and (part.topic, part.partition) in self.to_damage:
                records[-1] ^= 0xFF  # its checksum is wrong now


class _End(asyncio.Transport):
    """Where one end writes. ``note`` sees each frame before ``far`` does, the end that it goes to."""

    def __init__(self, line: Line, far: Connection | Exchange, note: Any) -> None:
        super().__init__()
        self._line = line
        self._far = far
        self._note = note
        self._written = bytearray()
        self._closing = False
        self._lost = False

    def write(self, data: Buffer) -> None:
        if not self._written:
            asyncio.get_running_loop().call_soon(self.deliver)
        self._written += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def deliver(self) -> None:
        if self._lost or not self._written or not self._line.may_deliver(self):
            return
        data, self._written = memoryview(self._written), bytearray()
        position = 0
        while position < len(data):  # both ends write whole frames
            end = position + LENGTH_SIZE + LENGTH.unpack_from(data, position)[0]
            self._note(data[position + LENGTH_SIZE : end])
            position = end
        while data and not self._lost:
            room = self._far.get_buffer(len(data))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._far.buffer_updated(count)
            data = data[count:]

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._line.lost)

    def lose(self) -> None:
        self._closing = True
        if not self._lost:
            self._lost = True
            self._far.connection_lost(None)

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        raise AssertionError("a follower has at most two requests in flight")


def _names(parts: Iterable[Any]) -> list[Name]:
    return [(part.topic, part.partition) for part in parts]
