"""Which segments may go."""

import pytest

from ottla.broker.storage.retention import UNLIMITED, Limits, SegmentAge, expired

FOUR = [SegmentAge(10, 100, 1000), SegmentAge(20, 100, 2000), SegmentAge(30, 100, 3000), SegmentAge(40, 100, 4000)]


def due(segments, retention_ms=UNLIMITED, retention_bytes=UNLIMITED, now_ms=0, log_start=0, up_to=1000):
    limits = Limits(retention_ms, retention_bytes)
    return expired(segments, limits, now_ms=now_ms, log_start=log_start, up_to=up_to)


@pytest.mark.parametrize(("now_ms", "expected"), [(1000, 0), (1500, 0), (1501, 1), (3501, 3), (4500, 3), (4501, 4)])
def test_segments_go_once_their_newest_record_is_past_retention(now_ms, expected):
    assert due(FOUR, retention_ms=500, now_ms=now_ms) == expected


@pytest.mark.parametrize(
    ("retention_bytes", "expected"), [(1000, 0), (400, 0), (301, 0), (300, 1), (150, 2), (100, 3), (99, 3), (0, 4)]
)
def test_what_stays_is_never_less_than_retention_bytes(retention_bytes, expected):
    assert due(FOUR, retention_bytes=retention_bytes) == expected


@pytest.mark.parametrize(("log_start", "expected"), [(9, 0), (10, 1), (25, 2), (40, 3)])
def test_segments_before_the_log_start_go_but_not_the_active_one(log_start, expected):
    assert due(FOUR, log_start=log_start) == expected


@pytest.mark.parametrize(("up_to", "expected"), [(9, 0), (10, 1), (39, 3), (40, 4)])
def test_what_is_not_committed_stays(up_to, expected):
    assert due(FOUR, retention_ms=0, now_ms=10_000, up_to=up_to) == expected


def test_a_young_segment_protects_the_older_looking_ones_after_it():
    late = [SegmentAge(10, 100, 9000), *FOUR[1:]]
    assert due(late, retention_ms=500, now_ms=5000) == 0


def test_an_empty_active_segment_stays():
    assert due([SegmentAge(0, 0, -1)], retention_ms=0, retention_bytes=0, now_ms=10_000) == 0
    assert due([FOUR[0], SegmentAge(10, 0, -1)], retention_ms=0, now_ms=10_000) == 1


def test_without_limits_everything_stays():
    assert due(FOUR, now_ms=2**62) == 0
