"""How far the next micro-batch of a stream reads. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.spark_jobs.errors import data_lost
from ottla.spark_jobs.offsets import StreamOffset, count_between, limited
from ottla.spark_jobs.positions import Offsets
from ottla.wire.names import TopicPartition


@dataclass(frozen=True)
class Available:
    """What is there: partitions with the ids of their topics, and up to where each is committed."""

    ids: Mapping[TopicPartition, str]
    ends: Mapping[TopicPartition, int]

    @property
    def topic_ids(self) -> dict[str, str]:
        return {where.topic: topic_id for where, topic_id in self.ids.items()}


def next_offset(
    start: StreamOffset,
    available: Available,
    earliest: Callable[[list[TopicPartition]], Offsets],
    most: int | None,
    *,
    first: bool,
    fail: bool,
) -> tuple[StreamOffset, list[str]]:
    """The end of the batch that begins at ``start``, and what was lost before it (with ``fail`` that is an error).

    ``first``: Spark has not kept ``start`` yet, and will not: it keeps ends of batches only. So the first end says where all
    of its partitions began, or a batch that is tried again after a crash would begin somewhere else.
    """
    warnings = _gone(start, available, fail)
    ids = available.topic_ids
    renewed = {topic for topic, old in start.ids.items() if ids.get(topic, old) != old}
    fresh = [where for where in available.ids if where not in start.offsets or where.topic in renewed]
    begins = earliest(fresh) if fresh else {}
    for where in sorted(fresh):
        if begins[where] > 0 and where.topic not in renewed:
            what = f"{where} is new, and begins at {begins[where]} instead of 0: records were deleted before they were read"
            warnings.append(data_lost(what, fail))
    starts = {where: begins.get(where, start.offsets.get(where, 0)) for where in available.ids}
    ends = {}
    for where, end in available.ends.items():
        if end < starts[where]:
            what = f"{where} was read up to offset {starts[where]}, and ends at {end} now"
            warnings.append(data_lost(what, fail))
        ends[where] = end
    if most is not None:
        cut = limited(starts, {where: end for where, end in ends.items() if end > starts[where]}, most)
        ends = {where: cut.get(where, end) for where, end in ends.items()}
    if ends == start.offsets and not renewed:
        return start, warnings
    noted = starts if first else {where: begins[where] for where in fresh}
    return StreamOffset(ends, ids, noted), warnings


def _gone(start: StreamOffset, available: Available, fail: bool) -> list[str]:
    """Partitions that were read and are not there any more, or belong to another topic of the same name."""
    warnings = []
    ids = available.topic_ids
    for topic in sorted({where.topic for where in start.offsets}):
        if topic not in ids:
            warnings.append(data_lost(f"topic {topic!r} was deleted while a stream read it", fail))
        elif topic in start.ids and start.ids[topic] != ids[topic]:
            what = f"topic {topic!r} was deleted and made anew: what the stream had not read of the old one is gone"
            warnings.append(data_lost(what, fail))
    return warnings


class MinimumRows:
    """minOffsetsPerTrigger: a batch waits until there is so much to read, or for maxTriggerDelay."""

    def __init__(self, least: int | None, delay_ms: int) -> None:
        self.least = least
        self._delay_s = delay_ms / 1000
        self._last_at: float | None = None

    def reached(self, end: StreamOffset, start: StreamOffset, now: float) -> bool:
        """Whether a batch up to ``end`` is due now; then the waiting begins anew."""
        if self.least is None:
            return True
        if self._last_at is None:
            self._last_at = now
        starts = {where: start.offsets.get(where, end.begins.get(where, 0)) for where in end.offsets}
        if count_between(starts, end.offsets) < self.least and now - self._last_at < self._delay_s:
            return False
        self._last_at = now
        return True
