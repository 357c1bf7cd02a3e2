"""What a handler gives back: an answer, or the promise of one; and the turn at whose end promises are kept."""

import asyncio
from collections.abc import Callable, Sequence

from ottla.wire.batch import Buffer
from ottla.wire.errors import OttlaError, RequestTimedOut, UnknownServerError
from ottla.wire.messages import Message


class Reply:
    """What a handler answers: a message with its attachments, or an error."""

    __slots__ = ("attachments", "error", "message")

    def __init__(
        self, message: Message | None, attachments: Sequence[Buffer] = (), error: OttlaError | None = None
    ) -> None:
        self.message = message
        self.attachments = attachments
        self.error = error


NO_REPLY = Reply(None)
"""What a Later is given where the peer wants no answer: Produce with acks=0."""


class Later:
    """An answer that is not there yet. Whoever has it calls ``give``; only the first call counts.

    A future would do as well, but it costs a turn of the event loop and a dozen calls more: half of an acks=all.
    """

    __slots__ = ("abandoned", "held_back", "on_abandoned", "on_given", "reply")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.abandoned = False
        self.held_back = False
        """It could have been given, but the peer has others to take first: it is to be tried again when it has."""
        self.on_given: Callable[[], None] | None = None
        self.on_abandoned: Callable[[], None] | None = None
        """For whoever is to give the answer and is no kind of Later itself. (This class is compiled: others cannot inherit.)"""

    @property
    def open(self) -> bool:
        """Whether somebody still waits."""
        return self.reply is None and not self.abandoned

    def give(self, reply: Reply) -> None:
        if self.reply is None and not self.abandoned:
            self.reply = reply
            if self.on_given is not None:
                self.on_given()

    def abandon(self) -> None:
        """The peer has gone: nobody wants the answer any more."""
        if self.open and self.on_abandoned is not None:
            self.on_abandoned()
        self.abandoned = True

    def try_again(self) -> None:
        """The peer would take the answer now."""


class LaterFromFuture(Later):
    """The same for handlers that are coroutines."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Reply]) -> None:
        super().__init__()
        self._future = future
        future.add_done_callback(self._done)

    def abandon(self) -> None:
        super().abandon()
        self._future.cancel()

    def _done(self, future: asyncio.Future[Reply]) -> None:
        if future.cancelled():
            self.give(Reply(None, error=RequestTimedOut("the broker gave this request up")))
        elif (error := future.exception()) is not None:
            self.give(Reply(None, error=error if isinstance(error, OttlaError) else UnknownServerError()))
        else:
            self.give(future.result())


class Turn:
    """Work that is put off to the end of the work in hand: however often it is asked for meanwhile, it is done once.

    A connection begins a turn when bytes arrive and ends it when all whole frames among them were handled. What is put
    off outside of any turn is done in the event loop's next.
    """

    def __init__(self) -> None:
        self._due: dict[Callable[[], None], None] = {}
        self._depth = 0
        self._scheduled = False

    def put_off(self, work: Callable[[], None]) -> None:
        self._due[work] = None
        if not self._depth:
            self._schedule()

    def begin(self) -> None:
        self._depth += 1

    def end(self) -> None:
        try:
            if self._due and self._depth == 1:
                while self._due:
                    work = next(iter(self._due))
                    del self._due[work]
                    work()
        finally:
            self._depth -= 1
            if self._due and not self._depth:
                self._schedule()  # work that failed must not keep the rest from being done

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self.begin()
        self.end()
