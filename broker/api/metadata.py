"""Metadata: who is in the cluster and who leads what; ApiVersions: what can be asked here."""

from collections.abc import Callable

from ottla.broker.cluster_view import ClusterView
from ottla.broker.peers import Handshakes, Identity
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import BrokerNotAvailable, InvalidRequest, InvalidTopic
from ottla.wire.names import TOPIC_NAME_MAX, check_topic_name
from ottla.wire.requests import ApiVersionsResponse, MetadataRequest, MetadataResponse, TopicMetadata

TOPICS_MAX = 10_000


class MetadataHandler:
    """What clients are told of the brokers' addresses depends on the listener through which they came in."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, MetadataRequest)
        if request.topics is not None and len(request.topics) > TOPICS_MAX:
            raise InvalidRequest(f"{len(request.topics)} topics in one request; at most {TOPICS_MAX}")
        if not self._view.known:
            raise BrokerNotAvailable("this broker has just started and knows nothing of the cluster yet")
        if request.topics is None:
            return Reply(self._view.describe(None, connection.listener))
        return Reply(self._describe(request.topics, connection.listener))

    def _describe(self, names: list[str], listener: str) -> MetadataResponse:
        """These topics. A name that no topic can have is told apart from one that none has yet: nobody need ask again."""
        legal: list[str] = []
        refused: list[TopicMetadata] = []
        for name in names:
            try:
                legal.append(check_topic_name(name))
            except InvalidTopic as error:
                refused.append(TopicMetadata(name[:TOPIC_NAME_MAX], "", [], {}, error.code, str(error)))
        response = self._view.describe(legal, listener)
        response.topics += refused
        return response


class ApiVersionsHandler:
    """What can be asked depends on the dialect in which it is asked."""

    def __init__(self, identity: Callable[[], Identity], handshakes: Handshakes, software: str) -> None:
        self._identity = identity
        self._handshakes = handshakes
        self._software = software

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        who, nonce, ranges = self._identity(), self._handshakes.challenge(connection), incoming.dialect.api_ranges
        return Reply(
            ApiVersionsResponse(ranges, self._software, who.broker_id, who.cluster_id, nonce, who.broker_epoch)
        )
