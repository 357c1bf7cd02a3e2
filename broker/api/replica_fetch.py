"""Fetch, as followers use it: records as soon as there are any, and a little later what of them is committed."""

import asyncio
import time
from collections.abc import Callable

from ottla.broker.api.parts import ANSWER_MAX
from ottla.broker.metrics import Metrics
from ottla.broker.replication.followers import FollowerSession
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.waiting import WaitingRooms
from ottla.net.connection import Connection
from ottla.net.reply import Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.errors import ClusterAuthorizationFailed, OttlaError
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

WAIT_MAX_S = 10.0

COMMITTED_DELAY_S = 0.02
"""How long a follower that has everything is left in the dark about what is committed; under load it hears sooner."""


class ReplicaFetchHandler:
    """Notes how far followers are, and gives them what comes next."""

    def __init__(
        self,
        partitions: Partitions,
        rooms: WaitingRooms,
        metrics: Metrics,
        on_replica_fetch: Callable[[Partition], None],
    ) -> None:
        """``on_replica_fetch`` is called when a follower that is not in sync has fetched."""
        self._partitions = partitions
        self._room = rooms.replica_fetches
        self._followers = rooms.followers
        self._bytes_out = metrics.bytes_out
        self._on_replica_fetch = on_replica_fetch
        self._news: asyncio.TimerHandle | None = None
        rooms.on_committed = self._more_is_committed

    def __call__(self, request: FetchRequest, connection: Connection) -> Reply | Later:
        replica = request.replica_id
        if connection.broker_id != replica:
            # A forged follower could read what is not committed and make the leader believe that it is replicated.
            connection.refuse("it fetched as a replica and is no broker")
            raise ClusterAuthorizationFailed("only brokers of this cluster fetch as replicas")
        if request.since_last:
            session = self._followers.get(replica, request.broker_epoch, connection)
        else:
            session = self._followers.begin(replica, request.broker_epoch, connection)
        if session.waiting is not None:
            session.waiting.give(self._reply(session))
        if request.max_bytes <= 0:
            return Reply(FetchResponse([]))  # all that it wants is that its last request waits no more
        self._note(session, request)
        reply = self._reply_if_any(session)
        if reply is not None:
            return reply
        wait_s = min(request.max_wait_ms / 1000, WAIT_MAX_S)
        if wait_s <= 0:
            return self._reply(session)
        waiting = self._room.wait(lambda: self._reply_if_any(session), lambda: self._reply(session), (session,), wait_s)
        session.waiting = waiting
        if session.is_unaware:
            self._more_is_committed()
        return waiting

    def _note(self, session: FollowerSession, request: FetchRequest) -> None:
        """How far the follower is, in the partitions that it names."""
        session.fetched_at = now = time.monotonic()
        session.max_bytes = min(request.max_bytes, ANSWER_MAX)
        for drop in request.dropped:
            session.drop((drop.topic, drop.partition))
        for part in request.parts:
            self._note_part(session, part, now, request.since_last)

    def _note_part(self, session: FollowerSession, part: FetchPart, now: float, since_last: bool) -> None:
        place = session.name(part)
        if since_last:  # a follower that begins is told of every partition once, whatever it knows
            place.told = part.high_watermark
        try:
            partition = self._partitions.led(part.topic, part.partition, part.leader_epoch)
            divergence = partition.fetched_by(session.replica, session.broker_epoch, part, now)
        except OttlaError as error:
            session.refuse(place, error)
            return
        if divergence is not None:
            session.refuse(place, divergence)
            return
        session.follow(place, partition)
        if partition.leading is not None and session.replica not in partition.leading.isr.members:
            self._on_replica_fetch(partition)

    def _reply_if_any(self, session: FollowerSession) -> Reply | None:
        """An answer, if there are records or errors to be told."""
        results: list[FetchPartResult] = []
        attachments: list[Buffer] = []
        size = session.take_news(self._partitions, results, attachments)
        if not results:
            return None
        session.waiting = None  # or what it was given would stay in memory
        self._bytes_out.count += size
        return Reply(FetchResponse(results), attachments)

    def _reply(self, session: FollowerSession) -> Reply:
        """What there is to say, if only what is committed, or nothing at all."""
        results: list[FetchPartResult] = []
        attachments: list[Buffer] = []
        self._bytes_out.count += session.take_news(self._partitions, results, attachments)
        session.take_commits(results)
        session.waiting = None
        return Reply(FetchResponse(results), attachments)

    def _more_is_committed(self) -> None:
        """Followers that have everything hear, a little later, that more is committed than they know.

        If one were to lead next, with too few others to commit anything, it could show no more than it knows of.
        """
        if self._news is None and self._room.size:
            self._news = asyncio.get_running_loop().call_later(COMMITTED_DELAY_S, self._tell_followers)

    def _tell_followers(self) -> None:
        self._news = None
        for session in self._followers.all():
            if session.is_unaware and session.waiting is not None:
                session.waiting.give(self._reply(session))
