"""Fetches of so many partitions that they are read in slices of the event loop's time.

They wait for records differently: a fetch that begins no session looks again now and then, and one in a session is answered
at once, for the next one need name only what has changed.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from ottla.broker.api.consumer_sessions import ConsumerSession, ConsumerSessions
from ottla.broker.api.fetched_parts import FetchedParts
from ottla.broker.api.numbered_sessions import NumberedSession, NumberedSessions
from ottla.broker.api.slices import Slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Tally
from ottla.broker.replication.partitions import Partitions
from ottla.net.long_requests import InHand
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.errors import FetchSessionIdNotFound
from ottla.wire.requests import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchPart,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    NumberedFetchRequest,
    NumberedFetchResponse,
)

LONG_WAIT_MAX_S: Final = 2.0
"""What a long request holds in memory stays as long as it waits, so none waits for long: its client asks again."""

LOOK_AGAIN_S: Final = 0.05
"""How soon a fetch looks again that found too little, at most;"""
LOOKING_SHARE: Final = 10
"""and it waits so many times as long as the look before took."""

CHUNK: Final = 50
"""So many partitions are named to a session between two looks at the clock."""


class LongFetches:
    """Answers them. The connection takes no other request of its client meanwhile; it may end."""

    def __init__(
        self,
        partitions: Partitions,
        view: ClusterView,
        sessions: ConsumerSessions,
        numbered: NumberedSessions,
        bytes_out: Tally,
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._sessions = sessions
        self._numbered = numbered
        self._bytes_out = bytes_out

    async def answer(self, request: FetchRequest, peer: Peer) -> Reply:
        in_hand = peer.in_hand
        if in_hand is not None:
            in_hand.give_slot_back()
            await in_hand.take_slot_again()  # other requests go first
        if isinstance(request, NumberedFetchRequest):
            return await self._of_number(request, peer)
        if request.since_last:
            return await self._go_on(self._sessions.get(peer, request.parts), request)
        session = self._sessions.begin(peer, request.parts) if request.keep else None
        if session is not None:
            return await self._go_on(session, request)
        fetch = await self._read(request, in_hand)
        return Reply(FetchResponse(fetch.results), fetch.attachments)

    async def _of_number(self, request: NumberedFetchRequest, peer: Peer) -> Reply:
        if request.session_epoch not in (FIRST_EPOCH, FINAL_EPOCH):
            session = self._numbered.next_of(peer, request)
            answer = await self._go_on(session, request)
            return answer if session.size else self._numbered.end_empty(session)
        if request.session_id != NO_SESSION:
            self._numbered.end(peer, request.session_id)
        fetch = await self._read(request, peer.in_hand)
        for part, result in zip(request.parts, fetch.results, strict=True):
            result.topic_id = part.topic_id
        number = await self._keep(request, fetch.results, peer) if request.session_epoch == FIRST_EPOCH else NO_SESSION
        return Reply(NumberedFetchResponse(fetch.results, number != NO_SESSION, number), fetch.attachments)

    async def _read(self, request: FetchRequest, in_hand: InHand | None) -> FetchedParts:
        """What there is, as soon as it is enough or time is over. Between two looks it has no slot."""
        fetch = FetchedParts(self._partitions, self._view, request)
        ends_at = time.monotonic() + min(max(request.max_wait_ms, 0) / 1000, LONG_WAIT_MAX_S)
        while True:
            began = time.monotonic()
            await self._read_once(fetch)
            now = time.monotonic()
            if fetch.satisfied or now >= ends_at or (in_hand is not None and not in_hand.may_wait):
                break
            if in_hand is not None:
                in_hand.give_slot_back()
            await asyncio.sleep(min(ends_at - now, max(LOOK_AGAIN_S, LOOKING_SHARE * (now - began))))
            if in_hand is not None:
                await in_hand.take_slot_again()
        if not fetch.size and self._sessions.is_isolated():
            fetch.refuse_isolated()
        self._bytes_out.count += fetch.size
        return fetch

    async def _read_once(self, fetch: FetchedParts) -> None:
        slices = Slices()
        fetch.begin()
        for part in fetch.request.parts:
            fetch.read_part(part)
            await slices.rest()

    async def _keep(self, request: NumberedFetchRequest, results: Sequence[FetchPartResult], peer: Peer) -> int:
        """Begin a session, if there is room; its number."""
        session = self._numbered.make(peer, request)
        if session is None:
            return NO_SESSION
        slices = Slices()
        for start in range(0, len(results), CHUNK):
            session.begin(request.parts[start : start + CHUNK], results[start : start + CHUNK])
            await slices.rest()
            self._check_still_kept(session)
        return session.number

    async def _go_on(self, session: ConsumerSession, request: FetchRequest) -> Reply:
        """Name to a session what has changed, and answer with what there is."""
        session.prepare(request)
        slices = Slices()
        parts, dropped = request.parts, request.dropped
        if isinstance(session, NumberedSession):
            await self._name(session, parts, slices)
        for start in range(0, len(dropped), CHUNK):
            session.drop_some(dropped[start : start + CHUNK])
            await slices.rest()
            self._check_still_kept(session)
        if not isinstance(session, NumberedSession):
            await self._name(session, parts, slices)
        answer = session.fetch(structs.replace(request, parts=[], dropped=(), max_wait_ms=0))
        assert not isinstance(answer, Later), "it waits for nothing"
        return answer

    async def _name(self, session: ConsumerSession, parts: Sequence[FetchPart], slices: Slices) -> None:
        for start in range(0, len(parts), CHUNK):
            session.name_some(parts[start : start + CHUNK])
            await slices.rest()
            self._check_still_kept(session)

    def _check_still_kept(self, session: ConsumerSession) -> None:
        """Its connection may have ended meanwhile: what is named to it from then on would be kept for ever."""
        if self._sessions.find(session.peer) is not session:
            raise FetchSessionIdNotFound("the session has ended while its request was handled")
