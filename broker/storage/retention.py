"""Which segments of a log are due for deletion. Pure: sizes, times and limits in, a number of segments out."""

from collections.abc import Sequence
from typing import NamedTuple

UNLIMITED = -1


class SegmentAge(NamedTuple):
    """What retention needs to know of one segment."""

    next_offset: int
    size: int
    max_timestamp: int


class Limits(NamedTuple):
    """How much of a log is kept; UNLIMITED switches a limit off."""

    retention_ms: int
    retention_bytes: int


NO_LIMITS = Limits(UNLIMITED, UNLIMITED)
"""For a replica that does not lead: it deletes what its leader has deleted, and nothing by limits of its own."""


def expired(segments: Sequence[SegmentAge], limits: Limits, *, now_ms: int | None, log_start: int, up_to: int) -> int:
    """How many of ``segments``, oldest first, may go.

    A segment goes when it is past ``retention_ms`` (never if ``now_ms`` is None: the time of day is not known for sure),
    when the log without it still holds ``retention_bytes``, or when it ends at or before ``log_start``; never when it
    holds records at or past ``up_to`` (the high watermark). The last segment is the active one: empty it stays; if it is
    counted, the caller rolls the log first (Kafka does the same).
    """
    surplus = sum(segment.size for segment in segments) - limits.retention_bytes
    due = 0
    for number, segment in enumerate(segments, start=1):
        active = number == len(segments)
        if segment.next_offset > up_to or (active and segment.size == 0):
            break
        age_ms = now_ms - segment.max_timestamp if now_ms is not None else 0
        too_old = limits.retention_ms != UNLIMITED and age_ms > limits.retention_ms
        too_much = limits.retention_bytes != UNLIMITED and surplus >= segment.size
        deleted = segment.next_offset <= log_start and not active
        if not (too_old or too_much or deleted):
            break
        surplus -= segment.size
        due = number
    return due
