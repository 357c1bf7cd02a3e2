"""Fetch: give record batches of many partitions, waiting for enough of them if there are not."""

import asyncio

from ottla.broker.api.consumer_sessions import WAIT_MAX_S, ConsumerSessions
from ottla.broker.api.fetched_parts import FetchedParts
from ottla.broker.api.later import while_asked
from ottla.broker.api.long_fetch import LongFetches
from ottla.broker.api.numbered_sessions import NumberedSessions
from ottla.broker.api.parts import check_parts
from ottla.broker.api.replica_fetch import ReplicaFetchHandler
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.purgatory import Purgatory
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.messages import CONSUMER
from ottla.wire.requests import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchResponse,
    NumberedFetchRequest,
    NumberedFetchResponse,
)

Answer = Reply | Later | asyncio.Future[Reply]


class FetchHandler:
    """Reads what there is; a fetch that finds too little waits in the purgatory until its partitions have more.

    Followers, and consumers that have what they name kept, are served by their sessions.
    """

    def __init__(
        self,
        partitions: Partitions,
        view: ClusterView,
        room: Purgatory,
        metrics: Metrics,
        for_replicas: ReplicaFetchHandler,
        sessions: ConsumerSessions,
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._room = room
        self._bytes_out = metrics.bytes_out
        self._for_replicas = for_replicas
        self._sessions = sessions
        self._numbered = NumberedSessions(sessions)
        self._long = LongFetches(partitions, view, sessions, self._numbered, metrics.bytes_out)

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Answer:
        request = incoming.message
        assert isinstance(request, FetchRequest)
        check_parts(request.parts)
        if incoming.is_long and request.replica_id == CONSUMER:
            return while_asked(self._long.answer(request, connection))
        if isinstance(request, NumberedFetchRequest):
            return self._of_number(request, connection)
        if request.replica_id != CONSUMER:
            return self._for_replicas(request, connection)
        if request.since_last:
            return self._sessions.get(connection, request.parts).fetch(request)
        if request.keep:
            session = self._sessions.begin(connection, request.parts)
            if session is not None:
                return session.fetch(request)
        return self._of_all(request, connection)

    def _of_number(self, request: NumberedFetchRequest, connection: Peer) -> Reply | Later:
        """As Kafka's clients ask: whoever names everything gives up the session that it had."""
        if request.replica_id != CONSUMER:
            return self._for_replicas(request, connection)
        if request.session_epoch not in (FIRST_EPOCH, FINAL_EPOCH):
            return self._numbered.fetch(connection, request)
        if request.session_id != NO_SESSION:
            self._numbered.end(connection, request.session_id)
        return self._of_all(request, connection)

    def _of_all(self, request: FetchRequest, connection: Peer) -> Reply | Later:
        """Answer for every part, and keep nothing but what is asked for with a number."""
        fetch = FetchedParts(self._partitions, self._view, request)
        wait_s = min(max(request.max_wait_ms, 0) / 1000, WAIT_MAX_S)
        fetch.look()
        if fetch.satisfied or not request.parts:
            return self._reply(fetch, connection)
        if wait_s == 0:
            return self._reply_again(fetch, connection)  # a glance has no results
        waiting = fetch.waiting = self._room.wait(
            lambda: self._reply_if_enough(fetch, connection),
            lambda: self._reply_in_time(fetch, connection),
            [(part.topic, part.partition) for part in request.parts],
            wait_s,
        )
        return waiting

    def _reply_if_enough(self, fetch: FetchedParts, connection: Peer) -> Reply | None:
        if fetch.waiting is None or not connection.takes(fetch.waiting) or not fetch.enough():
            return None
        fetch.waiting = None
        return self._reply(fetch, connection)

    def _reply_in_time(self, fetch: FetchedParts, connection: Peer) -> Reply:
        """Time is over. A peer that has not taken what it was given before gets no records: it can ask again."""
        if fetch.waiting is not None and not connection.takes(fetch.waiting):
            fetch.may_read = False
        fetch.waiting = None
        fetch.read()
        if not fetch.size and self._sessions.is_isolated():
            fetch.refuse_isolated()
        return self._reply(fetch, connection)

    def _reply(self, fetch: FetchedParts, connection: Peer) -> Reply:
        self._bytes_out.count += fetch.size
        request = fetch.request
        if not isinstance(request, NumberedFetchRequest):
            return Reply(FetchResponse(fetch.results), fetch.attachments)
        for part, result in zip(request.parts, fetch.results, strict=True):
            result.topic_id = part.topic_id
        number = NO_SESSION
        if request.session_epoch == FIRST_EPOCH:
            number = self._numbered.begin(connection, request, fetch.results)
        return Reply(NumberedFetchResponse(fetch.results, number != NO_SESSION, number), fetch.attachments)

    def _reply_again(self, fetch: FetchedParts, connection: Peer) -> Reply:
        fetch.read()
        return self._reply(fetch, connection)
