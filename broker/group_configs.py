"""Settings of single groups (Kafka's resource type 32): which there are, what is allowed, and what counts without them."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.storage.config_kinds import INT_MAX, ConfigKind, config_text, integer
from ottla.broker.storage.topic_configs import parse_setting
from ottla.wire.errors import InvalidConfig

GROUPS_WITH_SETTINGS_MAX = 1_000
"""Groups that have settings of their own: every broker is told all of them in one message."""

HEARTBEAT_MIN_MS = 100
SESSION_MIN_MS = 1_000
"""What a client may ask of all members of a group: more heartbeats would keep a coordinator busy with nothing else."""

HEARTBEAT = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"


class GroupSetting(NamedTuple):
    kind: ConfigKind
    text: str
    broker_name: str
    """The broker's setting that counts for groups without their own."""


GROUP_CONFIGS: dict[str, GroupSetting] = {
    HEARTBEAT: GroupSetting(
        integer(HEARTBEAT_MIN_MS, INT_MAX),
        "how often members send heartbeats where the coordinator assigns",
        "group.consumer.heartbeat.interval.ms",
    ),
    SESSION: GroupSetting(
        integer(SESSION_MIN_MS, INT_MAX),
        "after how long without a heartbeat such a member is out",
        "group.consumer.session.timeout.ms",
    ),
}


def plain_group_config(config: Mapping[str, str]) -> dict[str, str]:
    """The settings as they are stored; InvalidConfig names the first key or value that is not allowed."""
    plain = {}
    for key, text in config.items():
        if key not in GROUP_CONFIGS:
            raise InvalidConfig(f"unknown group config {key[:100]!r}; known are {', '.join(GROUP_CONFIGS)}")
        plain[key] = config_text(parse_setting("group config", key, text, GROUP_CONFIGS[key].kind))
    return plain


def check_group_times(config: Mapping[str, str]) -> None:
    """Raise InvalidConfig if members would be out before their next heartbeat."""
    if HEARTBEAT in config and SESSION in config and int(config[HEARTBEAT]) >= int(config[SESSION]):
        raise InvalidConfig(f"{HEARTBEAT}={config[HEARTBEAT]} must be less than {SESSION}={config[SESSION]}")


def time_of(config: Mapping[str, str], key: str, default: int) -> int:
    """A group's own time; the default where it has none, or somebody wrote nonsense by other means."""
    try:
        return int(plain_group_config({key: config[key]})[key]) if key in config else default
    except InvalidConfig:
        return default
