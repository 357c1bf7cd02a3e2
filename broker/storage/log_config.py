"""How one log is kept: a topic's own settings over the broker's defaults, under Kafka's names."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ottla.broker.storage.config_kinds import LONG_MAX, ConfigValue
from ottla.wire.names import SEGMENT_BYTES_MIN

logger = logging.getLogger(__name__)

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

FLUSH_OS = "os"
FLUSH_DURABLE = "durable"

SEGMENT_BYTES_MAX = 2**31 - 1
"""Positions in an index entry are 32 bits wide, as in Kafka, whose integers have a sign."""


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
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3600 * 1000
    flush_policy: str = FLUSH_OS
    roll_interval_ms: int = 0
    """A segment of less than SEGMENT_BYTES_MIN is not rolled for its timestamps within this time after the last roll."""

    def with_topic_config(self, topic_config: Mapping[str, ConfigValue]) -> "LogConfig":
        """These broker defaults, overridden by what ``parse_topic_config`` gave for a topic."""
        names = {field.name for field in fields(self)}
        overrides: dict[str, Any] = {key.replace(".", "_"): value for key, value in topic_config.items()}
        return replace(self, **{name: value for name, value in overrides.items() if name in names})


def warn_of_small_segments(setting_of: str, segment_bytes: object) -> None:
    """Tell the operator of a stored value that a request could not set any more."""
    if isinstance(segment_bytes, int) and segment_bytes < SEGMENT_BYTES_MIN:
        logger.warning(
            "segments are small: many files and descriptors set_for=%s segment_bytes=%d recommended_min=%d",
            setting_of,
            segment_bytes,
            SEGMENT_BYTES_MIN,
        )
