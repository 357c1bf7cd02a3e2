"""One peer of a server: frames in, answers out in the order of the requests, and a limit on everything.

A handler is called with a request and gives back at once a Reply, or None (nothing to answer), or the promise of a Reply:
a Later, or a future. Until it is kept the answers of later requests wait behind it. A request's attachments are borrowed:
they are gone once the handler has returned. The peer's first bytes pick its dialect (wire/dialect.py).
"""

import asyncio
import time
from functools import partial
from typing import cast

from ottla.net.answers import Answers, encode, memory_of, must_be_converted
from ottla.net.busy_poll import busy_poll
from ottla.net.host import Host
from ottla.net.limits import longest_frame
from ottla.net.long_requests import InHand, long_requests
from ottla.net.principal import ANONYMOUS, Principal
from ottla.net.reply import Later, LaterFromFuture, Reply
from ottla.net.socket_options import end_when_silent, has_hung_up, set_no_delay
from ottla.wire.batch import Buffer
from ottla.wire.dialect import Dialect, IncomingRequest, UnreadableRequest, dialect_of
from ottla.wire.errors import RemoteProtocolError
from ottla.wire.framing import FrameReader
from ottla.wire.messages import Api
from ottla.wire.request_limits import LongRequest

PROVING = (Api.API_VERSIONS, Api.BROKER_HANDSHAKE)
"""What a peer may ask before it has proven to be a broker, where only brokers are served."""

COUNT_BYTES = 16 * 1024
"""A connection tells its server what it holds for its peer whenever it is so much more than at the last time."""


