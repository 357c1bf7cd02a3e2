"""The file descriptors that the segments of one broker hold beside those of active segments, within limits.

A memory map holds a descriptor of its own, and a sealed segment keeps the one it was written by until it is flushed, because
only an old descriptor is sure to be told of a failed write-back. So both are counted here, for all logs of a broker.
"""

import mmap
import threading
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

MAPS_MAX = 1024
"""Memory maps at once where nobody says otherwise; a broker derives its limit from RLIMIT_NOFILE."""

UNFLUSHED_MAX = 256
"""Sealed segments that wait for their first flush, likewise."""

ATTEMPTS = 32
"""How many maps are looked at to find one that can be released."""


class Mapped(Protocol):
    """A file with a memory map."""

    was_read: bool

    def unmap(self) -> bool: ...


class OpenFiles:
    """Of one broker. Maps are made and released on the event loop; logs are closed and flushed in threads."""

    def __init__(self, maps_max: int = MAPS_MAX, unflushed_max: int = UNFLUSHED_MAX) -> None:
        self.maps_max = maps_max
        self.unflushed_max = unflushed_max
        self.unflushed = 0
        """Sealed segments that hold a descriptor until they are flushed."""
        self.on_many_unflushed: list[Callable[[], None]] = []
        """All are called, on the event loop, when there are too many of those: they should be flushed now."""
        self._lock = threading.Lock()
        self._mapped: dict[Mapped, None] = {}
        self._held: WeakSet[mmap.mmap] = WeakSet()

    @property
    def maps(self) -> int:
        """How many maps there are, also of files that were mapped anew while readers held the old map."""
        return len(self._mapped) + len(self._held)

    def has_room(self) -> bool:
        """Whether one more file may be mapped. If need be, one is unmapped that was not read lately and nobody reads now."""
        with self._lock:
            if self.maps < self.maps_max:
                return True
            for _ in range(min(ATTEMPTS, 2 * len(self._mapped))):
                file = next(iter(self._mapped))
                del self._mapped[file]
                if not file.was_read and file.unmap():
                    return True
                file.was_read = False  # a second chance; and a map whose slices somebody holds would stay open anyway
                self._mapped[file] = None
            return False

    def add_map(self, file: Mapped) -> None:
        with self._lock:
            self._mapped[file] = None

    def forget_map(self, file: Mapped) -> None:
        """Its owner is about to release it: from now on nobody else does."""
        with self._lock:
            self._mapped.pop(file, None)

    def hold(self, retired: mmap.mmap) -> None:
        """Readers hold slices of a map that nobody else needs: it counts until they let go of them."""
        with self._lock:
            self._held.add(retired)

    def sealed(self) -> None:
        """A segment that is not flushed was sealed."""
        with self._lock:
            self.unflushed += 1
        if self.unflushed > self.unflushed_max:
            for listener in self.on_many_unflushed:
                listener()

    def flushed(self) -> None:
        """A sealed segment has let go of the descriptor that it was written by."""
        with self._lock:
            self.unflushed -= 1
