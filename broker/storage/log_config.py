"""How one log is kept: a topic's own settings over the broker's defaults, under Kafka's names."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ottla.wire.batch import HEADER_SIZE
from ottla.wire.errors import InvalidConfig
from ottla.wire.names import RECORD_FORMAT_COLUMNAR, RECORD_FORMAT_KAFKA

logger = logging.getLogger(__name__)

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

FLUSH_OS = "os"
FLUSH_DURABLE = "durable"

SEGMENT_BYTES_MAX = 2**31 - 1
"""Positions in an index entry are 32 bits wide, as in Kafka, whose integers have a sign."""

SEGMENT_BYTES_MIN = 64 * 1024
"""The smallest segments that a request may ask for, unless log.segment.bytes.min says otherwise.

Each segment costs files and descriptors, so one client could fill the disk's inodes and a broker's descriptors with tiny ones.
Smaller values that are stored already stay in force, for without them a log would hold fewer and larger segments than before.
"""

CONFIG_VALUE_MAX = 1000
"""Characters of a setting: every one that means something is far shorter, and all brokers are told all of them."""

INTEGER_MAX = 2**63 - 1
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings that the log of one partition obeys."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    max_message_bytes: int = 1024 * 1024 + 12
    index_interval_bytes: int = 4096
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = INTEGER_MAX
    message_timestamp_after_max_ms: int = 3600 * 1000
    flush_policy: str = FLUSH_OS

    def with_topic_config(self, topic_config: Mapping[str, int | bool | str]) -> "LogConfig":
        """These broker defaults, overridden by what ``parse_topic_config`` gave for a topic."""
        names = {field.name for field in fields(self)}
        overrides: dict[str, Any] = {key.replace(".", "_"): value for key, value in topic_config.items()}
        return replace(self, **{name: value for name, value in overrides.items() if name in names})


def integer(low: int, high: int = INTEGER_MAX) -> tuple[str, Callable[[str], int]]:
    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return f"an integer from {low} to {high}", parse


def one_of(*choices: str) -> tuple[str, Callable[[str], str]]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return " or ".join(choices), parse


def boolean() -> tuple[str, Callable[[str], bool]]:
    def parse(text: str) -> bool:
        return {"true": True, "false": False}[text.lower()]

    return "true or false", parse


TOPIC_CONFIGS: dict[str, tuple[str, Callable[[str], int | bool | str]]] = {
    "cleanup.policy": one_of("delete"),
    "flush.policy": one_of(FLUSH_OS, FLUSH_DURABLE),
    "index.interval.bytes": integer(0, SEGMENT_BYTES_MAX),
    "max.message.bytes": integer(HEADER_SIZE, SEGMENT_BYTES_MAX),
    "message.timestamp.after.max.ms": integer(0),
    "message.timestamp.before.max.ms": integer(0),
    "message.timestamp.type": one_of(CREATE_TIME, LOG_APPEND_TIME),
    "min.insync.replicas": integer(1, 2**31 - 1),
    "record.format": one_of(RECORD_FORMAT_COLUMNAR, RECORD_FORMAT_KAFKA),
    "retention.bytes": integer(-1),
    "retention.ms": integer(-1),
    "segment.bytes": integer(14, SEGMENT_BYTES_MAX),
    "segment.ms": integer(1),
    "unclean.leader.election.enable": boolean(),
}
"""Every setting that a topic may have: what is allowed, in words, and the function that reads it."""


def parse_topic_config(config: Mapping[str, str]) -> dict[str, int | bool | str]:
    """Read a topic's settings; InvalidConfig names the first key or value that is not allowed."""
    parsed: dict[str, int | bool | str] = {}
    for key, text in config.items():
        if key not in TOPIC_CONFIGS:
            raise InvalidConfig(f"unknown topic config {key[:100]!r}; known are {', '.join(TOPIC_CONFIGS)}")
        allowed, parse = TOPIC_CONFIGS[key]
        if len(text) > CONFIG_VALUE_MAX:
            raise InvalidConfig(f"topic config {key} has {len(text)} characters; allowed are {CONFIG_VALUE_MAX}")
        try:
            parsed[key] = parse(text.strip())
        except (ValueError, KeyError, AttributeError):
            raise InvalidConfig(f"topic config {key} = {text!r} is not allowed: it must be {allowed}") from None
    return parsed


def warn_of_small_segments(setting_of: str, segment_bytes: object) -> None:
    """Tell the operator of a stored value that a request could not set any more."""
    if isinstance(segment_bytes, int) and segment_bytes < SEGMENT_BYTES_MIN:
        logger.warning(
            "segments are small: many files and descriptors set_for=%s segment_bytes=%d recommended_min=%d",
            setting_of,
            segment_bytes,
            SEGMENT_BYTES_MIN,
        )


def sensible_topic_config(
    config: Mapping[str, str],
) -> tuple[dict[str, int | bool | str], list[InvalidConfig]]:
    """The same without what somebody wrote into ZooKeeper by other means, or a newer version; and why each means nothing."""
    found: dict[str, int | bool | str] = {}
    nonsense: list[InvalidConfig] = []
    for key, text in config.items():
        try:
            found |= parse_topic_config({key: text})
        except InvalidConfig as error:
            nonsense.append(error)
    return found, nonsense


def plain_topic_config(config: Mapping[str, str]) -> dict[str, str]:
    """The same settings as they are stored: each in the one way in which its value is written."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in parse_topic_config(config).items()
    }
