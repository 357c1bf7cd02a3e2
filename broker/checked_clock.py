"""This broker's wall clock, checked against others: the time by which data expires, and the time that is written down.

A wall clock that is some days ahead makes every record and every group look expired. So nothing expires unless a recent
comparison found the clock within SKEW_MAX_MS of ZooKeeper's and of the controller's. Time is then counted from that comparison
by the monotonic clock, so setting the wall clock afterwards has no effect.
"""

import time
from collections.abc import Callable, Sequence

from ottla.zk.clocks import ClockReading

SKEW_MAX_MS = 60_000
"""Clocks that are further apart than this are not trusted."""

FRESH_S = 90.0
"""How long a comparison counts."""

UNKNOWN = "not compared with ZooKeeper's and the controller's yet"
"""Nothing is known against the clock, nor for it: nothing expires, and no operator has to act."""


class CheckedClock:
    """What the last comparison with other clocks said, and the times that follow from it. ``ClockLoop`` compares."""

    def __init__(
        self, wall_s: Callable[[], float] | None = None, monotonic_s: Callable[[], float] | None = None
    ) -> None:
        self._wall_s = wall_s or (lambda: time.time())
        self._monotonic_s = monotonic_s or (lambda: time.monotonic())
        self.error = UNKNOWN
        """Why the clock is not trusted; empty if it is."""
        self._compared_s = float("-inf")
        self._base_ms: int | None = None
        """The most likely time of day at ``_base_s`` of the monotonic clock; None before the first comparison."""
        self._base_s = 0.0
        self._offset_s: float | None = None

    def trusted_ms(self) -> int | None:
        """The time of day by which data may expire; None while the wall clock is not trusted."""
        now_s = self._monotonic_s()
        if self.error or self._base_ms is None or now_s - self._compared_s > FRESH_S:
            return None
        return self._base_ms + int((now_s - self._base_s) * 1000)

    def stamp_ms(self) -> int:
        """The time of day for records and znodes: the wall clock, unless comparisons say that it is wrong.

        A time that is too early would make others delete the data too early.
        """
        wall_ms = int(self._wall_s() * 1000)
        if self._base_ms is None:
            return wall_ms
        expected_ms = self._base_ms + int((self._monotonic_s() - self._base_s) * 1000)
        return wall_ms if abs(wall_ms - expected_ms) <= SKEW_MAX_MS else expected_ms

    def read(self) -> tuple[float, int]:
        """The monotonic clock in seconds and the wall clock in milliseconds, for a comparison."""
        return self._monotonic_s(), int(self._wall_s() * 1000)

    def was_set(self) -> bool:
        """Whether the wall clock was set by more than a second since the last comparison."""
        if self._offset_s is None:
            return False
        return abs(self._wall_s() - self._monotonic_s() - self._offset_s) > 1.0

    def compared(
        self,
        at_s: float,
        own: ClockReading,
        witness: ClockReading | None,
        *,
        leads: bool,
        others: Sequence[ClockReading] = (),
    ) -> None:
        """Take a comparison that began at ``at_s`` of the monotonic clock.

        ``witness`` is the controller's clock; if this broker is the controller (``leads``), that of any other broker, and
        ``others`` are the clocks of all other brokers.
        """
        self.error = clock_error(own, None if leads else witness, leads=leads) or outvoted_error(own, others)
        self._compared_s = at_s
        self._offset_s = own.broker_ms / 1000 - at_s
        likely_ms = likely_time(own, witness)
        if likely_ms is not None:
            self._base_ms, self._base_s = likely_ms, at_s

    def not_compared(self) -> None:
        """The last attempt at a comparison failed; the one before counts for FRESH_S."""
        if self._monotonic_s() - self._compared_s > FRESH_S and not self.error:
            self.error = UNKNOWN


def clock_error(own: ClockReading, controller: ClockReading | None, *, leads: bool) -> str:
    """Why the local clock is not trusted; empty if it is. Pure."""
    if abs(own.skew_ms) > SKEW_MAX_MS:
        return f"it is {own.skew_ms / 1000:+.0f} s from ZooKeeper's"
    if leads:
        return ""
    if controller is None:
        return UNKNOWN
    if abs(own.skew_ms - controller.skew_ms) > SKEW_MAX_MS:
        return f"it is {(own.skew_ms - controller.skew_ms) / 1000:+.0f} s from the controller's"
    return ""


def outvoted_error(own: ClockReading, others: Sequence[ClockReading]) -> str:
    """Why the controller does not trust its clock although ZooKeeper's agrees: most brokers disagree. Pure.

    The controller and ZooKeeper's leader may run on one machine, whose clock is wrong.
    """
    disagree = sum(1 for other in others if abs(own.skew_ms - other.skew_ms) > SKEW_MAX_MS)
    if 2 * disagree <= len(others) + 1:
        return ""
    return f"it is more than {SKEW_MAX_MS // 1000} s from those of {disagree} of {len(others)} other brokers"


def likely_time(own: ClockReading, witness: ClockReading | None) -> int | None:
    """The time of day that two of three clocks agree on: this broker's, ZooKeeper's, a witness's. Pure."""
    if abs(own.skew_ms) <= SKEW_MAX_MS:
        return own.broker_ms
    if witness is None:
        return None
    if abs(own.skew_ms - witness.skew_ms) <= SKEW_MAX_MS:
        return own.broker_ms
    return own.zookeeper_ms if abs(witness.skew_ms) <= SKEW_MAX_MS else None
