"""Cutting a byte stream into frames: ``u32 length`` and a body, again and again.

Made for asyncio.BufferedProtocol: the socket writes straight into a buffer of ours, and a frame is a view of it. All
streams of a thread receive into one *shared* buffer. The beginning of a frame that has not arrived whole stays there until
another stream wants to receive, and only then moves to memory of its own. So ten thousand idle connections cost nothing, the
busy ones stay in the core's cache, and one that is alone copies nothing.
"""

import struct
from collections.abc import Callable
from typing import Final

from ottla.wire.errors import RemoteProtocolError

LENGTH = struct.Struct(">I")
LENGTH_SIZE: Final = 4
assert LENGTH.size == LENGTH_SIZE
_read_length = LENGTH.unpack_from

FRAME_MAX: Final = 100 * 1024 * 1024
"""The longest frame anyone may send unless configured (Kafka's socket.request.max.bytes)."""

CHUNK: Final = 1088 * 1024
"""How much one read may bring: a producer's largest request unless configured, with its head. Fits a core's cache."""

GROWTH: Final = 4
"""A buffer grows to at most this many times what has really arrived: a lying length costs the liar, not us."""

PARK_MAX: Final = 16 * 1024
"""A beginning of at most this size is kept in just as many bytes: a thousand slow peers do not hold a thousand chunks."""

HEAD_SIZE: Final = 7
"""So many bytes of a body are looked at where a frame is longer than any may be: its api stands there in both dialects."""

TRUSTED_MAX: Final = 16 * 1024 * 1024
"""A frame that somebody asked for (``trusted``) gets its memory at once up to this size, a longer one as it arrives."""


class BufferPool:
    """Receive buffers of all streams of one thread, and a limit on what half-received frames hold together."""

    def __init__(self, limit: int = 512 * 1024 * 1024) -> None:
        self._limit = limit
        self.shared = memoryview(bytearray(CHUNK))
        """Where every stream receives that has nothing pending."""
        self._holder: FrameReader | None = None  # who has the beginning of a frame there
        self.in_use = 0

    def hold(self, reader: "FrameReader") -> None:
        """This stream's pending bytes lie in the shared buffer."""
        self._holder = reader

    def let_go(self, reader: "FrameReader") -> None:
        """They do not any more."""
        if self._holder is reader:
            self._holder = None

    def clear_for(self, reader: "FrameReader") -> None:
        """This stream is about to receive into the shared buffer: whoever has something there takes it away."""
        if self._holder is not None and self._holder is not reader:
            self._holder.move_out()

    def take(self, size: int) -> bytearray:
        self.in_use += size
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        self.in_use -= len(buffer)

    def check(self, more: int = 0) -> None:
        """Raise if half-received frames hold too much already, or would with ``more`` bytes."""
        if self.in_use + more > self._limit:
            raise RemoteProtocolError(f"half-received frames hold {self.in_use} bytes; allowed are {self._limit}")


