"""ListConfigResources: the names of all that has settings. Any broker answers."""

from collections.abc import Iterable

from ottla.broker.cluster_view import ClusterView
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResourceName,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import UnsupportedVersion

LISTED = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


class ListConfigResourcesHandler:
    """Lists topics, live brokers, and groups that have settings; there are no client metrics."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, ListConfigResourcesRequest)
        wanted = set(request.resource_types) or set(LISTED)
        if not wanted <= set(LISTED):
            raise UnsupportedVersion(f"resources of types {sorted(wanted - set(LISTED))[:10]} cannot be listed")
        resources = tuple(
            ConfigResourceName(kind, name) for kind in LISTED if kind in wanted for name in sorted(self._names(kind))
        )
        return Reply(ListConfigResourcesResponse(0, "", resources))

    def _names(self, kind: int) -> Iterable[str]:
        if kind == TOPIC_RESOURCE:
            return self._view.topic_names()
        if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
            return map(str, self._view.brokers)
        return self._view.group_settings if kind == GROUP_RESOURCE else ()
