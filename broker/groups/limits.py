"""What groups may cost, and which ids they may have."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.config import BrokerConfig
from ottla.wire.errors import InvalidGroupId

GROUP_ID_MAX = 255


@dataclass(frozen=True)
class GroupLimits:
    """Kafka's names where it has them."""

    max_size: int = 1000
    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    metadata_max_bytes: int = 64 * 1024
    """What a member tells of itself, all protocols together; and what one is assigned."""
    offset_metadata_max_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3_600_000
    check_interval_s: float = 600.0
    consumer_max_size: int = 1000
    """Of groups whose coordinator assigns;"""
    consumer_session_timeout_ms: int = 45_000
    """for how long it does without a word of their members,"""
    consumer_heartbeat_interval_ms: int = 5000
    """and how often they are told to say one."""

    @classmethod
    def of(cls, config: BrokerConfig) -> "GroupLimits":
        """As a broker's settings have them."""
        return cls(
            max_size=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            retention_ms=config.offsets_retention_minutes * 60_000,
            check_interval_s=config.offsets_retention_check_interval_ms / 1000,
            consumer_max_size=config.group_consumer_max_size,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        )


class ConsumerGroupTimes(NamedTuple):
    """What members of a group are told whose coordinator assigns."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000


def check_group_id(group_id: str) -> None:
    if not group_id or len(group_id) > GROUP_ID_MAX:
        raise InvalidGroupId(f"group id {group_id[:40]!r}: it must have 1 to {GROUP_ID_MAX} characters")
