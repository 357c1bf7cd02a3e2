"""Settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from typing import Any

from ottla.wire.admin import (
    CLIENT_METRICS_RESOURCE,
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigAlteration,
    ConfigChange,
    ConfigEntry,
    ConfigReplacement,
    ConfigResult,
    ConfigsToDescribe,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, OttlaError
from ottla.wire.kafka.api import Asked, KafkaApi, Read, failed_at_top
from ottla.wire.kafka.schemas import Values
from ottla.wire.messages import Api

CONTROLLER_MS = 30_000
"""How long the controller may take: these requests do not say."""


def read_describe(asked: Asked) -> Read:
    resources = [
        ConfigsToDescribe(
            one.resource_type,
            one.resource_name,
            list(one.configuration_keys) if one.configuration_keys is not None else None,
        )
        for one in asked.entity.resources
    ]
    documentation = bool(asked.get("include_documentation", False))
    return Read(DescribeConfigsRequest(resources, documentation), asked.entity.include_synonyms)


def write_describe(request: IncomingRequest, message: DescribeConfigsResponse) -> Values:
    with_synonyms = bool(request.context)
    return {
        "results": [
            {**_result(resource), "configs": [_entry(entry, with_synonyms) for entry in resource.entries]}
            for resource in message.resources
        ]
    }


def _entry(entry: ConfigEntry, with_synonyms: bool) -> dict[str, Any]:
    return {
        "name": entry.key,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.sensitive,
        "synonyms": [{"name": one.key, "value": one.value, "source": one.source} for one in entry.synonyms]
        if with_synonyms
        else [],
        "config_type": entry.config_type,
        "documentation": entry.documentation,
    }


def _result(resource: ConfigResult | DescribedConfigs) -> dict[str, Any]:
    return {
        "error_code": resource.error_code,
        "error_message": resource.error_message if resource.error_code != NO_ERROR else None,
        "resource_type": resource.resource_type,
        "resource_name": resource.name,
    }


def failed_describe(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, DescribeConfigsRequest)
    failed = [DescribedConfigs(error.code, str(error), one.resource_type, one.name) for one in message.resources]
    return write_describe(request, DescribeConfigsResponse(failed))


def read_alter(asked: Asked) -> Read:
    resources = [
        ConfigReplacement(
            one.resource_type,
            one.resource_name,
            {entry.name: entry.value for entry in one.configs if entry.value is not None},
        )
        for one in asked.entity.resources
    ]
    return Read(AlterConfigsRequest(resources, CONTROLLER_MS, asked.entity.validate_only, any_broker=True))


def read_incremental_alter(asked: Asked) -> Read:
    resources = [
        ConfigAlteration(
            one.resource_type,
            one.resource_name,
            [ConfigChange(entry.name, entry.config_operation, entry.value) for entry in one.configs],
        )
        for one in asked.entity.resources
    ]
    return Read(IncrementalAlterConfigsRequest(resources, CONTROLLER_MS, asked.entity.validate_only, any_broker=True))


def write_alter(request: IncomingRequest, message: AlterConfigsResponse | IncrementalAlterConfigsResponse) -> Values:
    return {"responses": [_result(resource) for resource in message.resources]}


def failed_alter(request: IncomingRequest, error: OttlaError) -> Values:
    message = request.message
    assert isinstance(message, AlterConfigsRequest | IncrementalAlterConfigsRequest)
    failed = [ConfigResult(error.code, str(error), one.resource_type, one.name) for one in message.resources]
    return write_alter(request, AlterConfigsResponse(failed))


def read_list_resources(asked: Asked) -> Read:
    """Version 0 is ListClientMetricsResources."""
    types = asked.get("resource_types")
    return Read(ListConfigResourcesRequest([CLIENT_METRICS_RESOURCE] if types is None else list(types)))


def write_list_resources(request: IncomingRequest, message: ListConfigResourcesResponse) -> Values:
    return {
        "error_code": message.error_code,
        "config_resources": [
            {"resource_name": one.name, "resource_type": one.resource_type} for one in message.resources
        ],
    }


CONFIG_APIS = [
    KafkaApi(Api.LIST_CONFIG_RESOURCES, 0, 1, read_list_resources, write_list_resources, failed_at_top),
    KafkaApi(Api.DESCRIBE_CONFIGS, 1, 4, read_describe, write_describe, failed_describe),
    KafkaApi(Api.ALTER_CONFIGS, 0, 2, read_alter, write_alter, failed_alter),
    KafkaApi(Api.INCREMENTAL_ALTER_CONFIGS, 0, 1, read_incremental_alter, write_alter, failed_alter),
]
