"""What followers fetch from this broker: each from where in which partitions, what there is to tell it, and telling it.

A follower names a partition when its place there has changed; what it does not name stands as it was. So a fetch costs what has
happened since the one before, however many partitions there are. Sessions hear what happens to their partitions; those whose
fetch waits are answered at the end of the turn, once for all of it. Nothing here waits; all of it is compiled.
"""

import asyncio
import logging
from collections.abc import Hashable

from ottla.broker.metrics import Tally
from ottla.broker.replication.partition import Divergence, Partition
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.state import LeaderState
from ottla.net.reply import Later, Reply, Turn
from ottla.net.timer import Timer
from ottla.wire.batch import Buffer
from ottla.wire.errors import (
    FetchSessionIdNotFound,
    NotLeaderOrFollower,
    OttlaError,
    StaleBrokerEpoch,
    UnknownServerError,
)
from ottla.wire.requests import FetchPart, FetchPartResult, FetchResponse

logger = logging.getLogger(__name__)

COMMITTED_DELAY_S = 0.02
"""How long a follower that has everything is left in the dark about what is committed; under load it hears sooner."""
PartitionKey = tuple[str, int]


class CachedPartition:
    """Where a follower is in one partition, as it named it: ``partition`` and ``leading`` are what was found then."""

    __slots__ = (
        "answered", "known_high_watermark", "known_start", "leading", "part", "partition", "refused", "session"
    )  # fmt: skip

    def __init__(self, session: "FetchSession", part: FetchPart) -> None:
        self.session = session
        self.part = part
        self.partition: Partition | None = None
        self.leading: LeaderState | None = None
        self.refused: OttlaError | Divergence | None = None
        self.answered = False
        """Records or an error are on the way: where the follower is we shall know when it names the partition again."""
        self.known_high_watermark = -1
        """What the follower knows to be committed,"""
        self.known_start = 0
        """and where it knows the log to begin."""

    def lags_behind(self, partition: Partition) -> bool:
        """Whether more is committed, or deleted, than it knows."""
        return self.known_high_watermark < partition.high_watermark or self.known_start < partition.log.log_start_offset


