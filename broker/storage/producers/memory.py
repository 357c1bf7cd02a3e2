"""The memory that one broker gives to what its partitions remember of idempotent producers.

A producer expires when it was silent for producer.id.expiration.ms: its batches are forgotten, and some days later the producer
itself. If memory is full before (producer.state.max.bytes), the
one that was silent for longest, of all partitions, is evicted; its partition notes that, so that it refuses the producer's
batches with UNKNOWN_PRODUCER_ID if it returns, instead of storing one of them a second time.
"""

import heapq
import logging
import threading
import time
from itertools import count
from typing import Protocol

logger = logging.getLogger(__name__)

LIMIT_BYTES = 64 * 1024 * 1024
EXPIRATION_MS = 24 * 3600 * 1000
FORGET_MS = 7 * EXPIRATION_MS

EVICTIONS_AT_ONCE = 1000
"""The most that one append evicts. It adds one producer at most, so one is nearly always enough."""

WARN_EVERY_S = 3600.0


class Holder(Protocol):
    """What one partition remembers of its producers."""

    size: int
    """In bytes, about."""
    closed: bool

    def oldest_s(self) -> float | None:
        """When the producer that was silent for longest sent its last batch; None if there is no producer."""

    def evict_oldest(self) -> bool:
        """Forget that producer; whether it had not expired yet, so that it counts as evicted."""


class ProducerMemory:
    """Counts what all partitions of one broker remember. Logs are opened and closed in threads, so a lock guards the count.

    ``make_room`` changes what partitions remember, so it runs on the event loop, like everything else that does.
    """

    def __init__(
        self, limit_bytes: int = LIMIT_BYTES, expiration_ms: int = EXPIRATION_MS, forget_ms: int = FORGET_MS
    ) -> None:
        """``forget_ms``: how long it is remembered of an expired producer that it was there.

        So a named write [I29] that is tried again after days is refused instead of stored twice.
        """
        self.limit_bytes = limit_bytes
        self.expiration_s = expiration_ms / 1000
        self.forget_s = max(forget_ms, expiration_ms) / 1000
        self.used_bytes = 0
        self.evicted = 0
        """How many producers were evicted before they expired."""
        self._lock = threading.Lock()
        self._by_age: list[tuple[float, int, Holder]] = []
        """A heap. The time is that of the holder's oldest producer, or an earlier one: it is looked up when it comes first."""
        self._closed = 0
        """How many of them are closed."""
        self._number = count()
        self._warned_s: float | None = None

    def add(self, holder: Holder) -> None:
        """Count a partition from now on."""
        oldest_s = holder.oldest_s()
        with self._lock:
            self.used_bytes += holder.size
            heapq.heappush(
                self._by_age, (time.monotonic() if oldest_s is None else oldest_s, next(self._number), holder)
            )

    def remove(self, holder: Holder) -> None:
        """A partition is closed."""
        with self._lock:
            self.used_bytes -= holder.size
            holder.closed = True
            self._closed += 1
            if self._closed > len(self._by_age) // 2:  # the others of them are dropped when they come first
                self._by_age = [one for one in self._by_age if not one[2].closed]
                heapq.heapify(self._by_age)
                self._closed = 0

    def change(self, change_bytes: int) -> None:
        """A partition remembers more, or less."""
        with self._lock:
            self.used_bytes += change_bytes

    def make_room(self) -> None:
        """Evict the producers that were silent for longest until the rest fits."""
        now_s = time.monotonic()
        for _ in range(EVICTIONS_AT_ONCE):
            with self._lock:
                if self.used_bytes <= self.limit_bytes or not self._by_age:
                    return
                known_s, number, holder = self._by_age[0]
                if holder.closed:
                    heapq.heappop(self._by_age)
                    self._closed -= 1
                    continue
                oldest_s = holder.oldest_s()
                if oldest_s is None or oldest_s > known_s:
                    heapq.heapreplace(self._by_age, (now_s if oldest_s is None else oldest_s, number, holder))
                    if oldest_s is None and known_s >= now_s:
                        return  # no partition remembers anything
                    continue
            if holder.evict_oldest():
                self.evicted += 1
                self._warn(now_s)

    def _warn(self, now_s: float) -> None:
        if self._warned_s is not None and now_s - self._warned_s < WARN_EVERY_S:
            return
        self._warned_s = now_s
        logger.warning(
            "producers evicted: the memory for idempotent producers is full; one that returns is refused with "
            "UNKNOWN_PRODUCER_ID and begins anew. Raise producer.state.max.bytes, or reuse producers instead of making many. "
            "limit_bytes=%d evicted=%d",
            self.limit_bytes, self.evicted,
        )  # fmt: skip
