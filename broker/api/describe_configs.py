"""DescribeConfigs: the settings of topics, with those left to the broker, of brokers and of their loggers, and their sources.

Any broker answers for topics, each for itself of its own.
"""

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from ottla.broker.api.broker_loggers import BrokerLoggers
from ottla.broker.api.later import while_asked
from ottla.broker.api.slices import in_slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.dynamic_config import BrokerSettings
from ottla.broker.group_configs import GROUP_CONFIGS
from ottla.broker.groups.limits import check_group_id
from ottla.broker.storage.topic_configs import TOPIC_CONFIGS, TopicSetting
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigEntry,
    ConfigSource,
    ConfigsToDescribe,
    ConfigSynonym,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, BrokerNotAvailable, InvalidRequest, OttlaError, UnknownTopicOrPartition
from ottla.wire.names import check_topic_name
from ottla.wire.request_limits import INLINE_RESOURCES_MAX

RESOURCES_MAX = 1_000

Known = dict[tuple[int, str], tuple[ConfigEntry, ...]]
"""The settings of resources, by type and name. One that is named a thousand times is described once."""


class DescribeConfigsHandler:
    """``settings`` are this broker's."""

    def __init__(self, view: ClusterView, broker_id: int, settings: BrokerSettings, loggers: BrokerLoggers) -> None:
        self._view = view
        self._broker_id = broker_id
        self._settings = settings
        self._loggers = loggers

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DescribeConfigsRequest)
        if len(request.resources) > RESOURCES_MAX:
            raise InvalidRequest(f"{len(request.resources)} resources in one request; at most {RESOURCES_MAX}")
        if not self._view.known:
            raise BrokerNotAvailable("this broker has just started and knows nothing of the cluster yet")
        incoming.is_long |= len(request.resources) > INLINE_RESOURCES_MAX
        known: Known = {}
        if incoming.is_long:
            return while_asked(self._describe_many(request, known))
        described = [self._describe(resource, request.documentation, known) for resource in request.resources]
        return Reply(DescribeConfigsResponse(described))

    async def _describe_many(self, request: DescribeConfigsRequest, known: Known) -> Reply:
        described = await in_slices(
            lambda resource: self._describe(resource, request.documentation, known), request.resources
        )
        return Reply(DescribeConfigsResponse(described))

    def _describe(
        self, resource: ConfigsToDescribe, with_documentation: bool = False, known: Known | None = None
    ) -> DescribedConfigs:
        """``known`` has the settings of all resources that the request has named before."""
        known = {} if known is None else known
        key = (resource.resource_type, resource.name)
        try:
            entries = known.get(key)
            if entries is None:
                entries = self._entries(resource)
                if not with_documentation:
                    entries = tuple(replace(entry, documentation=None) for entry in entries)
                known[key] = entries
        except OttlaError as error:
            return DescribedConfigs(error.code, str(error), resource.resource_type, resource.name)
        return DescribedConfigs(NO_ERROR, "", resource.resource_type, resource.name, _named(entries, resource))

    def _entries(self, resource: ConfigsToDescribe) -> tuple[ConfigEntry, ...]:
        """All settings of a resource."""
        if resource.resource_type == BROKER_RESOURCE:
            return self._broker_entries(resource.name)
        if resource.resource_type == GROUP_RESOURCE:
            return self._group_entries(resource.name)
        if resource.resource_type == BROKER_LOGGER_RESOURCE:
            return self._loggers.describe(resource.name)
        if resource.resource_type != TOPIC_RESOURCE:
            raise InvalidRequest(
                f"resources of type {resource.resource_type} cannot be described:"
                f" only topics ({TOPIC_RESOURCE}), brokers ({BROKER_RESOURCE}), their loggers ({BROKER_LOGGER_RESOURCE})"
                f" and groups ({GROUP_RESOURCE})"
            )
        topic = self._view.topic(check_topic_name(resource.name))
        if topic is None:
            raise UnknownTopicOrPartition(f"topic {resource.name!r} does not exist", topic=resource.name)
        keys = [*TOPIC_CONFIGS, *(key for key in topic.config if key not in TOPIC_CONFIGS)]
        return tuple(self._entry(key, topic.config) for key in keys)

    def _broker_entries(self, name: str) -> tuple[ConfigEntry, ...]:
        if not name:
            return self._settings.entries_of_all()
        if name == str(self._broker_id):
            return self._settings.entries()
        raise InvalidRequest(f"this is broker {self._broker_id}: ask broker {name[:40]!r} for its settings")

    def _group_entries(self, group: str) -> tuple[ConfigEntry, ...]:
        """Of any group: settings may come before its first member."""
        check_group_id(group)
        config = self._view.group_settings.get(group, {})
        entries = []
        for key, setting in GROUP_CONFIGS.items():
            known = self._settings.synonyms(setting.broker_name)
            if key in config:
                known = (ConfigSynonym(key, config[key], ConfigSource.GROUP), *known)
            value, source, kind = known[0].value, known[0].source, setting.kind.type
            entries.append(
                ConfigEntry(key, value, source, synonyms=known, config_type=kind, documentation=setting.text)
            )
        return tuple(entries)

    def _entry(self, key: str, config: Mapping[str, str]) -> ConfigEntry:
        """A topic's own setting counts, then its broker's."""
        setting = TOPIC_CONFIGS.get(key)
        known = self._of_broker(setting) if setting is not None else ()
        if key in config:
            known = (ConfigSynonym(key, config[key], ConfigSource.TOPIC), *known)
        value = known[0].value if known else setting.default if setting is not None else None
        source = known[0].source if known else ConfigSource.DEFAULT
        kind, text = (setting.kind.type, setting.text) if setting is not None else (ConfigType.UNKNOWN, None)
        return ConfigEntry(key, value, source, synonyms=known, config_type=kind, documentation=text)

    def _of_broker(self, setting: TopicSetting) -> tuple[ConfigSynonym, ...]:
        """The broker's setting, by its own name; none if Kafka's brokers have none either."""
        if setting.default is None:
            return self._settings.synonyms(setting.broker_name)
        if not setting.broker_name:
            return ()
        return (ConfigSynonym(setting.broker_name, setting.default, ConfigSource.DEFAULT),)


def _named(entries: tuple[ConfigEntry, ...], resource: ConfigsToDescribe) -> tuple[ConfigEntry, ...]:
    """Those of the settings that were asked for."""
    if resource.keys is None:
        return entries
    wanted = set(resource.keys)
    return tuple(entry for entry in entries if entry.key in wanted)
