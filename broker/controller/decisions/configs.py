"""What becomes of a topic's settings when some of them are changed. Pure."""

from collections.abc import Mapping, Sequence

from ottla.broker.storage.log_config import TOPIC_CONFIGS, plain_topic_config
from ottla.wire.admin import ConfigChange, ConfigOperation
from ottla.wire.errors import InvalidConfig, InvalidRequest

LISTS = frozenset({"cleanup.policy"})
"""Settings that are lists of words, with commas between them."""


def changed_config(config: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The settings after these changes. Those that are not named stay, even where somebody wrote nonsense by other means."""
    keys = [change.key for change in changes]
    if len(set(keys)) != len(keys):
        raise InvalidRequest("a setting is named more than once")
    after = dict(config)
    for change in changes:
        value = _value(config, change)
        if value is None:
            after.pop(change.key, None)
        else:
            after |= plain_topic_config({change.key: value})
    return after


def _value(config: Mapping[str, str], change: ConfigChange) -> str | None:
    key = change.key
    if change.operation == ConfigOperation.DELETE:
        if key not in TOPIC_CONFIGS and key not in config:
            raise InvalidConfig(f"unknown topic config {key[:100]!r}; known are {', '.join(TOPIC_CONFIGS)}")
        return None
    if change.value is None:
        raise InvalidRequest(f"no value is given for {key[:100]!r}")
    if change.operation == ConfigOperation.SET:
        return change.value
    if change.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise InvalidRequest(f"operation {change.operation} on a setting is not known")
    if key not in LISTS:
        raise InvalidConfig(f"topic config {key[:100]!r} is not a list: nothing can be added to it or taken from it")
    had, named = _words(config.get(key, "")), _words(change.value)
    if change.operation == ConfigOperation.APPEND:
        return ",".join([*had, *(word for word in named if word not in had)])
    return ",".join(word for word in had if word not in named)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