class Connection(asyncio.BufferedProtocol):
    """One peer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._handler = host.handler
        self._turn = host.turn
        self._busy = busy_poll()
        self._long_requests = long_requests()
        self._limits = host.limits
        self._reader = FrameReader(host.pool, min(host.limits.first_frame_max, host.limits.frame_max))
        self._reader.longest = host.limits.frame_max
        self._reader.on_longer = self._longest_frame
        self._transport: asyncio.Transport | None = None
        self._dialect: Dialect | None = None
        self._answers = Answers(self._promise_kept, lambda: self._stalled_at is None)
        self._out: list[Buffer] = []
        self._working = False
        self.in_hand: InHand | None = None
        """The long request that is being read or handled, or that waits for that."""
        self._greeted = False
        self._read_paused = False
        self._opened_at = self._heard_at = time.monotonic()
        self._frame_began_at: float | None = None
        self._stalled_at: float | None = None
        self._unsent = 0
        self._memory = 0
        self._uncounted = 0
        self._refused: str | None = None
        self.peer = "?"
        self.ip = "?"
        self.listener = host.listener
        """The name of the listener through which the peer came in."""
        self.principal: Principal = ANONYMOUS
        """Whom the peer has proven to be."""
        self.must_prove = False
        """Whether only a broker is served over this connection, because descriptors are nearly exhausted."""

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.ip, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
        set_no_delay(transport)
        end_when_silent(transport, int(self._limits.write_stall_s * 1000))  # a slow reader may be silent for as long
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_high)
        if not self._host.admit(self):
            self._transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        # First of all: an answer that is given because the peer has gone would let the next one be made, and whatever that
        # keeps for the peer would be kept for ever.
        self._answers.abandon()
        self._host.forget(self)
        self._end_long()
        self._reader.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.received(nbytes)
        self._heard_at = time.monotonic()
        self._turn.begin()
        try:
            self._work()
            self._reader.keep()
        finally:
            self._turn.end()  # or no turn of any connection would end any more
        self._busy.active(nbytes)

    def pause_writing(self) -> None:
        self._stalled_at = time.monotonic()
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._stalled_at = None
        self._promise_kept()  # what was held back meanwhile
        self._work()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle whole frames until there are none, or until the peer must first take its answers."""
        if self._is_refused():  # it was told once, and hung up on
            return
        self._working = True
        next_frame = self._reader.next_frame
        try:
            while not self._saturated():
                frame = next_frame()
                if frame is None:
                    break
                self._frame_began_at = None
                self._handle(frame)
                if self._is_refused():
                    break
                if self._unsent > self._limits.write_buffer_high:
                    self._flush()  # the transport says pause if the peer does not take it
        except RemoteProtocolError as error:
            self._refused = str(error)
        finally:
            self._working = False
        if self._out:
            self._flush()
        self._hang_up_if_refused()
        self._read_when_next()
        if not self._reader.partial:
            self._frame_began_at = None
        elif self._frame_began_at is None:
            self._frame_began_at = self._heard_at
        if self._read_paused or self._owes_much():
            self._adjust_reading()

    def _handle(self, frame: memoryview) -> None:
        dialect = self._dialect
        if dialect is None:
            dialect = self._dialect = dialect_of(self._host.dialects, frame)
        try:
            request = dialect.read_request(frame)
        except LongRequest:
            self._read_long(dialect, frame)
            return
        self._respond(dialect, request)

    def _read_long(self, dialect: Dialect, frame: memoryview) -> None:
        """Read a request in a thread, and handle no other one until it is answered. Requests of authenticated brokers are
        read at once: neither they nor their answers wait behind those of clients."""
        if self.principal is not ANONYMOUS:
            request = dialect.read_long_request(frame)
            if isinstance(request, IncomingRequest):
                request.is_long = False
            self._respond(dialect, request)
            return
        body, size = self._reader.detach_frame(frame)
        self._reader.release(size)  # from here on it is counted among long requests
        self.in_hand = self._long_requests.arrived(
            self.ip, size, partial(dialect.read_long_request, body), self._long_is_read
        )

    def _read_when_next(self) -> None:
        """Read a long request once the answers before it have left: what it becomes must not wait behind them."""
        if self.in_hand is not None and self._stalled_at is None and not len(self._answers) and not self._out:
            self.in_hand.wait_to_be_read()

    def _long_is_read(self, request: IncomingRequest | UnreadableRequest | None, why_not: str) -> None:
        """A long request was read, or was none."""
        if self._transport is None or self._transport.is_closing():
            self._end_long()
            return
        self._turn.begin()
        try:
            if request is not None:
                self._respond(request.dialect, request)
            else:
                self._refused = why_not
            self._hang_up_if_refused()
            if not len(self._answers):
                self._end_long()
            self._work()
            self._reader.keep()
        finally:
            self._turn.end()

    def _hang_up_if_refused(self) -> None:
        if self._refused is not None:
            self._host.complain(self, self._refused)
            self.close()

    def _end_long(self) -> None:
        """The long request is answered, and the next one may come; or the peer has gone."""
        if self.in_hand is not None:
            self.in_hand.leave()
            self.in_hand = None

    def _respond(self, dialect: Dialect, request: IncomingRequest | UnreadableRequest) -> None:
        self._greeted = True
        if isinstance(request, UnreadableRequest):
            self._answer(dialect.encode_error(request, request.error))
            return
        if self.is_proving and request.api not in PROVING:
            self._host.turn_away(self)
            self.abort()
            return
        reply = self._handler(request, self)
        if isinstance(reply, Reply):
            if (reply.attachments or request.is_long) and must_be_converted(request, reply):
                later = Later()
                later.reply = reply
                self._promise(request, later)
            else:
                self._answer(encode(request, reply))
        elif reply is not None:
            if self.in_hand is not None:
                self.in_hand.is_answered_by(reply)
            self._promise(request, reply if isinstance(reply, Later) else LaterFromFuture(reply))

    @property
    def _is_believed(self) -> bool:
        """Whether the peer may send large requests: it has sent a valid one. (Where peers must authenticate: it has.)"""
        return self._greeted

    def _longest_frame(self, head: memoryview) -> int:
        dialects = self._host.dialects if self._dialect is None else (self._dialect,)
        return longest_frame(self._limits, dialects, head, self._is_believed)

    def _answer(self, pieces: list[Buffer]) -> None:
        if len(self._answers):
            self._answers.add(pieces)
        else:
            self._write(pieces)

    def _promise(self, request: IncomingRequest, later: Later) -> None:
        if self.in_hand is None:
            request.attachments.clear()  # borrowed: gone by the time of the answer
        self._answers.promise(request, later)

    def _promise_kept(self) -> None:
        """Send every answer that waited for this one, up to the next that is not ready."""
        answers = self._answers
        pieces = answers.take()
        while pieces is not None:
            self._write(pieces)
            pieces = answers.take()
        answers.try_next_again()
        was_long = self.in_hand is not None and self.in_hand.is_read and not len(answers)
        if was_long:
            self._end_long()
        if (self._out or was_long) and not self._working:
            if self._out:
                self._flush()
            if self._read_paused or self._reader.partial:
                self._turn.begin()
                try:
                    self._work()
                finally:
                    self._turn.end()
        self._read_when_next()

    def takes(self, later: Later) -> bool:
        """Whether an answer would leave now. If not, there is no hurry to make it: ``later`` is tried again when it would.

        A fetch that waits is read only then, or a peer that does not read could fill the memory with what it waits for.
        """
        if self._stalled_at is None and self._answers.is_next(later):
            return True
        later.held_back = True
        return False

    def _write(self, pieces: list[Buffer]) -> None:
        self._out += pieces
        for piece in pieces:
            self._unsent += len(piece)
        memory = memory_of(pieces)
        self._memory += memory
        self._uncounted += memory

    def _flush(self) -> None:
        """Give the socket what was put out."""
        out, self._out, self._unsent = self._out, [], 0
        if self._transport is None or self._transport.is_closing():
            return
        if len(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(cast("list[bytes]", out))
        if self._uncounted > COUNT_BYTES:
            uncounted, self._uncounted = self._uncounted, 0
            self._host.count_unsent(uncounted)

    # --- limits ------------------------------------------------------------------------------------------------------

    def _owes_much(self) -> bool:
        """Whether the peer has so many answers to wait for, or to take, that it must not ask for more."""
        limits = self._limits
        return (
            self._stalled_at is not None
            or self.in_hand is not None
            or len(self._answers) >= limits.requests_in_flight
            or self._answers.held > limits.write_buffer_high
        )

    def _saturated(self) -> bool:
        return self._owes_much() or self._transport is None or self._transport.is_closing()

    def _adjust_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        saturated = self._saturated()
        if saturated and not self._read_paused:
            self._transport.pause_reading()
        elif not saturated and self._read_paused:
            if self._frame_began_at is not None:
                self._frame_began_at = time.monotonic()  # it could not go on while we did not read
            self._transport.resume_reading()
        self._read_paused = saturated

    @property
    def stalled_at(self) -> float | None:
        """Since when the peer has had more to take than it should; None if it has not."""
        return self._stalled_at

    def unsent_memory(self) -> int:
        """How much memory holds answers that the peer has not taken; slices of mapped files need none."""
        if self._transport is None:
            return 0
        unsent = self._transport.get_write_buffer_size() + self._unsent
        if not unsent:
            self._memory = 0
        return min(self._memory, unsent) + self._answers.held

    def overdue(self, now: float) -> str | None:
        """Why this connection should be cut now, if it should."""
        limits = self._limits
        if self._stalled_at is not None:
            return "it does not read its answers" if now - self._stalled_at > limits.write_stall_s else None
        if not self._greeted and now - self._opened_at > limits.first_frame_s:
            return "it said nothing sensible"
        if self._frame_began_at is not None and not self._read_paused and now - self._frame_began_at > limits.frame_s:
            return "its frame never ended"
        if not len(self._answers) and now - self._heard_at > limits.idle_s:
            return "it was idle"
        return None

    def proves_too_slowly(self, now: float) -> bool:
        """Whether only a broker is served over this connection, and it should have proven by now to come from one."""
        return self.is_proving and now - self._opened_at > self._limits.proving_s

    def has_gone(self) -> bool:
        """Whether the peer has hung up where we cannot see it: behind requests that we do not read at the moment."""
        sock = self._transport.get_extra_info("socket") if self._read_paused and self._transport is not None else None
        return sock is not None and has_hung_up(sock)

    @property
    def is_proving(self) -> bool:
        """Whether it must prove to come from a broker, and has not yet."""
        return self.must_prove and self.principal is ANONYMOUS

    @property
    def descriptor(self) -> int:
        """The number of its file descriptor: the kernel gives the lowest that is free."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        return sock.fileno() if sock is not None else -1

    def refuse(self, why: str) -> None:
        """For a handler that caught the peer cheating: hang up after its answer, and say so in the log."""
        self._refused = why

    def _is_refused(self) -> bool:
        return self._refused is not None

    def close(self) -> None:
        """Hang up once what was answered has left; a peer that does not take it is cut in time."""
        if self._out:  # a handler may hang up in the middle of a turn: the answers to requests before it are not lost
            self._flush()
        if self._stalled_at is None:
            self._stalled_at = time.monotonic()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up now."""
        if self._transport is not None:
            self._transport.abort()