class FetchSession:
    """What one life of a follower fetches over one connection."""

    __slots__ = (
        "_cached", "_news", "_sessions", "_unaware", "broker_epoch", "deadline", "fetched_at", "max_bytes", "owner", "replica",
        "waiting",
    )  # fmt: skip

    def __init__(self, sessions: "FetchSessions", replica: int, broker_epoch: int, owner: Hashable) -> None:
        self._sessions = sessions
        self._cached: dict[PartitionKey, CachedPartition] = {}
        self._news: dict[CachedPartition, None] = {}
        self._unaware: dict[CachedPartition, None] = {}
        self.replica = replica
        self.broker_epoch = broker_epoch
        self.owner = owner
        self.fetched_at = 0.0
        self.max_bytes = 0
        """How much may come in an answer, by its last fetch."""
        self.waiting: WaitingFetch | None = None
        """Its fetch that waits for news,"""
        self.deadline = 0.0
        """and until when."""

    # --- what the follower says ------------------------------------------------------------------------------------------

    def name(self, part: FetchPart) -> CachedPartition:
        """It is there now."""
        key = (part.topic, part.partition)
        cached = self._cached.get(key)
        if cached is None:
            cached = self._cached[key] = CachedPartition(self, part)
            self._sessions.add(key, cached)
        else:
            cached.part = part
            cached.refused = None
            self._news.pop(cached, None)
        cached.answered = False
        return cached

    def follow(self, cached: CachedPartition, partition: Partition) -> None:
        """Its log is a prefix of ours: tell it what comes next."""
        cached.partition, cached.leading = partition, partition.leading
        if cached.part.offset != partition.log.log_end_offset:
            self._news[cached] = None
        if cached.lags_behind(partition):
            self._unaware[cached] = None

    def refuse(self, cached: CachedPartition, why: OttlaError | Divergence) -> None:
        cached.refused = why
        self._news[cached] = None

    def drop(self, key: PartitionKey) -> None:
        cached = self._cached.pop(key, None)
        if cached is not None:
            self._news.pop(cached, None)
            self._unaware.pop(cached, None)
            self._sessions.remove(key, cached)

    def end(self) -> None:
        for key in list(self._cached):
            self.drop(key)

    # --- what happens to partitions --------------------------------------------------------------------------------------

    def note_news(self, cached: CachedPartition) -> bool:
        """There is more in a partition, or it is not what it was; whether that is news here."""
        if cached.answered or cached in self._news:
            return False
        if cached.leading is not None:
            # Up to its last fetch it had everything, though it did not name this partition then.
            cached.leading.level_until(self.replica, self.fetched_at)
        self._news[cached] = None
        return True

    def note_commit(self, cached: CachedPartition) -> None:
        self._unaware[cached] = None

    @property
    def is_unaware(self) -> bool:
        """Whether more may be committed than it knows."""
        return bool(self._unaware)

    # --- what it is told -------------------------------------------------------------------------------------------------

    def news(self) -> Reply | None:
        """An answer, if there are records or errors to be told."""
        return self._answer(only_news=True)

    def all_news(self) -> Reply:
        """What there is to say, if only what is committed, or nothing at all."""
        return self._answer(only_news=False) or Reply(FetchResponse([]))

    def wait(self, wait_s: float) -> "WaitingFetch":
        """For news, or until time is over."""
        return self._sessions.wait(self, wait_s)

    def end_wait(self) -> None:
        """If its last fetch still waits, answer it."""
        if self.waiting is not None:
            self.waiting.give(self.all_news())

    def _answer(self, *, only_news: bool) -> Reply | None:
        results: list[FetchPartResult] = []
        attachments: list[Buffer] = []
        size = self._take_news(results, attachments)
        if not only_news:
            self._take_commits(results)
        if not results:
            return None
        self._sessions.bytes_out.count += size
        return Reply(FetchResponse(results), attachments)

    def _take_news(self, results: list[FetchPartResult], attachments: list[Buffer]) -> int:
        """Add the records and errors that there are for it; how many bytes of records."""
        size = 0
        left = self.max_bytes
        for cached in list(self._news):
            if left <= 0 and size:
                break
            del self._news[cached]
            try:
                # The first batch of an answer comes whole, or one larger than the limits would be in the way for ever.
                count = self._take_records(cached, left, size == 0, attachments)
            except OttlaError as error:
                cached.refused = error
            if cached.refused is not None:
                results.append(self._refusal(cached))
                cached.answered, cached.refused = True, None
            elif count:
                size += count
                left -= count
                cached.answered = True
                results.append(self._result(cached, count))
        return size

    def _take_records(self, cached: CachedPartition, most: int, at_least_one: bool, attachments: list[Buffer]) -> int:
        """Add the records that come next in one partition; how many bytes."""
        if cached.refused is not None:
            return 0
        part = cached.part
        partition = self._sessions.partitions.led(part.topic, part.partition, part.leader_epoch)
        if partition is not cached.partition or partition.leading is not cached.leading:
            # Of what was known of the follower nothing holds: it must say again where it is.
            raise NotLeaderOrFollower(f"{partition.where} is not what it was when it was named")
        views = partition.read_for_replica(part.offset, min(max(part.max_bytes, 0), most), at_least_one=at_least_one)
        count = 0
        for view in views:
            count += len(view)
        attachments += views
        if not count and part.offset != partition.log.log_end_offset:
            self._news[cached] = None  # it did not fit: next time
        return count

    def _take_commits(self, results: list[FetchPartResult]) -> None:
        """Add what is committed, where it does not know."""
        for cached in list(self._unaware):
            partition = cached.partition
            if (
                partition is not None
                and partition.leading is cached.leading is not None
                and cached.refused is None
                and not cached.answered
                and cached.lags_behind(partition)
            ):
                results.append(self._result(cached, 0))
        self._unaware.clear()

    def _result(self, cached: CachedPartition, size: int) -> FetchPartResult:
        partition = cached.partition
        assert partition is not None
        self._unaware.pop(cached, None)
        cached.known_high_watermark = partition.high_watermark
        cached.known_start = partition.log.log_start_offset
        return FetchPartResult(
            0, "", cached.part.topic, cached.part.partition, size, partition.high_watermark,
            partition.log.log_start_offset, partition.leader, partition.leader_epoch,
        )  # fmt: skip

    def _refusal(self, cached: CachedPartition) -> FetchPartResult:
        """Why nothing comes: an error, or where the follower must cut its log."""
        part, why = cached.part, cached.refused
        assert why is not None
        if isinstance(why, OttlaError):
            start = self._sessions.partitions.log_start_offset(part.topic, part.partition)
            return FetchPartResult(why.code, str(why), part.topic, part.partition, log_start_offset=start)
        epoch, end = why
        return FetchPartResult(0, "", part.topic, part.partition, diverging_epoch=epoch, diverging_end=end)


class WaitingFetch(Later):
    """The answer that a follower's fetch waits for."""

    __slots__ = ("_session", "_sessions")

    def __init__(self, sessions: "FetchSessions", session: FetchSession) -> None:
        super().__init__()
        self._sessions = sessions
        self._session = session

    def give(self, reply: Reply) -> None:
        if self.open:
            self._sessions.waits_no_more(self._session)
            super().give(reply)

    def abandon(self) -> None:
        if self.open:
            self._sessions.waits_no_more(self._session)
            super().abandon()


