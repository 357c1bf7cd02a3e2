"""Sessions as Kafka's clients have them (KIP-227): they have a number, and every fetch in one the epoch after the last.

What differs from our own (consumer_sessions.py): the first answer speaks of every partition, later ones of those that have
records, an error, or another high watermark or log start offset than was told last. And a partition that was answered and is
not named again is wanted from where it was. All of it is compiled.
"""

import random
from collections.abc import Sequence

from ottla.broker.api.consumer_sessions import (
    NOTHING_TOLD,
    ConsumerSession,
    ConsumerSessions,
    PartitionKey,
    Wanted,
)
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.errors import (
    NO_ERROR,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    OttlaError,
    UnknownTopicId,
)
from ottla.wire.requests import (
    FIRST_EPOCH,
    NO_SESSION,
    FetchPart,
    FetchPartResult,
    FetchRequest,
    NumberedFetchRequest,
    NumberedFetchResponse,
)

NUMBER_MAX = 2**31 - 1
"""Of sessions and of epochs: both are Kafka's int32."""


class NumberedSession(ConsumerSession):
    """What one client wants. It ends with its connection, for its client begins anew when it hears that there is none."""

    __slots__ = ("_moved", "_said", "by_id", "epoch", "number")

    def __init__(self, sessions: ConsumerSessions, peer: Peer, number: int, by_id: bool) -> None:
        super().__init__(sessions, peer)
        self.number = number
        self.by_id = by_id
        self.epoch = epoch_after(FIRST_EPOCH)
        """Of the fetch that comes next."""
        self._moved: dict[Wanted, None] = {}
        """The client may know another high watermark or log start offset of it than it has."""
        self._said: dict[Wanted, None] = {}
        """In the last answer, with records or an error."""

    # --- what the client says --------------------------------------------------------------------------------------------

    def begin(self, parts: Sequence[FetchPart], results: Sequence[FetchPartResult]) -> None:
        """Keep what was named in a fetch of everything, and what was answered."""
        for part, result in zip(parts, results, strict=True):
            self._name(self._key(part), part)
            wanted = self._wanted[self._key(part)]
            if result.size or result.error_code != NO_ERROR:
                self._fresh.pop(wanted, None)
                self._answered(wanted, result)
            else:
                self._note(wanted, result)

    def fetch(self, request: FetchRequest) -> Reply | Later:
        self.end_wait()
        said, self._said = self._said, {}
        for wanted in said:
            wanted.answered = False
            self._fresh[wanted] = None
            self._moved[wanted] = None  # where there was an error, there may be something to say now that it has gone
        return super().fetch(request)

    def _take(self, request: FetchRequest) -> None:
        for part in request.parts:
            self._name(self._key(part), part)
        for drop in request.dropped:
            self._drop((drop.topic, drop.partition))

    def _key(self, part: FetchPart) -> PartitionKey:
        """By its id, a topic is not the one that had its name before; the client may drop that one while it names this."""
        return (part.topic_id if self.by_id else part.topic, part.partition)

    def _name(self, key: PartitionKey, part: FetchPart) -> None:
        before = self._wanted.get(key)
        if before is not None and before.part.topic != part.topic:
            self._watch_as(before, part.topic)
        super()._name(key, part)
        if before is None:
            self._moved[self._wanted[key]] = None

    def _drop(self, key: PartitionKey) -> Wanted | None:
        wanted = super()._drop(key)
        if wanted is not None:
            self._moved.pop(wanted, None)
            self._said.pop(wanted, None)
        return wanted

    # --- what happens to partitions --------------------------------------------------------------------------------------

    def touch(self, wanted: Wanted) -> None:
        self._moved[wanted] = None
        super().touch(wanted)

    def _look_at(self, wanted: Wanted) -> None:
        if not wanted.part.topic:
            name = self._sessions.view.topic_name_of(wanted.part.topic_id)
            if name is None:
                self._refuse(wanted, UnknownTopicId(f"topic id {wanted.part.topic_id} is not known here"))
                return
            self._watch_as(wanted, name)
        super()._look_at(wanted)

    def _watch_as(self, wanted: Wanted, name: str) -> None:
        """The topic that has its id is known by now, or is not any more."""
        part = wanted.part
        self._sessions.unwatch((part.topic, part.partition), wanted)
        part.topic = name
        self._sessions.watch((name, part.partition), wanted)

    # --- what it is told -------------------------------------------------------------------------------------------------

    def _answered(self, wanted: Wanted, result: FetchPartResult) -> None:
        wanted.answered = True
        self._said[wanted] = None
        self._note(wanted, result)

    def _note(self, wanted: Wanted, result: FetchPartResult) -> None:
        result.topic_id = wanted.part.topic_id
        self._moved.pop(wanted, None)
        # An error tells nothing: when it has gone, that must be told.
        wanted.told_high_watermark = result.high_watermark if result.error_code == NO_ERROR else NOTHING_TOLD
        wanted.told_start = result.log_start_offset

    def _add_unasked(self, results: list[FetchPartResult]) -> None:
        moved, self._moved = self._moved, {}
        for wanted in moved:
            part = wanted.part
            partition = self._sessions.partitions.get(part.topic, part.partition)
            if wanted.answered or partition is None:
                continue
            start = partition.log.log_start_offset
            if partition.high_watermark != wanted.told_high_watermark or start != wanted.told_start:
                result = FetchPartResult(
                    0, "", part.topic, part.partition, 0, partition.high_watermark, start, partition.leader,
                    partition.leader_epoch,
                )  # fmt: skip
                self._note(wanted, result)
                results.append(result)

    def _refusal(self, part: FetchPart, why: OttlaError) -> FetchPartResult:
        if self.by_id and self._sessions.view.topic_name_of(part.topic_id) is None:
            return unknown_id(part)  # who leads the topic that has its name by now is of no use
        return super()._refusal(part, why)

    def _reply(self, results: list[FetchPartResult], attachments: list[Buffer]) -> Reply:
        return Reply(NumberedFetchResponse(results, True, self.number), attachments)


