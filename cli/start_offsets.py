"""Where ``ottla consume -o`` begins to read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
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
    """A place to begin at, the same for every partition; ``number`` counts back from LATEST."""

    origin: Origin
    number: int = 0


def parse_start(text: str) -> Start:
    """``earliest``, ``latest``, an offset, ``-N`` for the last N records of each partition, ``@ms`` for a time."""
    if text in ("earliest", "beginning", "start"):
        return Start(Origin.EARLIEST)
    if text in ("latest", "end"):
        return Start(Origin.LATEST)
    match = re.fullmatch(r"([-@]?)(\d{1,18})", text, re.ASCII)
    if match is None:
        raise ConfigError(
            f"-o {text!r} is no place to begin at", hint="give earliest, latest, OFFSET, -N or @MILLISECONDS"
        )
    origin = {"": Origin.OFFSET, "-": Origin.LATEST, "@": Origin.TIME}[match[1]]
    return Start(origin, int(match[2]))


def choose_offset(start: Start, earliest: int, latest: int, at_time: int | None) -> int:
    """The offset to begin at in one partition; what lies outside the log begins at its nearer end."""
    wanted = {
        Origin.EARLIEST: earliest,
        Origin.LATEST: latest - start.number,
        Origin.OFFSET: start.number,
        Origin.TIME: latest if at_time is None else at_time,
    }[start.origin]
    return min(max(wanted, earliest), latest)


def start_offsets(
    consumer: "Consumer",
    start: Start,
    earliest: Mapping["TopicPartition", int],
    latest: Mapping["TopicPartition", int],
    timeout_s: float,
) -> dict["TopicPartition", int]:
    """Where to begin in each partition."""
    times: dict[TopicPartition, int | None] = {}
    if start.origin is Origin.TIME:
        found = consumer.offsets_for_times(dict.fromkeys(earliest, start.number), timeout=timeout_s)
        times = {where: pair[0] if pair is not None else None for where, pair in found.items()}
    return {where: choose_offset(start, earliest[where], latest[where], times.get(where)) for where in earliest}