class FetchSessions:
    """All that fetch from this broker as replicas, and who of them fetches which partition."""

    def __init__(self, partitions: Partitions, turn: Turn, bytes_out: Tally) -> None:
        self.partitions = partitions
        self.bytes_out = bytes_out
        self._turn = turn
        self._sessions: dict[int, FetchSession] = {}
        self._cached: dict[PartitionKey, dict[int, CachedPartition]] = {}
        self._waiting: dict[FetchSession, None] = {}
        self._woken: dict[FetchSession, None] = {}
        self._deadline: Timer | None = None
        self._commit_news: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many fetches wait."""
        return len(self._waiting)

    def begin(self, replica: int, broker_epoch: int, owner: Hashable) -> FetchSession:
        """A follower begins anew: what was known of it is forgotten."""
        last = self._sessions.get(replica)
        if last is not None:
            if broker_epoch < last.broker_epoch:
                raise StaleBrokerEpoch(f"broker {replica} has a later life, epoch {last.broker_epoch}")
            last.end()
            if last.waiting is not None:
                last.waiting.give(Reply(FetchResponse([])))
        session = self._sessions[replica] = FetchSession(self, replica, broker_epoch, owner)
        return session

    def get(self, replica: int, broker_epoch: int, owner: Hashable) -> FetchSession:
        """What this life of a follower fetches over this connection."""
        session = self._sessions.get(replica)
        if session is None or session.owner is not owner or session.broker_epoch != broker_epoch:
            raise FetchSessionIdNotFound(f"broker {replica} has named nothing over this connection yet")
        return session

    def add(self, key: PartitionKey, cached: CachedPartition) -> None:
        self._cached.setdefault(key, {})[cached.session.replica] = cached

    def remove(self, key: PartitionKey, cached: CachedPartition) -> None:
        of_partition = self._cached[key]
        del of_partition[cached.session.replica]
        if not of_partition:
            del self._cached[key]

    # --- what happens to partitions --------------------------------------------------------------------------------------

    def partition_changed(self, partition: Partition) -> None:
        """Records were appended to it, or it is not what it was: who waits is answered at the end of this turn."""
        of_partition = self._cached.get(partition.where)
        if of_partition is None:
            return
        for cached in of_partition.values():
            session = cached.session
            if session.note_news(cached) and session.waiting is not None:
                if not self._woken:
                    self._turn.put_off(self._answer_woken)
                self._woken[session] = None

    def partition_committed(self, partition: Partition) -> None:
        """More of it is committed, or deleted: those who have everything hear it a little later."""
        of_partition = self._cached.get(partition.where)
        if of_partition is not None:
            for cached in of_partition.values():
                cached.session.note_commit(cached)
            self._tell_commits_soon()

    # --- waiting ---------------------------------------------------------------------------------------------------------

    def wait(self, session: FetchSession, wait_s: float) -> WaitingFetch:
        session.waiting = waiting = WaitingFetch(self, session)
        self._waiting[session] = None
        session.deadline = asyncio.get_running_loop().time() + wait_s
        if self._deadline is None or self._deadline.when > session.deadline:
            self._set_deadline(session.deadline)
        if session.is_unaware:
            self._tell_commits_soon()
        return waiting

    def waits_no_more(self, session: FetchSession) -> None:
        session.waiting = None
        self._waiting.pop(session, None)

    def _answer_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for session in woken:
            self._answer(session, only_news=True)

    def _answer(self, session: FetchSession, *, only_news: bool) -> None:
        """Answer the fetch of a session that waits, unless there is no news and only news is wanted."""
        waiting = session.waiting
        if waiting is None:
            return
        try:
            reply = session.news() if only_news else session.all_news()
        except Exception:
            logger.exception("an answer to a follower failed replica=%d", session.replica)
            reply = Reply(None, error=UnknownServerError("the broker's log has the details"))
        if reply is not None:
            try:
                waiting.give(reply)
            except Exception:  # of whoever is to have it: the other followers must not wait for that
                logger.exception("an answer could not be given replica=%d", session.replica)

    def _set_deadline(self, when: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = Timer(when, self._time_is_over)

    def _time_is_over(self) -> None:
        """One timer for all, for nearly every fetch is answered long before its own time is over."""
        self._deadline = None
        now = asyncio.get_running_loop().time()
        for session in [session for session in self._waiting if session.deadline <= now]:
            self._answer(session, only_news=False)
        if self._waiting:
            self._set_deadline(min([session.deadline for session in self._waiting]))

    def _tell_commits_soon(self) -> None:
        """If a follower were to lead next, with too few others to commit anything, it could show no more than it knows of."""
        if self._commit_news is None and self._waiting:
            self._commit_news = asyncio.get_running_loop().call_later(COMMITTED_DELAY_S, self._tell_commits)

    def _tell_commits(self) -> None:
        self._commit_news = None
        for session in list(self._waiting):
            if session.is_unaware:
                self._answer(session, only_news=False)
