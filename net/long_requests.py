"""Long requests: read in a thread of their own, and only a few worked on at once, for all connections together.

A request has a *slot* while it is read and worked on, and none while it waits: for other brokers, for records, for a group.
What it holds in memory is counted until its work has ended and its answer has left.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import RemoteProtocolError

logger = logging.getLogger(__name__)

IN_HAND_MAX: Final = 4
"""Slots. A request of 400,000 elements takes up to 200 MB."""

SLOT_S: Final = 5.0
"""No request keeps its slot for longer at a time, whatever it does: one may wait for ZooKeeper."""

MIB: Final = 1024 * 1024

BODIES_MAX: Final = 256 * MIB
"""Bytes of long requests as they came in, of those that wait for a slot too. One above it is refused."""
BODIES_OF_IP_MAX: Final = BODIES_MAX // 2
"""The same for all connections from one address, unless it is a single request."""

ELEMENT_BYTES: Final = 500
"""What an element of a request that was read takes at most, with its part of the answer."""
BYTES_OF_ELEMENT: Final = 8
"""Where elements are not counted (native), each has so many bytes at least."""

CROWDED: Final = 400 * MIB
"""When the requests that were read take more, no other is read, and none of them waits for anything any more."""

Read = Callable[[], IncomingRequest | UnreadableRequest]
"""Reads the request, in a thread. It holds the bytes."""

OnRead = Callable[[IncomingRequest | UnreadableRequest | None, str], None]
"""Called with the request, or with None and why it cannot be read."""

_reader = ThreadPoolExecutor(1, "long requests")

_shielded: "dict[asyncio.Future[Reply], asyncio.Task[Reply]]" = {}


def note_shielded(answer: "asyncio.Future[Reply]", task: "asyncio.Task[Reply]") -> None:
    """The task goes on though its answer may be cancelled."""
    _shielded[answer] = task
    task.add_done_callback(lambda _: _shielded.pop(answer, None))


class InHand:
    """One long request, from its arrival until its work has ended and its answer has left (or its client)."""

    def __init__(self, requests: "LongRequests", ip: str, read: Read, on_read: OnRead) -> None:
        self._requests = requests
        self.ip = ip
        self.is_read = False
        self.body_bytes = 0
        self.object_bytes = 0
        self.start: Callable[[], None] | None = None
        """What is done once it has a slot; None if it waits for none."""
        self._read: Read | None = read
        self._on_read = on_read
        self._has_slot = False
        self._lapse: asyncio.TimerHandle | None = None
        self._works = 0
        """The reading, and the tasks that its handler began."""
        self._is_owed = True
        self._has_ended = False

    def wait_to_be_read(self) -> None:
        """Read it in its turn, and call ``on_read``, unless its client has gone by then. Only the first call counts."""
        read, self._read = self._read, None
        if read is not None:
            self.start = partial(self._read_now, read)
            self._requests.wait_to_read(self)

    def _read_now(self, read: Read) -> None:
        self._works += 1
        reading = asyncio.get_running_loop().run_in_executor(_reader, read)
        reading.add_done_callback(self._was_read)

    def _was_read(self, done: "asyncio.Future[IncomingRequest | UnreadableRequest]") -> None:
        self.is_read = True
        try:
            error = None if done.cancelled() else done.exception()
            if error is None and not done.cancelled():
                request = done.result()
                if isinstance(request, IncomingRequest):
                    elements = request.elements or self.body_bytes // BYTES_OF_ELEMENT
                    self._requests.count_objects(self, elements * ELEMENT_BYTES)
                if self._is_owed:
                    self._on_read(request, "")
                return
            if not isinstance(error, RemoteProtocolError):
                logger.error("a long request could not be read", exc_info=error)
            if self._is_owed:
                self._on_read(
                    None, str(error) if isinstance(error, RemoteProtocolError) else "its request could not be read"
                )
        finally:
            self._work_ended()

    # --- for its handler -----------------------------------------------------------------------------------------------

    @property
    def may_wait(self) -> bool:
        """Whether it may go on waiting: its client is there, and memory suffices."""
        return self._is_owed and not self._requests.is_crowded

    def give_slot_back(self) -> None:
        """It waits from now on. Only the first call after it got a slot counts."""
        if self._has_slot:
            self._has_slot = False
            if self._lapse is not None:
                self._lapse.cancel()
            self._requests.take_back_slot()

    async def take_slot_again(self) -> None:
        """There is more to do: in turn with others that go on, and with those that are to be read."""
        if self._has_slot or self._has_ended:
            return
        granted = asyncio.get_running_loop().create_future()
        self.start = lambda: None if granted.done() else granted.set_result(None)
        self._requests.wait_to_go_on(self)
        try:
            await granted
        finally:
            self.start = None  # if it was cancelled; what it was given meanwhile ends with its task

    def body_is_done(self) -> None:
        """Nobody needs the bytes any more in which it came."""
        self._requests.count_body(self, 0)

    # --- for its connection --------------------------------------------------------------------------------------------

    def is_answered_by(self, answer: "Later | asyncio.Future[Reply]") -> None:
        """What its handler gave. It has not ended before the task behind that has, though its client may be gone.

        A Later comes from a group, sometime: the group keeps, and limits, what it needs for that.
        """
        if isinstance(answer, Later):
            self._requests.count_body(self, 0)
            self._requests.count_objects(self, 0)
        else:
            self._works += 1
            _shielded.get(answer, answer).add_done_callback(lambda _: self._work_ended())

    def leave(self) -> None:
        """Its answer has left, or its client has."""
        self._is_owed = False
        self._settle()

    def grant_slot(self) -> None:
        self._has_slot = True
        self._lapse = asyncio.get_running_loop().call_later(SLOT_S, self.give_slot_back)

    def _work_ended(self) -> None:
        self._works -= 1
        self._settle()

    def _settle(self) -> None:
        if self._works:
            return
        if not self._is_owed and not self._has_ended:
            self._has_ended = True
            self.start = self._read = None
            self._requests.count_body(self, 0)
            self._requests.count_objects(self, 0)
        self.give_slot_back()


class LongRequests:
    """Those of one event loop."""

    def __init__(self) -> None:
        self.in_hand = 0
        """Slots that are taken."""
        self.body_bytes = 0
        self.object_bytes = 0
        self._bodies_of: Counter[str] = Counter()
        self._to_read = _RoundRobin()
        self._to_go_on = _RoundRobin()
        self._is_reading_next = True

    def arrived(self, ip: str, size: int, read: Read, on_read: OnRead) -> InHand:
        """One that has so many bytes. RemoteProtocolError if there are too many."""
        of_ip = self._bodies_of[ip]
        if self.body_bytes + size > BODIES_MAX and self.body_bytes:
            raise RemoteProtocolError(
                f"a long request of {size} bytes, others hold {self.body_bytes}; allowed are {BODIES_MAX} together"
            )
        if of_ip + size > BODIES_OF_IP_MAX and of_ip:
            raise RemoteProtocolError(
                f"a long request of {size} bytes, others from {ip} hold {of_ip}; allowed are {BODIES_OF_IP_MAX} together"
            )
        one = InHand(self, ip, read, on_read)
        self.count_body(one, size)
        return one

    @property
    def is_crowded(self) -> bool:
        """Whether those that were read take much memory."""
        return self.object_bytes > CROWDED

    def count_body(self, one: InHand, size: int) -> None:
        more = size - one.body_bytes
        one.body_bytes = size
        self.body_bytes += more
        self._bodies_of[one.ip] += more
        if not self._bodies_of[one.ip]:
            del self._bodies_of[one.ip]

    def count_objects(self, one: InHand, size: int) -> None:
        self.object_bytes += size - one.object_bytes
        one.object_bytes = size
        self._begin()

    def wait_to_read(self, one: InHand) -> None:
        self._to_read.add(one)
        self._begin()

    def wait_to_go_on(self, one: InHand) -> None:
        self._to_go_on.add(one)
        self._begin()

    def take_back_slot(self) -> None:
        self.in_hand -= 1
        self._begin()

    def _begin(self) -> None:
        while self.in_hand < IN_HAND_MAX:
            one = self._next()
            if one is None:
                return
            start, one.start = one.start, None
            if start is not None:
                self.in_hand += 1
                one.grant_slot()
                start()

    def _next(self) -> InHand | None:
        """Those to be read and those that go on take turns: a hundred fetches that look again delay a commit by one look."""
        may_read = not self.is_crowded
        queues = (self._to_read if may_read else None, self._to_go_on)
        self._is_reading_next = not self._is_reading_next
        for queue in queues if self._is_reading_next else queues[::-1]:
            one = queue.take() if queue is not None else None
            if one is not None:
                return one
        return None


class _RoundRobin:
    """Those that wait for a slot: each address has its turn."""

    def __init__(self) -> None:
        self._of_ip: dict[str, deque[InHand]] = {}

    def add(self, one: InHand) -> None:
        self._of_ip.setdefault(one.ip, deque()).append(one)

    def take(self) -> InHand | None:
        """The next one that still waits."""
        while self._of_ip:
            ip = next(iter(self._of_ip))
            waiting = self._of_ip.pop(ip)
            one = waiting.popleft()
            if waiting:
                self._of_ip[ip] = waiting  # behind all others
            if one.start is not None:
                return one
        return None


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LongRequests] = WeakKeyDictionary()


def long_requests() -> LongRequests:
    """Those of the running event loop."""
    return _of_loops.setdefault(asyncio.get_running_loop(), LongRequests())
