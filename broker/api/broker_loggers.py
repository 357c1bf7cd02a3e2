"""This broker's loggers as a resource with settings: DescribeConfigs and IncrementalAlterConfigs of Kafka's broker-loggers.

A level lasts until it is changed again, deleted, or the broker stops. Other brokers are not changed.
"""

import logging
from collections import Counter
from collections.abc import Sequence

from ottla.wire.admin import (
    BROKER_LOGGER_RESOURCE,
    ConfigAlteration,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResult,
    ConfigSource,
    ConfigType,
)
from ottla.wire.errors import NO_ERROR, InvalidConfig, InvalidRequest, OttlaError

logger = logging.getLogger(__name__)

ROOT = "root"

LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's names. Python has nothing below DEBUG."""

_NAMES = {level: name for name, level in reversed(LEVELS.items()) if name != "TRACE"}

CHANGES_MAX = 10_000
"""Changes of levels in one request."""


class BrokerLoggers:
    """All loggers of this process; ``broker_id`` is the name of the resource."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def describe(self, name: str) -> tuple[ConfigEntry, ...]:
        """The level in force of each logger."""
        self._check_name(name)
        named = {ROOT: logging.root, **_loggers()}
        return tuple(
            ConfigEntry(
                key,
                _level_name(one.getEffectiveLevel()),
                ConfigSource.BROKER_LOGGER,
                config_type=ConfigType.STRING,
                documentation="the lowest level that is logged",
            )
            for key, one in sorted(named.items())
        )

    def altered(self, resources: Sequence[ConfigAlteration], *, validate_only: bool) -> list[ConfigResult]:
        """Set and delete levels: all that a resource names, or none. A resource that is named twice is refused both times."""
        named = Counter(resource.name for resource in resources)
        results = []
        for resource in resources:
            code, message = NO_ERROR, ""
            try:
                self._check_name(resource.name)
                if named[resource.name] > 1:
                    raise InvalidRequest(f"the loggers of broker {resource.name} are named twice in one request")
                self._alter(resource, validate_only)
            except OttlaError as error:
                code, message = error.code, str(error)
            results.append(ConfigResult(code, message, BROKER_LOGGER_RESOURCE, resource.name))
        return results

    def _alter(self, resource: ConfigAlteration, validate_only: bool) -> None:
        if len(resource.changes) > CHANGES_MAX:
            raise InvalidRequest(f"{len(resource.changes)} levels in one request; at most {CHANGES_MAX}")
        if len({change.key for change in resource.changes}) < len(resource.changes):
            raise InvalidRequest("a logger is named twice in one request")
        known = {ROOT: logging.root, **_loggers()}
        wanted = [(change.key, _wanted_level(change, known)) for change in resource.changes]
        if validate_only:
            return
        for key, level in wanted:
            known[key].setLevel(level)
        if wanted:
            levels = ",".join(f"{key}:{logging.getLevelName(level)}" for key, level in wanted)
            logger.info("log levels changed levels=%s", levels)

    def _check_name(self, name: str) -> None:
        if name != str(self._broker_id):
            raise InvalidRequest(f"this is broker {self._broker_id}: ask broker {name[:40]!r} about its loggers")


def _loggers() -> dict[str, logging.Logger]:
    """By name, without those that were never asked for and only stand between others."""
    known = dict(logging.root.manager.loggerDict)
    return {name: one for name, one in known.items() if isinstance(one, logging.Logger)}


def _wanted_level(change: ConfigChange, known: dict[str, logging.Logger]) -> int:
    key = change.key
    if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise InvalidRequest(f"operation {change.operation} is not allowed for loggers: set or delete their levels")
    if key not in known:
        raise InvalidConfig(f"logger {key[:100]!r} does not exist; describe the broker's loggers for their names")
    if change.operation == ConfigOperation.DELETE:
        if key == ROOT:
            raise InvalidRequest("the level of the root logger cannot be deleted: set it")
        return logging.NOTSET
    level = LEVELS.get(change.value or "")
    if level is None:
        raise InvalidConfig(
            f"level {(change.value or '')[:40]!r} of {key} is not known: it must be {', '.join(LEVELS)}"
        )
    return level


def _level_name(level: int) -> str:
    """Kafka's name of a level, or of the next one above it."""
    return next((name for known, name in sorted(_NAMES.items()) if level <= known), "FATAL")
