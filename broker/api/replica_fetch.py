"""Fetch, as followers use it: records as soon as there are any, and a little later what of them is committed."""

import time
from collections.abc import Callable

from ottla.broker.api.parts import ANSWER_MAX
from ottla.broker.replication.fetch_sessions import FetchSession, FetchSessions
from ottla.broker.replication.partition import Partition
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.errors import OttlaError
from ottla.wire.requests import FetchPart, FetchRequest, FetchResponse

WAIT_MAX_S = 10.0


class ReplicaFetchHandler:
    """Notes how far followers are, and gives them what comes next."""

    def __init__(self, sessions: FetchSessions, may_have_caught_up: Callable[[Partition], None]) -> None:
        """``may_have_caught_up`` is called when a follower that is not in sync has fetched."""
        self._sessions = sessions
        self._partitions = sessions.partitions
        self._may_have_caught_up = may_have_caught_up

    def __call__(self, request: FetchRequest, connection: Peer) -> Reply | Later:
        replica = request.replica_id
        if request.since_last:
            session = self._sessions.get(replica, request.broker_epoch, connection)
        else:
            session = self._sessions.begin(replica, request.broker_epoch, connection)
        session.end_wait()
        if request.max_bytes <= 0:
            return Reply(FetchResponse([]))  # all that it wants is that its last request waits no more
        self._note(session, request)
        news = session.news()
        if news is not None:
            return news
        wait_s = min(request.max_wait_ms / 1000, WAIT_MAX_S)
        return session.wait(wait_s) if wait_s > 0 else session.all_news()

    def _note(self, session: FetchSession, request: FetchRequest) -> None:
        """How far the follower is, in the partitions that it names."""
        session.fetched_at = now = time.monotonic()
        session.max_bytes = min(request.max_bytes, ANSWER_MAX)
        for drop in request.dropped:
            session.drop((drop.topic, drop.partition))
        for part in request.parts:
            self._note_part(session, part, now, request.since_last)

    def _note_part(self, session: FetchSession, part: FetchPart, now: float, since_last: bool) -> None:
        cached = session.name(part)
        if since_last:  # a follower that begins is told of every partition once, whatever it knows
            cached.known_high_watermark = part.high_watermark
            cached.known_start = max(part.log_start_offset, 0)
        try:
            partition = self._partitions.led(part.topic, part.partition, part.leader_epoch)
            divergence = partition.fetched_by(session.replica, session.broker_epoch, part, now)
        except OttlaError as error:
            session.refuse(cached, error)
            return
        if divergence is not None:
            session.refuse(cached, divergence)
            return
        session.follow(cached, partition)
        if partition.leading is not None and session.replica not in partition.leading.isr.members:
            self._may_have_caught_up(partition)
