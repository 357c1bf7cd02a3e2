"""Metadata: who is in the cluster and who leads what; ApiVersions: what can be asked here."""

import asyncio
from collections.abc import Callable

from ottla.broker.api.auto_topics import AutoTopics
from ottla.broker.api.later import later
from ottla.broker.api.lost_leaders import LostLeaders
from ottla.broker.api.slices import Slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.peers import Handshakes, Identity
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import BrokerNotAvailable, InvalidRequest, InvalidTopic
from ottla.wire.messages import Api
from ottla.wire.names import TOPIC_NAME_MAX, check_topic_name
from ottla.wire.requests import ApiVersionsResponse, MetadataRequest, MetadataResponse, TopicMetadata

TOPICS_MAX = 10_000

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Less than one frame holds, and than librdkafka takes (receive.message.max.bytes): what does not fit is left out."""

PARTITION_BYTES, REPLICA_BYTES, TOPIC_BYTES = 100, 15, 100
"""At most so many in either dialect: a replica is named among the replicas, in sync, and eligible."""


PARTITIONS_INLINE = 1_000
"""An answer of more partitions is encoded in a thread."""

CHUNK = 200
"""So many topics are described between two looks at the clock."""

Finish = Callable[[MetadataResponse], MetadataResponse]


class MetadataHandler:
    """What clients are told of the brokers' addresses depends on the listener through which they came in."""

    def __init__(
        self,
        view: ClusterView,
        auto_topics: AutoTopics | None = None,
        lost_leaders: LostLeaders | None = None,
        in_doubt: Callable[[], bool] = lambda: False,
    ) -> None:
        """With ``auto_topics``, what does not exist is made for those who ask so. ``in_doubt``: others may know more."""
        self._in_doubt = in_doubt
        self._view = view
        self._lost_leaders = lost_leaders
        self._auto_topics = auto_topics

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, MetadataRequest)
        if request.topics is not None and len(request.topics) > TOPICS_MAX:
            raise InvalidRequest(f"{len(request.topics)} topics in one request; at most {TOPICS_MAX}")
        if not self._view.known:
            raise BrokerNotAvailable("this broker has just started and knows nothing of the cluster yet")
        # What comes in pages (Kafka's DescribeTopicPartitions) is cut where it is written.
        finish = _shortened if incoming.api == Api.METADATA else _as_it_is
        if request.topics is None:
            answer = finish(self._described(None, connection.listener))
            incoming.is_long = sum([len(topic.partitions) for topic in answer.topics]) > PARTITIONS_INLINE
            return Reply(answer)
        names = list(dict.fromkeys(request.topics))  # each is told once, however often it is named
        if request.auto_create and self._auto_topics is not None:
            missing = [name for name in self._auto_topics.missing(names) if _is_legal(name)]
            if missing:
                return later(self._make_and_describe(self._auto_topics, missing, names, connection.listener, finish))
        if incoming.is_long:
            return later(self._describe_many(names, connection.listener, finish))
        lost = self._lost_leaders
        if lost is not None and lost.can_tell(names):
            return later(self._describe_later(lost, names, connection.listener, finish))
        return Reply(finish(self._describe(names, connection.listener)))

    async def _describe_many(self, names: list[str], listener: str, finish: Finish) -> Reply:
        """In slices. The answer is as old as its first part, whatever has changed meanwhile."""
        slices = Slices()
        answer = self._describe(names[:CHUNK], listener)
        for start in range(CHUNK, len(names), CHUNK):
            await slices.rest()
            answer.topics += self._describe(names[start : start + CHUNK], listener).topics
        return Reply(finish(answer))

    async def _describe_later(self, lost: LostLeaders, names: list[str], listener: str, finish: Finish) -> Reply:
        await lost.wait(names)
        return Reply(finish(self._describe(names, listener)))

    async def _make_and_describe(
        self, auto: AutoTopics, missing: list[str], names: list[str], listener: str, finish: Finish
    ) -> Reply:
        await auto.make(missing)
        return Reply(finish(self._describe(names, listener)))

    def _describe(self, names: list[str], listener: str) -> MetadataResponse:
        """These topics. A name that no topic can have is told apart from one that none has yet: nobody need ask again."""
        legal: list[str] = []
        refused: list[TopicMetadata] = []
        for name in names:
            try:
                legal.append(check_topic_name(name))
            except InvalidTopic as error:
                refused.append(TopicMetadata(name[:TOPIC_NAME_MAX], "", [], {}, error.code, str(error)))
        response = self._described(legal, listener)
        response.topics += refused
        return response

    def _described(self, names: list[str] | None, listener: str) -> MetadataResponse:
        response = self._view.describe(names, listener)
        response.in_doubt = self._in_doubt()
        return response


def _as_it_is(response: MetadataResponse) -> MetadataResponse:
    return response


def _shortened(response: MetadataResponse) -> MetadataResponse:
    """The answer, with an error in the place of the topics that do not fit: they are named, and can be asked for by name."""
    left = ANSWER_BYTES_MAX
    for place, topic in enumerate(response.topics):
        size = _bytes_at_most(topic)
        if size <= left:
            left -= size
        else:
            error = InvalidRequest(
                f"the answer would be longer than {ANSWER_BYTES_MAX} bytes: ask for fewer topics at a time, by their names"
            )
            response.topics[place] = TopicMetadata(topic.name, topic.topic_id, [], {}, error.code, str(error))
    return response


def _bytes_at_most(topic: TopicMetadata) -> int:
    partitions = topic.partitions
    each = PARTITION_BYTES + REPLICA_BYTES * max((len(partition.replicas) for partition in partitions[:1]), default=0)
    settings = sum(4 * (len(key) + len(value)) for key, value in topic.config.items())
    return TOPIC_BYTES + len(topic.name) + settings + each * len(partitions)


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


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
