"""Where a read begins and ends, as the user said it: at an end of the log, at offsets, or at times. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.wire.errors import ConfigError
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

Offsets = dict[TopicPartition, int]
Get = Callable[[str], str | None]

OFFSETS_EXAMPLE = 'JSON such as {"orders": {"0": 23, "1": -2}}'
TIMES_EXAMPLE = 'JSON such as {"orders": {"0": 1700000000000}}, in milliseconds'


@dataclass(frozen=True)
class Position:
    """One of: ``end`` (EARLIEST or LATEST), ``offsets`` (which may be EARLIEST or LATEST, too), ``time_ms``, ``times_ms``."""

    option: str
    end: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    time_ms: int | None = None
    times_ms: Mapping[TopicPartition, int] | None = None
    latest_if_none: bool = False
    """Where no record is that new: the end of the log, instead of an error."""

    @property
    def named(self) -> Mapping[TopicPartition, int] | None:
        """What is said of each partition, if it is."""
        return self.offsets if self.offsets is not None else self.times_ms

    def questions(self, partition: TopicPartition) -> int:
        """What must be found out for a partition: EARLIEST, LATEST, or the offset at this time (not negative)."""
        if self.time_ms is not None:
            return self.time_ms
        if self.times_ms is not None:
            return self.times_ms[partition]
        if self.offsets is not None:
            return min(self.offsets[partition], -1)
        assert self.end is not None
        return self.end

    def given(self, partition: TopicPartition) -> int | None:
        """The offset itself, where the user gave one."""
        offset = self.offsets[partition] if self.offsets is not None else -1
        return offset if offset >= 0 else None


def starting_position(get: Get, *, batch: bool, default_latest: bool) -> Position:
    """startingTimestamp goes before startingOffsetsByTimestamp, and that before startingOffsets."""
    strategy = (get("startingOffsetsByTimestampStrategy") or "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(
            f"option startingOffsetsByTimestampStrategy={strategy!r} is not allowed; give error or latest"
        )
    found = _by_time(get, "startingTimestamp", "startingOffsetsByTimestamp", latest_if_none=strategy == "latest")
    if found is not None:
        return found
    text = get("startingOffsets")
    if text is None:
        return Position("startingOffsets", end=LATEST if default_latest else EARLIEST)
    found = _offsets("startingOffsets", text)
    if batch and (found.end == LATEST or LATEST in (found.offsets or {}).values()):
        raise ConfigError(
            f"option startingOffsets={text!r}: a batch cannot begin at the latest offset, where nothing is; "
            "give earliest, offsets or a time"
        )
    return found


def ending_position(get: Get) -> Position:
    found = _by_time(get, "endingTimestamp", "endingOffsetsByTimestamp", latest_if_none=True)
    if found is not None:
        return found
    text = get("endingOffsets")
    if text is None:
        return Position("endingOffsets", end=LATEST)
    found = _offsets("endingOffsets", text)
    if found.end == EARLIEST or EARLIEST in (found.offsets or {}).values():
        raise ConfigError(
            f"option endingOffsets={text!r}: a batch cannot end at the earliest offset; give latest, offsets or a time"
        )
    return found


def parse_partitions(option: str, text: str, example: str, least: int) -> Offsets:
    """{"topic": {"0": 23}} as offsets (or times); keys that begin with @ are our own notes in a stream's offsets."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not found:
            raise ValueError("no topic is named")
        return {
            TopicPartition(topic, _number(partition, 0)): _number(number, least)
            for topic, numbers in found.items()
            if not topic.startswith("@")
            for partition, number in _items(numbers)
        }
    except ValueError as error:
        raise ConfigError(f"option {option}={text!r} is not allowed ({error}); give {example}") from None


def _by_time(get: Get, one: str, each: str, *, latest_if_none: bool) -> Position | None:
    text = get(one)
    if text is not None:
        if not re.fullmatch(r"\s*\d{1,18}\s*", text, re.ASCII):
            raise ConfigError(
                f"option {one}={text!r} is not allowed; give milliseconds since 1970, such as 1700000000000"
            )
        return Position(one, time_ms=int(text), latest_if_none=latest_if_none)
    text = get(each)
    if text is None:
        return None
    times = parse_partitions(each, text, TIMES_EXAMPLE, least=0)
    return Position(each, times_ms=times, latest_if_none=latest_if_none)


def _offsets(option: str, text: str) -> Position:
    end = {"earliest": EARLIEST, "latest": LATEST}.get(text.strip().lower())
    if end is not None:
        return Position(option, end=end)
    return Position(option, offsets=parse_partitions(option, text, f"earliest, latest or {OFFSETS_EXAMPLE}", EARLIEST))


def _items(numbers: object) -> list[tuple[str, object]]:
    if not isinstance(numbers, dict) or not numbers:
        raise ValueError("a topic's partitions are missing")
    return list(numbers.items())


def _number(value: object, least: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,19}", text, re.ASCII) or int(text) < least:
        raise ValueError(f"{text[:40]!r} is no number of {least} or more")
    return int(text)