class FrameReader:
    """One stream's frames. Call ``get_buffer`` before and ``received`` after each read, then ``next_frame`` until None.

    Frames are *borrowed*: a view that is valid until ``next_frame`` is called again. Whoever stops before there was a None
    must call ``keep``, for the bytes that are left may lie in the shared buffer. With ``detach`` (a client, whose caller keeps
    what it fetched) every frame has memory of its own. With ``trusted`` (the other side sends what it was asked for) a large
    one is received into memory that was made for it, without a copy.
    """

    __slots__ = (
        "_buffer",
        "_detach",
        "_end",
        "_pool",
        "_start",
        "_trusted",
        "_view",
        "frame_max",
        "longest",
        "on_longer",
    )

    def __init__(
        self, pool: BufferPool, frame_max: int = FRAME_MAX, *, trusted: bool = False, detach: bool = False
    ) -> None:
        self._pool = pool
        self.frame_max = frame_max
        self.longest = frame_max
        """No frame may be longer, whatever ``on_longer`` says."""
        self.on_longer: Callable[[memoryview], int] | None = None
        """Asked with the first bytes of each frame that is longer: how long one may be that begins so. None: no longer."""
        self._trusted = trusted
        self._detach = detach
        self._buffer: bytearray | None = None  # None: the shared one
        self._view = pool.shared
        self._start = 0  # first byte not yet given out
        self._end = 0  # first byte not yet received

    @property
    def partial(self) -> bool:
        """Whether the beginning of a frame waits for its end."""
        return self._end > self._start

    def get_buffer(self) -> memoryview:
        if self._buffer is None:
            self._pool.clear_for(self)
        elif self._end == len(self._view):
            self._move_in()
        return self._view[self._end :] if self._end else self._view

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame's body, or None when more bytes must come first."""
        start = self._start
        have = self._end - start
        if have < LENGTH_SIZE:
            if have:
                self._make_room(LENGTH_SIZE)
            else:
                self.close()
            return None
        size: int = _read_length(self._view, start)[0]
        if not 0 < size <= self.frame_max and not self._may_be_longer(size):
            return None
        if have < LENGTH_SIZE + size:
            self._make_room(LENGTH_SIZE + size)
            return None
        body = start + LENGTH_SIZE
        end = self._start = body + size
        frame = self._view[body:end]
        if not self._detach:
            return frame
        if self._buffer is not None and end == self._end and len(self._view) == LENGTH_SIZE + size:
            self._pool.in_use -= len(self._buffer)
            self._forget()  # the buffer was made for this very frame: it goes with it
            return frame
        return memoryview(bytes(frame))

    def _may_be_longer(self, size: int) -> bool:
        """Whether a frame is longer for a good reason; False if that is not known yet. Raises if it is not."""
        allowed = self.frame_max
        if self.on_longer is not None and 0 < size <= self.longest:
            if self._end - self._start < LENGTH_SIZE + HEAD_SIZE:
                self._make_room(LENGTH_SIZE + HEAD_SIZE)
                return False
            body = self._start + LENGTH_SIZE
            allowed = self.on_longer(self._view[body : body + HEAD_SIZE])
        if not 0 < size <= allowed:
            raise RemoteProtocolError(f"a frame of {size} bytes; allowed are 1 to {allowed}{_guess(size)}")
        return True

    def detach_frame(self, frame: memoryview) -> tuple[memoryview, int]:
        """The frame that was given out last, as memory that is not used again, and its size: the pool counts it until somebody
        calls ``release`` with that."""
        if self._buffer is not None and self._start == self._end:
            size = len(self._buffer)
            self._forget()
            return frame, size
        own = bytearray(frame)  # records are stamped in place
        self._pool.in_use += len(own)
        return memoryview(own), len(own)

    def release(self, size: int) -> None:
        self._pool.in_use -= size

    def keep(self) -> None:
        """Nothing more is taken for now: what is left in the shared buffer must not be overwritten by the next stream."""
        if self._buffer is None and self._end > self._start:
            self._pool.hold(self)

    def move_out(self) -> None:
        """Another stream needs the shared buffer: what is pending there goes to memory of its own."""
        count = self._end - self._start
        needed = LENGTH_SIZE + int(_read_length(self._view, self._start)[0]) if count >= LENGTH_SIZE else count
        self._move_to(self._pool.take(_own_size(needed, count)))

    def _move_in(self) -> None:
        """What was moved out goes on: it goes back to the shared buffer, which has room behind it."""
        count = self._end - self._start
        if self._buffer is None or count >= CHUNK:
            self._move_to(self._pool.take(2 * count))
            return
        self._pool.clear_for(self)
        self._pool.shared[:count] = self._view[self._start : self._end]
        self._pool.give_back(self._buffer)
        self._buffer, self._view = None, self._pool.shared
        self._start, self._end = 0, count
        self._pool.hold(self)

    def close(self) -> None:
        """Give the memory back; nothing is pending."""
        if self._buffer is not None:
            self._pool.give_back(self._buffer)
            self._forget()
        else:
            self._start = self._end = 0
            self._pool.let_go(self)

    def _make_room(self, needed: int) -> None:
        """Prepare for the next read: the pending bytes go where more can be received behind them."""
        count = self._end - self._start
        size = self._better_size(needed, count)
        self._pool.check(size)
        stays = self._buffer is None and not self._detach and needed <= CHUNK
        if size and not stays:
            self._move_to(self._pool.take(size))
        elif self._start + needed > len(self._view):
            self._view[:count] = self._view[self._start : self._end]
            self._start, self._end = 0, count
        if stays:
            self._pool.hold(self)

    def _better_size(self, needed: int, count: int) -> int:
        """How large a buffer ``count`` pending bytes of a frame of ``needed`` should move to; 0 if they lie well."""
        shared = self._buffer is None
        have = 0 if shared else len(self._view)
        if self._trusted:
            if have < needed <= TRUSTED_MAX:
                return needed  # exact, so that a frame that is detached can take the buffer with it
            if have < TRUSTED_MAX < needed:
                return TRUSTED_MAX
        if shared:
            return _own_size(needed, count)
        # Only a full buffer grows: else every few bytes that arrive would cost a copy of all that did before.
        return min(needed, count * GROWTH) if count == have else 0

    def _move_to(self, buffer: bytearray) -> None:
        """Go on in another buffer, with the pending bytes at its front."""
        count = self._end - self._start
        view = memoryview(buffer)
        view[:count] = self._view[self._start : self._end]
        if self._buffer is not None:
            self._pool.give_back(self._buffer)
        else:
            self._pool.let_go(self)
        self._buffer, self._view = buffer, view
        self._start, self._end = 0, count

    def _forget(self) -> None:
        self._buffer, self._view = None, self._pool.shared
        self._start = self._end = 0


def _own_size(needed: int, count: int) -> int:
    """How much memory of its own ``count`` bytes of a frame of ``needed`` get: not more than the sender has earned."""
    return count if count <= PARK_MAX else max(count, min(needed, count * GROWTH))


def _guess(size: int) -> str:
    """What the other side probably speaks, when a length makes no sense."""
    head = size.to_bytes(4, "big")
    if head in (b"GET ", b"POST", b"HEAD", b"PUT ", b"HTTP"):
        return "; that looks like HTTP"
    if head[:2] in (b"\x16\x03", b"\x15\x03"):
        return "; that looks like TLS"
    return ""
