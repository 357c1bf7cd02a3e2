"""Settings of brokers that are changed while they run: which ones, what is allowed, and what is in force on this one.

For all brokers, or for one of them: that counts more, and both count more than what a broker was started with. The controller
writes them to ZooKeeper and tells every broker (decision 35); parts that want to hear of it are in ``on_changed``.
"""

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from ottla.broker.config import BrokerConfig, known_properties, property_name
from ottla.broker.failed_listeners import FailedListeners
from ottla.broker.storage.config_kinds import INT_MAX, ConfigKind, ConfigValue, boolean, config_text, integer
from ottla.broker.storage.log_config import warn_of_small_segments
from ottla.broker.storage.topic_configs import DEFAULT_OF, TOPIC_CONFIGS, Use, parse_setting
from ottla.wire.admin import ConfigEntry, ConfigSource, ConfigSynonym, ConfigType
from ottla.wire.errors import ConfigError, InvalidConfig
from ottla.wire.names import BROKER_ID_MAX, PARTITIONS_MAX

logger = logging.getLogger(__name__)

ALL_BROKERS = ""
"""Kafka's name for what is set for all of them."""

THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Rates that Kafka's tools set while they move replicas: stored and returned, but not enforced."""

NOT_ENFORCED = frozenset(THROTTLES) | {
    name for name, setting in TOPIC_CONFIGS.items() if setting.use is Use.NOT_ENFORCED
}
"""All settings of topics and brokers by which Kafka throttles replication, and Ottla does not."""

CHANGEABLE: dict[str, ConfigKind] = {
    **{of_broker: TOPIC_CONFIGS[of_topic].kind for of_topic, of_broker in DEFAULT_OF.items()},
    "auto.create.topics.enable": boolean(),
    "num.partitions": integer(1, PARTITIONS_MAX),
    "default.replication.factor": integer(1, 2**15 - 1),
    "group.max.size": integer(1, INT_MAX),
    "group.min.session.timeout.ms": integer(1, INT_MAX),
    "group.max.session.timeout.ms": integer(1, INT_MAX),
    "group.consumer.max.size": integer(1, INT_MAX),
    "group.consumer.session.timeout.ms": integer(1, INT_MAX),
    "group.consumer.heartbeat.interval.ms": integer(1, INT_MAX),
    **dict.fromkeys(THROTTLES, integer(0)),
    "offset.metadata.max.bytes": integer(0, INT_MAX),
    "offsets.retention.minutes": integer(1, INT_MAX),
}
"""Every setting that a running broker takes."""

FOR_ALL_ONLY = frozenset({"min.insync.replicas"})
"""The controller elects by it and leaders acknowledge by it: they must mean the same."""


def parse_broker_config(config: Mapping[str, str], name: str) -> dict[str, ConfigValue]:
    """Read settings for a broker, or ALL_BROKERS; InvalidConfig names the first key or value that is not allowed."""
    return {key: _parse(key, text, name) for key, text in config.items()}


def plain_broker_config(config: Mapping[str, str], name: str) -> dict[str, str]:
    """The same settings as they are stored: each in the one way in which its value is written."""
    return {key: config_text(value) for key, value in parse_broker_config(config, name).items()}


def check_changeable(key: str, name: str) -> ConfigKind:
    """How it is read; raises if it cannot be changed, or not for ``name``."""
    if key not in CHANGEABLE:
        if key in known_properties():
            raise InvalidConfig(
                f"{key} is read when a broker starts: set it in the broker's properties file and restart the broker"
            )
        near = difflib.get_close_matches(key[:100], CHANGEABLE)
        hint = f"did you mean {' or '.join(near)}?" if near else "docs/configuration.md marks those that can be changed"
        raise InvalidConfig(f"unknown broker config {key[:100]!r}; {hint}")
    if key in FOR_ALL_ONLY and name != ALL_BROKERS:
        raise InvalidConfig(
            f"{key} can be set for all brokers only: leaders and the controller must mean the same by it"
        )
    return CHANGEABLE[key]


def is_broker_name(name: str) -> bool:
    return (
        name.isascii()
        and name.isdecimal()
        and len(name) <= 10
        and str(int(name)) == name
        and int(name) <= BROKER_ID_MAX
    )


def _parse(key: str, text: str, name: str) -> ConfigValue:
    return parse_setting("broker config", key, text, check_changeable(key, name))


