"""When a wall clock is trusted, and which time is written down while it is wrong."""

import pytest

from ottla.broker.checked_clock import (
    FRESH_S,
    SKEW_MAX_MS,
    UNKNOWN,
    CheckedClock,
    clock_error,
    likely_time,
    outvoted_error,
)
from ottla.zk.clocks import ClockReading

DAY_MS = 24 * 3600 * 1000
T_MS = 1_000 * DAY_MS
"""The true time of day."""


def reading(ahead_ms: int = 0, zookeeper_ahead_ms: int = 0) -> ClockReading:
    return ClockReading(T_MS + ahead_ms, T_MS + zookeeper_ahead_ms)


class Clocks:
    """A wall clock and a monotonic one that a test moves."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.passed_s = 0.0
        self.ahead_ms = ahead_ms
        self.clock = CheckedClock(self.wall_s, lambda: 50.0 + self.passed_s)

    def wall_s(self) -> float:
        return (T_MS + self.ahead_ms) / 1000 + self.passed_s

    def compare(self, witness: ClockReading | None = None, *, leads: bool = False) -> None:
        at_s, now_ms = self.clock.read()
        self.clock.compared(at_s, ClockReading(now_ms, T_MS + int(self.passed_s * 1000)), witness, leads=leads)


@pytest.mark.parametrize(
    ("own", "controller", "leads", "expected"),
    [
        (reading(), reading(), False, ""),
        (reading(SKEW_MAX_MS), reading(), False, ""),
        (reading(SKEW_MAX_MS + 1), reading(), False, "it is +60 s from ZooKeeper's"),
        (reading(-DAY_MS), None, True, "it is -86400 s from ZooKeeper's"),
        (reading(), reading(DAY_MS), False, "it is -86400 s from the controller's"),
        (reading(), None, False, UNKNOWN),
        (reading(), None, True, ""),
    ],
)
def test_a_clock_is_trusted_only_near_both_others(own, controller, leads, expected):
    assert clock_error(own, controller, leads=leads) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], ""),
        ([-DAY_MS], ""),  # one of two: either may be wrong, and ZooKeeper agrees with this one
        ([0, -DAY_MS], ""),
        ([-DAY_MS, -DAY_MS], "it is more than 60 s from those of 2 of 2 other brokers"),
        ([0, 0, -DAY_MS, -DAY_MS], ""),
        ([0, DAY_MS, -DAY_MS, -DAY_MS], "it is more than 60 s from those of 3 of 4 other brokers"),
    ],
)
def test_a_controller_whose_clock_most_brokers_disagree_with_does_not_trust_it(others, expected):
    assert outvoted_error(reading(), [reading(ahead_ms) for ahead_ms in others]) == expected


@pytest.mark.parametrize(
    ("own", "witness", "expected_ahead_ms"),
    [
        (reading(), None, 0),
        (reading(), reading(DAY_MS), 0),
        (reading(DAY_MS), reading(), 0),  # ZooKeeper and the witness agree
        (reading(0, DAY_MS), reading(0, DAY_MS), 0),  # this broker and the witness do
        (reading(DAY_MS), None, None),
        (reading(DAY_MS), reading(-DAY_MS), None),
    ],
)
def test_the_likely_time_is_what_two_of_three_clocks_say(own, witness, expected_ahead_ms):
    assert likely_time(own, witness) == (None if expected_ahead_ms is None else T_MS + expected_ahead_ms)


def test_nothing_is_trusted_before_a_comparison_nor_long_after_one():
    clocks = Clocks()
    assert clocks.clock.trusted_ms() is None
    clocks.compare(reading())
    assert clocks.clock.trusted_ms() == T_MS
    clocks.passed_s = FRESH_S
    assert clocks.clock.trusted_ms() == T_MS + FRESH_S * 1000
    clocks.passed_s += 0.1
    assert clocks.clock.trusted_ms() is None
    clocks.clock.not_compared()
    assert clocks.clock.error == UNKNOWN


def test_setting_the_clock_after_a_comparison_changes_neither_time():
    clocks = Clocks()
    clocks.compare(reading())
    clocks.ahead_ms, clocks.passed_s = 8 * DAY_MS, 5.0
    assert (clocks.clock.trusted_ms(), clocks.clock.stamp_ms()) == (T_MS + 5000, T_MS + 5000)
    assert clocks.clock.was_set()
    clocks.compare(reading())
    assert clocks.clock.trusted_ms() is None
    assert clocks.clock.stamp_ms() == T_MS + 5000
    assert not clocks.clock.was_set()


@pytest.mark.parametrize("ahead_ms", [-8 * DAY_MS, 8 * DAY_MS])
def test_what_is_written_bears_the_right_time_though_the_clock_is_wrong_from_the_start(ahead_ms):
    clocks = Clocks(ahead_ms)
    assert clocks.clock.stamp_ms() == T_MS + ahead_ms  # nobody was asked yet
    clocks.compare(reading())
    clocks.passed_s = 3.0
    assert (clocks.clock.trusted_ms(), clocks.clock.stamp_ms()) == (None, T_MS + 3000)


def test_small_differences_leave_the_wall_clock_as_it_is():
    clocks = Clocks(20_000)
    clocks.compare(reading())
    clocks.ahead_ms = 30_000
    assert (clocks.clock.trusted_ms(), clocks.clock.stamp_ms()) == (T_MS + 20_000, T_MS + 30_000)
