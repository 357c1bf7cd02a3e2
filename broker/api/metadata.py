"""Metadata: who is in the cluster and who leads what; ApiVersions: what can be asked here."""

import secrets
from collections.abc import Callable

from ottla.broker.cluster_view import ClusterView
from ottla.broker.peers import NONCE_BYTES, Identity
from ottla.net.connection import Connection
from ottla.net.reply import Reply
from ottla.wire.apis import API_RANGES
from ottla.wire.connection import IncomingRequest
from ottla.wire.errors import BrokerNotAvailable, InvalidRequest, InvalidTopic
from ottla.wire.names import TOPIC_NAME_MAX, check_topic_name
from ottla.wire.requests import ApiVersionsResponse, MetadataRequest, MetadataResponse, TopicMetadata

TOPICS_MAX = 10_000


class MetadataHandler:
    """For those who come in through one listener."""

    def __init__(self, view: ClusterView, listener: str) -> None:
        self._view = view
        self._listener = listener

    def __call__(self, incoming: IncomingRequest, connection: Connection) -> Reply:
        request = incoming.message
        assert isinstance(request, MetadataRequest)
        if request.topics is not None and len(request.topics) > TOPICS_MAX:
            raise InvalidRequest(f"{len(request.topics)} topics in one request; at most {TOPICS_MAX}")
        if not self._view.known:
            raise BrokerNotAvailable("this broker has just started and knows nothing of the cluster yet")
        if request.topics is None:
            return Reply(self._view.describe(None, self._listener))
        return Reply(self._describe(request.topics))

    def _describe(self, names: list[str]) -> MetadataResponse:
        """These topics. A name that no topic can have is told apart from one that none has yet: nobody need ask again."""
        legal: list[str] = []
        refused: list[TopicMetadata] = []
        for name in names:
            try:
                legal.append(check_topic_name(name))
            except InvalidTopic as error:
                refused.append(TopicMetadata(name[:TOPIC_NAME_MAX], "", [], {}, error.code, str(error)))
        response = self._view.describe(legal, self._listener)
        response.topics += refused
        return response


class ApiVersionsHandler:
    def __init__(self, identity: Callable[[], Identity], software: str) -> None:
        self._identity = identity
        self._software = software

    def __call__(self, incoming: IncomingRequest, connection: Connection) -> Reply:
        connection.nonce = connection.nonce or secrets.token_bytes(NONCE_BYTES)
        who = self._identity()
        return Reply(
            ApiVersionsResponse(
                API_RANGES, self._software, who.broker_id, who.cluster_id, connection.nonce, who.broker_epoch
            )
        )
