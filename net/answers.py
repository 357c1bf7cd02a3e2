"""The answers that one peer is owed, in the order of its requests: some are there, some promised, one is being converted."""

import asyncio
import logging
import mmap
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ottla.net.reply import NO_REPLY, Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest, LocalProtocolError, UnknownServerError

CONVERTERS = 2
"""So many answers are converted at once, for all peers together: each may take a lot of memory (broker/kafka_batches.py)."""

_converters = ThreadPoolExecutor(CONVERTERS, "conversion")
_encoders = ThreadPoolExecutor(1, "long answers")
"""For long answers whose records are not converted, which are soon done: they do not wait for conversions."""

logger = logging.getLogger(__name__)


class Answers:
    """Invariant: answers leave in the order of their requests. ``ready`` is called when the next one may be; none is converted
    unless the peer ``takes`` those before it, for what is converted lies in memory."""

    def __init__(self, ready: Callable[[], None], takes: Callable[[], bool]) -> None:
        self._ready = ready
        self._takes = takes
        self._owed: deque[list[Buffer] | tuple[IncomingRequest, Later] | _Conversion] = deque()
        self.held = 0
        """How much memory those have that are there, and wait behind others."""

    def __len__(self) -> int:
        return len(self._owed)

    def add(self, pieces: list[Buffer]) -> None:
        """An answer that is there, behind others that are not."""
        self._owed.append(pieces)
        self.held += memory_of(pieces)

    def promise(self, request: IncomingRequest, later: Later) -> None:
        """An answer that will come; perhaps it is there already."""
        assert later.on_given is None, "an answer goes to one peer"
        self._owed.append((request, later))
        later.on_given = self._ready
        if later.reply is not None:
            self._ready()

    def take(self) -> list[Buffer] | None:
        """The next answer, if it is there."""
        owed = self._owed
        if not owed:
            return None
        head = owed[0]
        if isinstance(head, tuple):
            request, later = head
            reply = later.reply
            if reply is None:
                return None
            if must_be_converted(request, reply):
                if self._takes():
                    self._convert(request, reply)
                return None
            pieces = encode(request, reply)
        elif isinstance(head, _Conversion):
            if head.pieces is None:
                return None
            pieces = head.pieces
        else:
            pieces = head
            if self.held:
                self.held -= memory_of(pieces)
        owed.popleft()
        return pieces

    def is_next(self, later: Later) -> bool:
        head = self._owed[0] if self._owed else None
        return isinstance(head, tuple) and head[1] is later

    def try_next_again(self) -> None:
        """The peer takes answers again, or those before are gone: the next one may have been held back for that."""
        head = self._owed[0] if self._owed else None
        if isinstance(head, tuple) and head[1].held_back:
            head[1].held_back = False
            head[1].try_again()

    def abandon(self) -> None:
        """The peer has gone."""
        owed, self._owed = self._owed, deque()
        for answer in owed:
            if isinstance(answer, tuple):
                answer[1].abandon()
            elif isinstance(answer, _Conversion) and answer.future is not None:
                answer.future.cancel()  # if it has not begun, it never does

    def _convert(self, request: IncomingRequest, reply: Reply) -> None:
        """Encode the next answer in a thread: one at a time of each peer, and only when all before it have left."""
        conversion = self._owed[0] = _Conversion()
        pool = _converters if converts(request, reply) else _encoders
        converted = conversion.future = asyncio.get_running_loop().run_in_executor(pool, encode, request, reply)
        converted.add_done_callback(lambda done: self._converted(conversion, request, done))

    def _converted(
        self, conversion: "_Conversion", request: IncomingRequest, done: "asyncio.Future[list[Buffer]]"
    ) -> None:
        if done.cancelled():
            return  # the peer has gone
        failed = done.exception() is not None
        conversion.pieces = encode(request, Reply(None)) if failed else done.result()
        self._ready()


class _Conversion:
    """An answer that is being encoded in a thread."""

    __slots__ = ("future", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Buffer] | None = None
        self.future: asyncio.Future[list[Buffer]] | None = None


def must_be_converted(request: IncomingRequest, reply: Reply) -> bool:
    """Whether encoding the answer would keep the event loop for too long."""
    return reply is not NO_REPLY if request.is_long else converts(request, reply)


def converts(request: IncomingRequest, reply: Reply) -> bool:
    """Whether its dialect converts the records of the answer, which may take seconds."""
    message = reply.message
    return bool(reply.attachments) and message is not None and request.dialect.converts(message, reply.attachments)


def encode(request: IncomingRequest, reply: Reply) -> list[Buffer]:
    """An answer as its request's dialect has it."""
    dialect = request.dialect
    if reply is NO_REPLY:
        return []
    if reply.error is not None or reply.message is None:
        return dialect.encode_error(request, reply.error or UnknownServerError())
    try:
        return dialect.encode_response(request, reply.message, reply.attachments)
    except LocalProtocolError as error:
        return dialect.encode_error(request, InvalidRequest(f"the answer would be too long: {error}"))
    except Exception:  # raised, it would leave those behind it without an answer
        logger.exception("an answer could not be encoded api=%d", request.api)
        return dialect.encode_error(request, UnknownServerError("the broker's log has the details"))


def memory_of(pieces: list[Buffer]) -> int:
    """The bytes that are in this process's own memory; slices of mapped files need none."""
    memory = 0
    for piece in pieces:
        if not (isinstance(piece, memoryview) and isinstance(piece.obj, mmap.mmap)):
            memory += len(piece)
    return memory
