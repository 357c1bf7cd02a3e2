"""Where ``ottla consume -o`` begins to read, and where ``--until`` ends."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from ottla.client import Consumer, TopicPartition


class Origin(Enum):
    """What the number of a start counts from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "an offset"
    TIME = "a time in ms"


@dataclass(frozen=True)
class Start:
    """A place to begin or end at, the same for every partition; ``number`` counts back from LATEST."""

    origin: Origin
    number: int = 0


HINT = "give earliest, latest, OFFSET, -N, @MILLISECONDS, @2026-01-31T12:00, @-15m, or PARTITION:OFFSET,..."

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_starts(text: str, option: str = "-o") -> tuple[Start | None, dict[int, Start]]:
    """A place for all partitions, and those for single ones: ``0:17,1:latest``."""
    if ":" not in text or text.startswith("@"):
        return parse_start(text, option), {}
    single: dict[int, Start] = {}
    for piece in text.split(","):
        partition, colon, place = piece.strip().partition(":")
        if not colon or not re.fullmatch(r"\d{1,9}", partition, re.ASCII) or int(partition) in single:
            raise ConfigError(f"{option} {text!r} is not PARTITION:OFFSET,...", hint=HINT)
        single[int(partition)] = parse_start(place, option)
    return None, single


def parse_start(text: str, option: str = "-o") -> Start:
    """``earliest``, ``latest``, an offset, ``-N`` for the last N records of each partition, ``@`` and a time."""
    if text in ("earliest", "beginning", "start"):
        return Start(Origin.EARLIEST)
    if text in ("latest", "end"):
        return Start(Origin.LATEST)
    if text.startswith("@"):
        moment = parse_time(text[1:], time.time())
        if moment is not None:
            return Start(Origin.TIME, moment)
    match = re.fullmatch(r"(-?)(\d{1,18})", text, re.ASCII)
    if match is None:
        raise ConfigError(f"{option} {text!r} is no place in a log", hint=HINT)
    return Start({"": Origin.OFFSET, "-": Origin.LATEST}[match[1]], int(match[2]))


def parse_time(text: str, now_s: float) -> int | None:
    """Milliseconds since 1970: as such, as ISO 8601 (local time unless it names a zone), or so long ago: ``-15m``."""
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return int(text)
    if ago := re.fullmatch(r"-(\d{1,9})(ms|s|m|h|d)", text, re.ASCII):
        return int(now_s * 1000) - int(ago[1]) * _UNITS_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(moment.astimezone(UTC).timestamp() * 1000)


def choose_offset(start: Start, earliest: int, latest: int, at_time: int | None) -> int:
    """The offset to begin at in one partition; what lies outside the log begins at its nearer end."""
    wanted = {
        Origin.EARLIEST: earliest,
        Origin.LATEST: latest - start.number,
        Origin.OFFSET: start.number,
        Origin.TIME: latest if at_time is None else at_time,
    }[start.origin]
    return min(max(wanted, earliest), latest)


OUTSIDE_NAMED_MAX = 3
"""So many partitions are named in a note; a topic may have thousands."""


def outside_the_log(
    starts: Mapping["TopicPartition", Start],
    earliest: Mapping["TopicPartition", int],
    latest: Mapping["TopicPartition", int],
) -> str | None:
    """A sentence about offsets that were asked for by number and are not there; None if all are."""
    beyond = [
        f"{where.topic}[{where.partition}] has {earliest[where]} to {latest[where]}, not {each.number}"
        for where, each in sorted(starts.items())
        if each.origin is Origin.OFFSET and not earliest[where] <= each.number <= latest[where]
    ]
    if not beyond:
        return None
    more = f" and {len(beyond) - OUTSIDE_NAMED_MAX} more" if len(beyond) > OUTSIDE_NAMED_MAX else ""
    return f"offsets outside the log, the nearer end is taken: {'; '.join(beyond[:OUTSIDE_NAMED_MAX])}{more}"


def start_offsets(
    consumer: "Consumer",
    start: Start | Mapping["TopicPartition", Start],
    earliest: Mapping["TopicPartition", int],
    latest: Mapping["TopicPartition", int],
    timeout_s: float,
) -> dict["TopicPartition", int]:
    """Where to begin, or to end, in each partition."""
    starts = {where: start if isinstance(start, Start) else start[where] for where in earliest}
    asked: dict[tuple[str, int], int] = {
        where: each.number for where, each in starts.items() if each.origin is Origin.TIME
    }
    times: dict[TopicPartition, int | None] = {}
    if asked:
        found = consumer.offsets_for_times(asked, timeout=timeout_s)
        times = {where: pair[0] if pair is not None else None for where, pair in found.items()}
    return {
        where: choose_offset(each, earliest[where], latest[where], times.get(where)) for where, each in starts.items()
    }
