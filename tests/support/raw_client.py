"""A client that may send anything: bytes as they are, and requests that no honest client would make."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ottla.wire import native
from ottla.wire.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicToDelete,
)
from ottla.wire.batch import Buffer
from ottla.wire.errors import OttlaError
from ottla.wire.framing import LENGTH
from ottla.wire.messages import ACKS_LEADER, LATEST, Message, Request
from ottla.wire.records import encode_batch
from ottla.wire.requests import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchPart,
    FetchRequest,
    FetchResponse,
    ListOffsetsPart,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProducePart,
    ProducePartResult,
    ProduceRequest,
    ProduceResponse,
)
from tests.support.machine import scaled

M = TypeVar("M", bound=Message)

TIMEOUT_S = scaled(20.0)


class Hung(Exception):
    """The server hung up instead of answering."""


def framed(request: Request, attachments: Sequence[Buffer] = (), correlation_id: int = 1) -> bytes:
    """The bytes that an honest client sends for a request."""
    return b"".join(map(bytes, native.encode_request(request, correlation_id, "raw", attachments)))


def one_record(value: bytes = b"value", timestamp_ms: int | None = None) -> bytearray:
    """A batch of one record, of now if no other time is told."""
    return encode_batch([value], timestamps=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)


def patiently(attempt: Callable[[], object]) -> None:
    """Try again as long as the broker says that it may help: what every honest client does."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            attempt()
            return
        except OttlaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


class RawClient:
    """One blocking connection."""

    def __init__(self, address: tuple[str, int], timeout_s: float = TIMEOUT_S) -> None:
        self.sock = socket.create_connection(address, timeout=timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def finish(self) -> None:
        """FIN: this side says nothing more, but still reads."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the server may have hung up already, which ``closed`` tells
            self.sock.sendall(data)

    def greet(self) -> None:
        """What an honest client says first; before that the broker takes no large frames."""
        self.ask(ApiVersionsRequest("raw"), ApiVersionsResponse)

    def closed(self) -> bytes:
        """Wait until the server hangs up; what it sent before that."""
        got = b""
        with contextlib.suppress(ConnectionError):
            while chunk := self.sock.recv(65536):
                got += chunk
        return got

    def answer(self) -> native.IncomingResponse:
        (size,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return native.decode_response(memoryview(self._exactly(size)))

    def ask(self, request: Request, kind: type[M], attachments: Sequence[Buffer] = ()) -> M:
        """Send and wait; an error answer is raised."""
        self.send(framed(request, attachments))
        response = self.answer()
        if response.error is not None:
            raise response.error
        return native.decode_fields(kind, response.fields)

    def error_of(self, request: Request, attachments: Sequence[Buffer] = ()) -> type[OttlaError] | None:
        """The error that the whole request is answered with, if any."""
        try:
            self.ask(request, type(request).response, attachments)
        except OttlaError as error:
            return type(error)
        return None

    # --- honest requests -----------------------------------------------------------------------------------------------

    def create_topic(self, name: str) -> None:
        """A topic of one partition, which every broker knows when this returns."""
        request = CreateTopicsRequest([NewTopic(name, 1, 1, {})], int(TIMEOUT_S * 1000))
        patiently(lambda: self.ask(request, CreateTopicsResponse).topics[0].raise_if_failed())

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest([TopicToDelete(name)], int(TIMEOUT_S * 1000))
        self.ask(request, DeleteTopicsResponse).topics[0].raise_if_failed()

    def produce(
        self, topic: str, batch: Buffer, partition: int = 0, acks: int = ACKS_LEADER, timeout_ms: int = 10_000
    ) -> ProducePartResult:
        request = ProduceRequest(acks, timeout_ms, [ProducePart(topic, partition, len(batch))])
        return self.ask(request, ProduceResponse, [batch]).parts[0]

    def fetch(self, topic: str, offset: int, max_bytes: int = 2**24, partition: int = 0) -> tuple[FetchResponse, bytes]:
        """The answer to a fetch that does not wait, and the records it brought."""
        self.send(framed(FetchRequest(0, 0, max_bytes, [FetchPart(topic, partition, offset, max_bytes)])))
        response = self.answer()
        if response.error is not None:
            raise response.error
        return native.decode_fields(FetchResponse, response.fields), bytes(response.tail)

    def wait_until_led(self, topic: str, partition: int = 0) -> None:
        """Wait until the broker leads a partition: after a restart the controller tells it so a moment after it is ready."""
        patiently(lambda: self.end_offset(topic, partition))

    def end_offset(self, topic: str, partition: int = 0) -> int:
        part = ListOffsetsPart(topic, partition, LATEST)
        result: Any = self.ask(ListOffsetsRequest([part]), ListOffsetsResponse).parts[0]
        result.raise_if_failed()
        return int(result.offset)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            try:
                chunk = self.sock.recv(min(size - len(got), 1 << 20))
            except ConnectionError as error:
                raise Hung(str(error)) from None
            if not chunk:
                raise Hung(f"after {len(got)} of {size} bytes")
            got += chunk
        return bytes(got)