class BrokerSettings:
    """What one broker was started with, what it was told since, and what is in force."""

    def __init__(self, started_with: BrokerConfig) -> None:
        self._started_with = started_with
        self._name = str(started_with.broker_id)
        self._told: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self._of_all: Mapping[str, str] = {}
        self._own: Mapping[str, str] = {}
        self._failed = FailedListeners()
        self.config = started_with
        """In force."""
        self.on_changed: list[Callable[[BrokerConfig], None]] = []
        warn_of_small_segments("this broker", started_with.log_segment_bytes)

    def take(self, told: Mapping[str, Mapping[str, str]]) -> None:
        """What the controller says is set for which broker, all of it."""
        of_all, own = told.get(ALL_BROKERS, {}), told.get(self._name, {})
        if (of_all, own) == self._told:
            return
        self._told = of_all, own
        self._of_all, self._own = self._sensible(of_all, ALL_BROKERS), self._sensible(own, self._name)
        values = {**parse_broker_config(self._of_all, ALL_BROKERS), **parse_broker_config(self._own, self._name)}
        try:
            fresh: Any = {key.replace(".", "_"): value for key, value in values.items()}
            config = replace(self._started_with, **fresh)
        except ConfigError as error:
            logger.error("settings ignored, for they do not go with what this broker was started with error=%s", error)
            return
        if config == self.config:
            return
        if config.log_segment_bytes != self.config.log_segment_bytes:
            warn_of_small_segments("this broker", config.log_segment_bytes)
        self.config = config
        logger.info("settings changed for_all=%s for_this_broker=%s", dict(self._of_all), dict(self._own))
        for changed in self.on_changed:
            try:
                changed(config)
            except Exception as error:  # of one part: the others must hear it
                self._failed.note(changed, error)

    @staticmethod
    def _sensible(config: Mapping[str, str], name: str) -> dict[str, str]:
        """Without what somebody wrote into ZooKeeper by other means, or a newer version."""
        found: dict[str, str] = {}
        for key, text in config.items():
            try:
                found |= plain_broker_config({key: text}, name)
            except InvalidConfig as error:
                logger.warning("setting ignored error=%s", error)
        return found

    def entries(self) -> tuple[ConfigEntry, ...]:
        """All settings with where they come from; those that are secret are not told."""
        return tuple(self._entry(field.name, secret=not field.repr) for field in fields(self._started_with))

    def entries_of_all(self) -> tuple[ConfigEntry, ...]:
        """What is set for all brokers while they run."""
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        return tuple(
            ConfigEntry(
                key,
                text,
                source,
                synonyms=(ConfigSynonym(key, text, source),),
                config_type=_type_of(key),
                documentation=_FIELDS[key].metadata["help"],
            )
            for key, text in self._of_all.items()
        )

    def synonyms(self, key: str) -> tuple[ConfigSynonym, ...]:
        """A setting's value by each source that has one; the first counts."""
        field = _FIELDS[key]
        found = []
        if key in self._own:
            found.append(ConfigSynonym(key, self._own[key], ConfigSource.DYNAMIC_BROKER))
        if key in self._of_all:
            found.append(ConfigSynonym(key, self._of_all[key], ConfigSource.DYNAMIC_DEFAULT_BROKER))
        started_with = getattr(self._started_with, field.name)
        if started_with != field.default:
            found.append(ConfigSynonym(key, config_text(started_with), ConfigSource.BROKER))
        found.append(ConfigSynonym(key, config_text(field.default), ConfigSource.DEFAULT))
        return tuple(found)

    def _entry(self, field_name: str, *, secret: bool) -> ConfigEntry:
        key = property_name(field_name)
        known = self.synonyms(key)
        value = None if secret else known[0].value
        return ConfigEntry(
            key,
            value,
            known[0].source,
            key not in CHANGEABLE,
            secret,
            () if secret else known,
            _type_of(key),
            _FIELDS[key].metadata["help"],
        )


def _type_of(key: str) -> ConfigType:
    field = _FIELDS[key]
    if key in CHANGEABLE:
        return CHANGEABLE[key].type
    if not field.repr:
        return ConfigType.PASSWORD
    return {bool: ConfigType.BOOLEAN, int: ConfigType.INT}.get(type(field.default), ConfigType.STRING)


_FIELDS = {property_name(field.name): field for field in fields(BrokerConfig)}
