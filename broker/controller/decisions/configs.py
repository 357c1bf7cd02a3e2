"""What becomes of the settings of a topic or a broker when some of them are changed. Pure."""

from collections.abc import Callable, Mapping, Sequence

from ottla.broker.dynamic_config import plain_broker_config
from ottla.broker.group_configs import plain_group_config
from ottla.broker.storage.topic_configs import TOPIC_CONFIGS, plain_topic_config
from ottla.wire.admin import ConfigChange, ConfigOperation, ConfigType
from ottla.wire.errors import InvalidConfig, InvalidRequest

LISTS = frozenset(name for name, setting in TOPIC_CONFIGS.items() if setting.kind.type is ConfigType.LIST)
"""Settings that are lists of words, with commas between them."""


def changed_config(config: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """A topic's settings after these changes. Those not named stay, even where somebody wrote nonsense by other means."""
    return _changed(config, changes, plain_topic_config)


def changed_broker_config(config: Mapping[str, str], changes: Sequence[ConfigChange], name: str) -> dict[str, str]:
    """The same for a broker, or for all of them."""

    def plain(one: Mapping[str, str]) -> dict[str, str]:
        return plain_broker_config(one, name)

    return _changed(config, changes, plain)


def changed_group_config(config: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The same for a group."""
    return _changed(config, changes, plain_group_config)


def check_segment_bytes(before: Mapping[str, str], after: Mapping[str, str], minimum: int) -> None:
    """Raise InvalidConfig if a request makes segments smaller than ``minimum``; values that were stored before stay."""
    for key in ("segment.bytes", "log.segment.bytes"):
        value = after.get(key)
        if value is not None and value != before.get(key) and int(value) < minimum:
            raise InvalidConfig(
                f"{key}={value} is not allowed: it must be at least {minimum} (log.segment.bytes.min of the controller)"
            )


def _changed(
    config: Mapping[str, str],
    changes: Sequence[ConfigChange],
    plain: Callable[[Mapping[str, str]], dict[str, str]],
) -> dict[str, str]:
    keys = [change.key for change in changes]
    if len(set(keys)) != len(keys):
        raise InvalidRequest("a setting is named more than once")
    after = dict(config)
    for change in changes:
        value = _value(config, change)
        if value is None:
            after.pop(change.key, None)
        else:
            after |= plain({change.key: value})
    return after


def _value(config: Mapping[str, str], change: ConfigChange) -> str | None:
    key = change.key
    if change.operation == ConfigOperation.DELETE:
        return None  # also of a setting that is not set or not known: Kafka's tools delete without looking
    if change.value is None:
        raise InvalidRequest(f"no value is given for {key[:100]!r}")
    if change.operation == ConfigOperation.SET:
        return change.value
    if change.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise InvalidRequest(f"operation {change.operation} on a setting is not known")
    if key not in LISTS:
        raise InvalidConfig(f"config {key[:100]!r} is not a list: nothing can be added to it or taken from it")
    had, named = _words(config.get(key, "")), _words(change.value)
    if change.operation == ConfigOperation.APPEND:
        return ",".join([*had, *(word for word in named if word not in had)])
    return ",".join(word for word in had if word not in named)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
