"""What consumers want of this broker, kept from fetch to fetch: who wants which partition from where, and what has news.

A consumer that asks for it (``keep``) names all its partitions once, and then (``since_last``) what has changed: it costs what
has happened, however many partitions there are. An append looks up who wants that partition, and nobody looks at the others.
Sessions end with their connection. Nothing here waits; all of it is compiled.
"""

from collections.abc import Callable, Hashable, Sequence

from ottla.broker.api.fetch_refusals import isolated_leader, refusal
from ottla.broker.api.parts import ANSWER_MAX, have_short_names
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Tally
from ottla.broker.purgatory import Purgatory, Waiting
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.errors import FetchSessionIdNotFound, OttlaError
from ottla.wire.requests import FetchDrop, FetchPart, FetchPartResult, FetchRequest, FetchResponse

WAIT_MAX_S = 300.0

KEPT_MAX = 400_000
"""How many partitions are kept for all consumers together, a few hundred bytes each. Who finds no room names all, each time."""

SESSION_MAX = 10_000
"""How many of one consumer, for all of them may have news, or end, at once. Who wants more names all, each time."""

NOTHING_TOLD = -1

PartitionKey = tuple[str, int]


class Wanted:
    """From where a consumer wants one partition."""

    __slots__ = ("answered", "part", "ready", "session", "told_high_watermark", "told_start")

    def __init__(self, session: "ConsumerSession", part: FetchPart) -> None:
        self.session = session
        self.part = part
        self.ready = 0
        """How many bytes there are for it, as far as that matters to whether its fetch must wait."""
        self.answered = False
        """Records or an error are on the way: where the consumer goes on we shall know when it names the partition again."""
        self.told_high_watermark = NOTHING_TOLD
        self.told_start = NOTHING_TOLD
        """What its client knows of it without asking, in a numbered session."""


