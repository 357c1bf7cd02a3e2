"""DescribeConfigs: the settings of topics, those left to the broker too, and where each comes from; and those of brokers.

Any broker answers for topics, each for itself of its own.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields

from ottla.broker.cluster_view import ClusterView
from ottla.broker.config import BrokerConfig, property_name
from ottla.broker.storage.log_config import TOPIC_CONFIGS, LogConfig
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigEntry,
    ConfigSource,
    ConfigsToDescribe,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, BrokerNotAvailable, InvalidRequest, OttlaError, UnknownTopicOrPartition
from ottla.wire.names import RECORD_FORMAT, RECORD_FORMAT_COLUMNAR, check_topic_name

RESOURCES_MAX = 1_000

WITHOUT_BROKER_SETTING = {
    "cleanup.policy": "delete",
    RECORD_FORMAT: RECORD_FORMAT_COLUMNAR,
    "unclean.leader.election.enable": "false",
}
"""What a topic has where it says nothing, and no broker can say otherwise."""


def broker_defaults(log: LogConfig, min_insync: int) -> dict[str, str]:
    """What topics have on a broker where they say nothing themselves."""
    named = {field.name.replace("_", "."): str(getattr(log, field.name)) for field in fields(log)}
    everything = {**WITHOUT_BROKER_SETTING, **named, "min.insync.replicas": str(min_insync)}
    return {key: everything[key] for key in TOPIC_CONFIGS}


BUILT_IN = broker_defaults(LogConfig(), 1)


def broker_settings(config: BrokerConfig) -> tuple[ConfigEntry, ...]:
    """All settings of a broker. They are read when it starts, and those that are secret are not told."""
    entries = []
    for field in fields(config):
        value, secret = getattr(config, field.name), not field.repr
        text = str(value).lower() if isinstance(value, bool) else str(value)
        own = field.default is MISSING or value != field.default
        source = ConfigSource.BROKER if own else ConfigSource.DEFAULT
        entries.append(ConfigEntry(property_name(field.name), None if secret else text, source, True, secret))
    return tuple(entries)


class DescribeConfigsHandler:
    """``defaults`` is what ``broker_defaults`` gave for this broker, ``settings`` what ``broker_settings`` did."""

    def __init__(
        self, view: ClusterView, defaults: Mapping[str, str], broker_id: int, settings: tuple[ConfigEntry, ...]
    ) -> None:
        self._view = view
        self._defaults = defaults
        self._broker_id = broker_id
        self._settings = settings

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, DescribeConfigsRequest)
        if len(request.resources) > RESOURCES_MAX:
            raise InvalidRequest(f"{len(request.resources)} resources in one request; at most {RESOURCES_MAX}")
        if not self._view.known:
            raise BrokerNotAvailable("this broker has just started and knows nothing of the cluster yet")
        return Reply(DescribeConfigsResponse([self._describe(resource) for resource in request.resources]))

    def _describe(self, resource: ConfigsToDescribe) -> DescribedConfigs:
        try:
            entries = self._entries(resource)
        except OttlaError as error:
            return DescribedConfigs(error.code, str(error), resource.resource_type, resource.name)
        return DescribedConfigs(NO_ERROR, "", resource.resource_type, resource.name, entries)

    def _entries(self, resource: ConfigsToDescribe) -> tuple[ConfigEntry, ...]:
        if resource.resource_type == BROKER_RESOURCE:
            return self._broker_entries(resource)
        if resource.resource_type != TOPIC_RESOURCE:
            raise InvalidRequest(
                f"resources of type {resource.resource_type} cannot be described:"
                f" only topics ({TOPIC_RESOURCE}) and brokers ({BROKER_RESOURCE})"
            )
        topic = self._view.topic(check_topic_name(resource.name))
        if topic is None:
            raise UnknownTopicOrPartition(f"topic {resource.name!r} does not exist", topic=resource.name)
        keys = [*self._defaults, *(key for key in topic.config if key not in self._defaults)]
        wanted = keys if resource.keys is None else [key for key in keys if key in resource.keys]
        return tuple(self._entry(key, topic.config) for key in wanted)

    def _broker_entries(self, resource: ConfigsToDescribe) -> tuple[ConfigEntry, ...]:
        if not resource.name:
            return ()  # what all brokers were told at run time: nothing can be
        if resource.name != str(self._broker_id):
            raise InvalidRequest(
                f"this is broker {self._broker_id}: ask broker {resource.name[:40]!r} for its settings"
            )
        return tuple(entry for entry in self._settings if resource.keys is None or entry.key in resource.keys)

    def _entry(self, key: str, config: Mapping[str, str]) -> ConfigEntry:
        if key in config:
            return ConfigEntry(key, config[key], ConfigSource.TOPIC)
        value = self._defaults[key]
        return ConfigEntry(key, value, ConfigSource.DEFAULT if value == BUILT_IN[key] else ConfigSource.BROKER)
