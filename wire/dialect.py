"""The joint between sockets and dialects: what a dialect must be able to do, and a request as it came in one.

A dialect is a way to put the messages of apis.py into bytes (native.py is ours). A connection
speaks one, which its first bytes pick. Each request carries its dialect, api and version, so that whatever becomes of it is
answered as it was asked. Past net/connection.py nobody knows which dialect it was.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from ottla.wire.batch import Buffer
from ottla.wire.errors import OttlaError, RemoteProtocolError
from ottla.wire.messages import Message, Request
from ottla.wire.requests import ApiRange


class IncomingRequest:
    """A request as the broker received it. Its attachments are borrowed: they are gone once the handler returns."""

    __slots__ = (
        "api", "attachments", "client_id", "context", "correlation_id", "dialect", "elements", "is_long", "message",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        dialect: "Dialect",
        api: int,
        version: int,
        correlation_id: int,
        client_id: str,
        message: Request,
        attachments: list[memoryview],
        context: object = None,
    ) -> None:
        self.dialect = dialect
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.attachments = attachments
        self.context: Any = context
        """What the dialect must know to answer it: nobody else looks at it."""
        self.elements = 0
        """How many elements and tagged fields a long request has; 0 if its dialect does not count them."""
        self.is_long = False
        """Whether it must be handled in slices, and its answer encoded in a thread. Its connection takes no other request until
        it is answered, and its attachments are its own until then. (A handler sets it if only the answer is long.)"""


class UnreadableRequest:
    """A request whose head could be read and that must be answered with an error, in the shape of its api."""

    __slots__ = ("api", "correlation_id", "dialect", "error", "version")

    def __init__(self, dialect: "Dialect", api: int, version: int, correlation_id: int, error: OttlaError) -> None:
        self.dialect = dialect
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.error = error


class Dialect(Protocol):
    """One way to speak. Stateless: one object serves all connections. (A protocol: a dialect need not be compiled.)"""

    api_ranges: list[ApiRange]
    """What can be asked in it, and in which versions."""

    def converts(self, message: Message, attachments: Sequence[Buffer]) -> bool:
        """Whether an answer with records needs work that is too long for the event loop: then ``encode_response`` of it is
        called in a thread, while the connection's later answers wait behind it."""
        ...

    def speaks(self, body: memoryview) -> bool:
        """Whether a connection whose first frame is this speaks it."""
        ...

    def frame_max(self, head: memoryview) -> int:
        """How long a request may be that begins with these bytes (framing.HEAD_SIZE of them); 0 if it is none that is known."""
        ...

    def is_produce(self, head: memoryview) -> bool:
        """Whether a request that brings records begins so, which may be the first that a client says: not all of them greet."""
        ...

    def read_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        """The request in a frame, or what to answer when it cannot be read; RemoteProtocolError means: hang up.

        LongRequest means that reading it would keep the event loop for too long.
        """
        ...

    def read_long_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        """The same in a thread, for a request of any length."""
        ...

    def encode_response(
        self, request: IncomingRequest, message: Message, attachments: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """The frame to write, in pieces; attachments need not be copied."""
        ...

    def encode_error(self, request: IncomingRequest | UnreadableRequest, error: OttlaError) -> list[Buffer]:
        """The answer of a request that failed as a whole."""
        ...


def dialect_of(dialects: Sequence[Dialect], frame: memoryview) -> Dialect:
    """That of a connection whose first frame this is; RemoteProtocolError if it speaks none of them."""
    for dialect in dialects:
        if dialect.speaks(frame):
            return dialect
    raise RemoteProtocolError(
        f"a request in a dialect that is not spoken here: it begins with {bytes(frame[:4]).hex(' ')}"
    )