class ConsumerSession:
    """What one consumer wants, over one connection. Its fetch waits in the purgatory, without keys."""

    __slots__ = (
        "_fresh", "_max_bytes", "_min_bytes", "_news", "_ready", "_refused", "_sessions", "_waiting", "_wanted", "peer",
    )  # fmt: skip

    def __init__(self, sessions: "ConsumerSessions", peer: Peer) -> None:
        self._sessions = sessions
        self._wanted: dict[PartitionKey, Wanted] = {}
        self._fresh: dict[Wanted, None] = {}
        """Named, or touched by what happened to its partition, and not looked at since."""
        self._news: dict[Wanted, None] = {}
        """There are records for it. Who has waited longest comes first, so that a busy partition keeps nobody out."""
        self._refused: dict[Wanted, OttlaError] = {}
        self._ready = 0
        self._min_bytes = 0
        self._max_bytes = 0
        self._waiting: Waiting | None = None
        self.peer = peer

    @property
    def size(self) -> int:
        return len(self._wanted)

    # --- what the consumer says ------------------------------------------------------------------------------------------

    def prepare(self, request: FetchRequest) -> None:
        """A fetch begins: one that still waits is answered."""
        self.end_wait()
        self._max_bytes = min(max(request.max_bytes, 0), ANSWER_MAX)
        self._want_bytes(min(max(request.min_bytes, 0), max(self._max_bytes, 1)))

    def fetch(self, request: FetchRequest) -> Reply | Later:
        """Note what has changed; answer if there is enough to say, else wait. A fetch that still waits is answered first."""
        self.prepare(request)
        self._take(request)
        self._look()
        wait_s = min(max(request.max_wait_ms, 0) / 1000, WAIT_MAX_S)
        if wait_s == 0 or self._is_enough():
            return self._gather() or self._nothing()
        waiting = self._waiting = self._sessions.room.wait(self._attempt, self._time_is_over, (), wait_s)
        return waiting

    def _take(self, request: FetchRequest) -> None:
        self.drop_some(request.dropped)
        for part in request.parts:
            self._name(self._key(part), part)

    def _key(self, part: FetchPart) -> PartitionKey:
        return (part.topic, part.partition)

    def drop_some(self, dropped: Sequence[FetchDrop]) -> None:
        for drop in dropped:
            self._drop((drop.topic, drop.partition))

    def name_some(self, parts: Sequence[FetchPart]) -> None:
        """Some of those that a long fetch names: look at them, too."""
        for part in parts:
            self._name(self._key(part), part)
        self._look()

    def _want_bytes(self, min_bytes: int) -> None:
        if min_bytes != self._min_bytes:  # what is ready was counted by another measure
            for wanted in self._news:
                self._fresh[wanted] = None
        self._min_bytes = min_bytes

    def _name(self, key: PartitionKey, part: FetchPart) -> None:
        wanted = self._wanted.get(key)
        if wanted is None:
            wanted = self._wanted[key] = Wanted(self, part)
            self._sessions.watch((part.topic, part.partition), wanted)
        else:
            wanted.part = part
            wanted.answered = False
            self._no_news(wanted)
        self._fresh[wanted] = None

    def _drop(self, key: PartitionKey) -> Wanted | None:
        wanted = self._wanted.pop(key, None)
        if wanted is not None:
            self._no_news(wanted)
            self._fresh.pop(wanted, None)
            self._sessions.unwatch((wanted.part.topic, wanted.part.partition), wanted)
        return wanted

    def end_wait(self) -> None:
        """If its last fetch still waits, answer it: with what there is, if that is taken."""
        waiting = self._waiting
        if waiting is not None and waiting.open:
            waiting.give(self._time_is_over())

    def end(self) -> None:
        """It begins anew, or has gone: what still waits brings nothing."""
        waiting, self._waiting = self._waiting, None
        for key in list(self._wanted):
            self._drop(key)
        if waiting is not None:
            waiting.give(self._nothing())

    # --- what happens to partitions --------------------------------------------------------------------------------------

    def touch(self, wanted: Wanted) -> None:
        """More of its partition is committed, or it is not what it was: look at it at the end of this turn."""
        if wanted.answered:
            return
        self._fresh[wanted] = None
        waiting = self._waiting
        if waiting is not None and waiting.open:
            self._sessions.room.try_again(waiting)

    def _look(self) -> None:
        """See what there is for those that were named or touched."""
        if self._fresh:
            fresh, self._fresh = self._fresh, {}
            for wanted in fresh:
                if not wanted.answered:
                    self._look_at(wanted)

    def _look_at(self, wanted: Wanted) -> None:
        part = wanted.part
        try:
            partition = self._sessions.partitions.led(part.topic, part.partition, part.leader_epoch, part.topic_id)
            ready = self._ready_in(partition, part)
        except OttlaError as error:
            self._refuse(wanted, error)
            return
        self._refused.pop(wanted, None)
        if not ready:
            self._no_news(wanted)
            return
        self._ready += ready - wanted.ready
        wanted.ready = ready
        self._news[wanted] = None  # in its place, if it had news before

    def _ready_in(self, partition: Partition, part: FetchPart) -> int:
        """How many bytes there are, up to twice what is wanted: batches are whole, and may not make up just that.

        If one byte is enough, it counts as one, and the log is not asked.
        """
        if partition.high_watermark == part.offset:
            return 0
        if self._min_bytes <= 1 and part.offset < partition.high_watermark:
            return 1
        size = 0
        for view in partition.read(part.offset, 2 * self._min_bytes, at_least_one=True):
            size += len(view)
        return size

    def _refuse(self, wanted: Wanted, why: OttlaError) -> None:
        self._no_news(wanted)
        self._refused[wanted] = why

    def _no_news(self, wanted: Wanted) -> None:
        if wanted in self._news:
            del self._news[wanted]
            self._ready -= wanted.ready
            wanted.ready = 0
        self._refused.pop(wanted, None)

    # --- what it is told -------------------------------------------------------------------------------------------------

    def _is_enough(self) -> bool:
        return len(self._refused) > 0 or self._ready >= self._min_bytes

    def _attempt(self) -> Reply | None:
        """What has happened may be enough: look, but read nothing that the consumer does not take."""
        waiting = self._waiting
        self._look()
        if waiting is None or not self._is_enough() or not self.peer.takes(waiting):
            return None
        reply = self._gather()
        if reply is not None:
            self._waiting = None
        return reply

    def _time_is_over(self) -> Reply:
        """What there is; nothing for a consumer that has not taken what it was given before."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not self.peer.takes(waiting):
            return self._nothing()
        self._look()
        if self._sessions.is_isolated():
            self._refuse_those_without_records()
        return self._gather() or self._nothing()

    def _refuse_those_without_records(self) -> None:
        for wanted in self._wanted.values():
            if not wanted.answered and wanted not in self._news and wanted not in self._refused:
                error = isolated_leader(self._sessions.partitions.get(wanted.part.topic, wanted.part.partition))
                if error is not None:
                    self._refuse(wanted, error)

    def _gather(self) -> Reply | None:
        """An answer of all that is refused and of as many records as may be, if there is anything."""
        results: list[FetchPartResult] = []
        attachments: list[Buffer] = []
        size = self._take_records(results, attachments)
        refused, self._refused = self._refused, {}
        for wanted, why in refused.items():
            result = self._refusal(wanted.part, why)
            self._answered(wanted, result)
            results.insert(0, result)
        self._add_unasked(results)
        if not results:
            return None
        self._sessions.bytes_out.count += size
        return self._reply(results, attachments)

    def _take_records(self, results: list[FetchPartResult], attachments: list[Buffer]) -> int:
        """Add records, of those first that have waited longest; how many bytes."""
        size, left = 0, self._max_bytes
        for wanted in list(self._news):
            if size and left <= 0:
                break
            part = wanted.part
            try:
                partition = self._sessions.partitions.led(part.topic, part.partition, part.leader_epoch, part.topic_id)
                # The first batch of an answer comes whole, or one larger than the limits would be in the way for ever.
                most = min(max(part.max_bytes, 0), left)
                views = partition.read(part.offset, most, at_least_one=size == 0)
            except OttlaError as error:
                self._refuse(wanted, error)
                continue
            count = 0
            for view in views:
                count += len(view)
            if not count:
                if size:
                    break  # it does not fit: next time it is the first, and fits in any case
                self._no_news(wanted)
                continue
            self._no_news(wanted)
            attachments += views
            size += count
            left -= count
            result = FetchPartResult(
                0, "", part.topic, part.partition, count, partition.high_watermark, partition.log.log_start_offset,
                partition.leader, partition.leader_epoch,
            )  # fmt: skip
            self._answered(wanted, result)
            results.append(result)
        return size

    def _refusal(self, part: FetchPart, why: OttlaError) -> FetchPartResult:
        return refusal(part, why, self._sessions.partitions, self._sessions.view)

    def _answered(self, wanted: Wanted, result: FetchPartResult) -> None:
        wanted.answered = True

    def _add_unasked(self, results: list[FetchPartResult]) -> None:
        """For sessions that tell of partitions without records: see numbered_sessions.py."""

    def _reply(self, results: list[FetchPartResult], attachments: list[Buffer]) -> Reply:
        return Reply(FetchResponse(results, True), attachments)

    def _nothing(self) -> Reply:
        return self._reply([], [])


class ConsumerSessions:
    """All consumers that have something kept, and who of them wants which partition."""

    def __init__(self, partitions: Partitions, view: ClusterView, room: Purgatory, bytes_out: Tally) -> None:
        self.partitions = partitions
        self.view = view
        self.room = room
        self.bytes_out = bytes_out
        self.kept_max = KEPT_MAX
        self.is_isolated: Callable[[], bool] = lambda: False
        """Whether this broker reaches neither ZooKeeper nor any other broker."""
        self._sessions: dict[Hashable, ConsumerSession] = {}
        self._watched: dict[PartitionKey, dict[Wanted, None]] = {}
        self._kept = 0

    @property
    def kept(self) -> int:
        """How many partitions are kept, for all together."""
        return self._kept

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, peer: Peer, parts: Sequence[FetchPart]) -> ConsumerSession | None:
        """A session for who names these, in place of the one before; None if they cannot be kept."""
        session = ConsumerSession(self, peer)
        return session if self.put(session, parts) else None

    def put(self, session: ConsumerSession, parts: Sequence[FetchPart]) -> bool:
        """Keep what is named by this session, in place of the one before; False if it cannot be kept."""
        self.end(session.peer)
        if len(parts) > SESSION_MAX or self._kept + len(parts) > self.kept_max or not have_short_names(parts):
            return False
        self._sessions[session.peer] = session
        return True

    def get(self, peer: Peer, parts: Sequence[FetchPart]) -> ConsumerSession:
        """The session of this connection, if it has room for these partitions too; else the client must begin a new one."""
        session = self._sessions.get(peer)
        if session is None:
            raise FetchSessionIdNotFound("nothing is kept of what was named over this connection")
        if len(parts) > SESSION_MAX or session.size > SESSION_MAX:
            self.end(peer)
            raise FetchSessionIdNotFound(f"a session keeps {SESSION_MAX} partitions at most")
        if not have_short_names(parts):
            self.end(peer)
            raise FetchSessionIdNotFound("a session keeps no partition of a topic whose name or id no topic can have")
        if self._kept + len(parts) > self.kept_max:
            self.end(peer)
            raise FetchSessionIdNotFound(f"more than {self.kept_max} partitions would be kept for consumers")
        return session

    def find(self, peer: Peer) -> ConsumerSession | None:
        return self._sessions.get(peer)

    def end(self, peer: Hashable) -> None:
        """Its connection has gone, or it begins anew. (What waits is abandoned with a connection, or told nothing here.)"""
        session = self._sessions.pop(peer, None)
        if session is not None:
            session.end()

    def watch(self, key: PartitionKey, wanted: Wanted) -> None:
        self._kept += 1
        watching = self._watched.get(key)
        if watching is None:
            self._watched[key] = {wanted: None}
        else:
            watching[wanted] = None

    def unwatch(self, key: PartitionKey, wanted: Wanted) -> None:
        self._kept -= 1
        watching = self._watched[key]
        del watching[wanted]
        if not watching:
            del self._watched[key]

    def partition_changed(self, partition: Partition) -> None:
        """More of it is committed, or it is not what it was."""
        watching = self._watched.get(partition.where)
        if watching is not None:
            for wanted in watching:
                wanted.session.touch(wanted)
