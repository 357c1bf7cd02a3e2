"""BeginWrite and EndWrite: the numbers under which every attempt at a named write sends its records."""

import asyncio
from collections.abc import Awaitable, Callable

from ottla.broker.api.later import later
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, BrokerNotAvailable, InvalidRequest, OttlaError
from ottla.wire.named_writes import (
    ALL_TASKS,
    NOTE_MAX,
    TASKS_MAX,
    WRITER_MAX,
    BeginWriteRequest,
    BeginWriteResponse,
    EndWriteRequest,
    EndWriteResponse,
)
from ottla.zk.errors import ZkError
from ottla.zk.named_writes import begin_write, end_write, end_writer
from ottla.zk.session.session import ZkSession


class NamedWriteHandlers:
    """Any broker answers: what counts stands in ZooKeeper."""

    def __init__(self, session: ZkSession, new_id: Callable[[], Awaitable[int]], now_ms: Callable[[], int]) -> None:
        self._session = session
        self._now_ms = now_ms
        self._new_id = new_id

    def begin(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, BeginWriteRequest)
        return later(self._begin(request))

    async def _begin(self, request: BeginWriteRequest) -> Reply:
        task = (request.writer, request.task)
        try:
            _check(request)
            if len(request.note) > NOTE_MAX:
                raise InvalidRequest(f"a note of {len(request.note)} bytes; at most {NOTE_MAX} are kept")
            begun = await begin_write(self._session, task, request.batch, request.note, self._now_ms(), self._new_id)
        except OttlaError as error:
            return Reply(BeginWriteResponse(*_failure(error)))
        return Reply(BeginWriteResponse(NO_ERROR, "", begun.producer_id, begun.epoch, begun.note, begun.done))

    def end(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, EndWriteRequest)
        return later(self._end(request))

    async def _end(self, request: EndWriteRequest) -> Reply:
        try:
            _check(request)
            if request.task == ALL_TASKS:
                await end_writer(self._session, request.writer, self._now_ms())
            else:
                await end_write(self._session, (request.writer, request.task), request.batch, self._now_ms())
        except OttlaError as error:
            return Reply(EndWriteResponse(*_failure(error)))
        return Reply(EndWriteResponse(NO_ERROR, ""))


def _check(request: BeginWriteRequest | EndWriteRequest) -> None:
    writer = request.writer
    if not 0 < len(writer) <= WRITER_MAX:
        raise InvalidRequest(f"a writer's name has 1 to {WRITER_MAX} characters, not {len(writer)}")
    whole = isinstance(request, EndWriteRequest) and request.task == ALL_TASKS
    if not whole and not 0 <= request.task < TASKS_MAX:
        raise InvalidRequest(f"task {request.task} of writer {writer!r}; they are numbered from 0 to {TASKS_MAX - 1}")
    if not 0 <= request.batch < 2**63:
        raise InvalidRequest(f"batch {request.batch} of writer {writer!r}; they are numbered from 0")


def _failure(error: OttlaError) -> tuple[int, str]:
    if isinstance(error, ZkError):  # whatever it was: each step may be taken again, with another broker too
        error = BrokerNotAvailable(f"named writes cannot be looked up at the moment: {error}")
    # An answer has no room for the hint but in its message, and whoever is refused needs it.
    return error.code, f"{error}; {error.hint}" if error.hint else str(error)