class NumberedSessions:
    """All of them. What they keep is counted with what our own consumers have kept."""

    def __init__(self, sessions: ConsumerSessions) -> None:
        self._sessions = sessions

    def begin(self, peer: Peer, request: NumberedFetchRequest, results: Sequence[FetchPartResult]) -> int:
        """Keep what was named and is answered now; the number of the session, or NO_SESSION if there is no room."""
        session = self.make(peer, request)
        if session is None:
            return NO_SESSION
        session.begin(request.parts, results)
        return session.number

    def make(self, peer: Peer, request: NumberedFetchRequest) -> NumberedSession | None:
        """A session with nothing in it, if there is room for what the request names."""
        session = NumberedSession(self._sessions, peer, random.randint(1, NUMBER_MAX), request.by_id)
        return session if self._sessions.put(session, request.parts) else None

    def end(self, peer: Peer, number: int) -> None:
        """The client wants it no more."""
        session = self._sessions.find(peer)
        if isinstance(session, NumberedSession) and session.number == number:
            self._sessions.end(peer)

    def fetch(self, peer: Peer, request: NumberedFetchRequest) -> Reply | Later:
        """Go on where the last fetch ended."""
        session = self.next_of(peer, request)
        reply = session.fetch(request)
        return reply if session.size else self.end_empty(session)

    def next_of(self, peer: Peer, request: NumberedFetchRequest) -> NumberedSession:
        """The session that a fetch goes on with, as the next one in it."""
        session = self._sessions.get(peer, request.parts)
        if not isinstance(session, NumberedSession) or session.number != request.session_id:
            raise FetchSessionIdNotFound(f"no session {request.session_id} was begun over this connection")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch(f"epoch {request.session_epoch}, where {session.epoch} comes next")
        if session.by_id != request.by_id:
            raise FetchSessionTopicIdError(
                "the session was begun with topics' names, or ids, and goes on with the other"
            )
        session.epoch = epoch_after(session.epoch)
        return session

    def end_empty(self, session: NumberedSession) -> Reply:
        """Nothing is kept any more: the answer tells that the session has ended."""
        self._sessions.end(session.peer)
        return Reply(NumberedFetchResponse([]))


def epoch_after(epoch: int) -> int:
    return 1 if epoch >= NUMBER_MAX else epoch + 1


def unknown_id(part: FetchPart) -> FetchPartResult:
    why = UnknownTopicId(f"topic id {part.topic_id} is not known here")
    return FetchPartResult(why.code, str(why), part.topic, part.partition, topic_id=part.topic_id)
