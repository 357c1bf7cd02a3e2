"""Fetch: give record batches of many partitions, waiting for enough of them if there are not."""

import asyncio
import time
from collections.abc import Callable

from ottla.broker.api.parts import check_parts, told
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.replication.partition import Divergence, Partition
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.waiting import WaitingRooms
from ottla.net.connection import Connection
from ottla.net.reply import Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.connection import IncomingRequest
from ottla.wire.errors import ClusterAuthorizationFailed, OttlaError
from ottla.wire.messages import CONSUMER
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse

WAIT_MAX_S = 300.0

COMMITTED_DELAY_S = 0.02
"""How long a follower that has everything is left in the dark about what is committed; under load it hears sooner."""

RESPONSE_MAX = 64 * 1024 * 1024
"""The most that one answer brings, whatever the client asks for; a client that wants more asks again."""


class FetchHandler:
    """Reads what there is; a fetch that finds too little waits in the purgatory until its partitions have more."""

    def __init__(
        self,
        partitions: Partitions,
        view: ClusterView,
        rooms: WaitingRooms,
        metrics: Metrics,
        on_replica_fetch: Callable[[Partition], None],
    ) -> None:
        """``on_replica_fetch`` is called when a follower that is not in sync has fetched."""
        self._partitions = partitions
        self._view = view
        self._rooms = rooms
        self._bytes_out = metrics.bytes_out
        self._on_replica_fetch = on_replica_fetch
        self._followers: dict[int, tuple[Connection, Later, _Fetch]] = {}  # those that wait
        self._news: asyncio.TimerHandle | None = None
        rooms.on_committed = self._more_is_committed

    def __call__(self, incoming: IncomingRequest, connection: Connection) -> Reply | Later:
        request = incoming.message
        assert isinstance(request, FetchRequest)
        check_parts(request.parts)
        fetch = _Fetch(self._partitions, self._view, request)
        if fetch.by_replica:
            if connection.broker_id != request.replica_id:
                # A forged follower could read what is not committed and make the leader believe that it is replicated.
                connection.refuse("it fetched as a replica and is no broker")
                raise ClusterAuthorizationFailed("only brokers of this cluster fetch as replicas")
            self._supersede(connection, request.replica_id)
            fetch.note_progress(self._on_replica_fetch)
        fetch.look()
        wait_s = min(max(request.max_wait_ms, 0) / 1000, WAIT_MAX_S)
        if fetch.satisfied or wait_s == 0 or not request.parts:
            return self._reply(fetch)
        room = self._rooms.replica_fetches if fetch.by_replica else self._rooms.consumer_fetches
        waiting = room.wait(
            lambda: self._reply(fetch) if fetch.enough() else None,
            lambda: self._reply(fetch, again=True),
            [(part.topic, part.partition) for part in request.parts],
            wait_s,
        )
        if fetch.by_replica:
            self._followers[request.replica_id] = (connection, waiting, fetch)
        return waiting

    def _supersede(self, connection: Connection, replica: int) -> None:
        """A follower asks again before it was answered, for it follows more by now: answer what it asked before at once."""
        last = self._followers.get(replica)
        if last is not None and last[1].open and last[0] is connection:
            last[1].give(self._reply(last[2], again=True))

    def _more_is_committed(self) -> None:
        """Followers that have everything hear, a little later, that more is committed than they know.

        If one were to lead next, with too few others to commit anything, it could show no more than it knows of.
        """
        if self._news is None and self._rooms.replica_fetches.size:
            self._news = asyncio.get_running_loop().call_later(COMMITTED_DELAY_S, self._tell_followers)

    def _tell_followers(self) -> None:
        self._news = None
        for connection, waiting, fetch in list(self._followers.values()):
            if waiting.open and fetch.more_is_committed():
                self._supersede(connection, fetch.replica)

    def _reply(self, fetch: "_Fetch", again: bool = False) -> Reply:
        if again:
            fetch.read()
        last = self._followers.get(fetch.replica)
        if last is not None and last[2] is fetch:
            del self._followers[fetch.replica]  # or what it was given would stay in memory
        self._bytes_out.count += fetch.size
        return Reply(FetchResponse(fetch.results), fetch.attachments)


class _Fetch:
    """One fetch request being answered."""

    __slots__ = (
        "_min_bytes", "_partitions", "_refused", "_request", "_seen", "_view", "attachments", "by_replica", "failed", "replica",
        "results", "size",
    )  # fmt: skip

    def __init__(self, partitions: Partitions, view: ClusterView, request: FetchRequest) -> None:
        self._partitions = partitions
        self._view = view
        self._request = request
        self._min_bytes = max(request.min_bytes, 0)
        self._seen: list[tuple[Partition, int, int]] = []
        self._refused: dict[int, OttlaError | Divergence] = {}
        self.replica = request.replica_id
        self.by_replica = request.replica_id != CONSUMER
        self.size = 0
        self.failed = False
        self.results: list[FetchPartResult] = []
        self.attachments: list[Buffer] = []

    @property
    def satisfied(self) -> bool:
        return self.failed or self.size >= self._min_bytes

    def note_progress(self, on_replica_fetch: Callable[[Partition], None]) -> None:
        """Tell the partitions how far the follower is: once, when it asks."""
        request = self._request
        now = time.monotonic()
        for index, part in enumerate(request.parts):
            try:
                partition = self._partitions.led(part.topic, part.partition, part.leader_epoch)
                divergence = partition.fetched_by(request.replica_id, request.broker_epoch, part, now)
            except OttlaError as error:
                self._refused[index] = error
                continue
            if divergence is not None:
                self._refused[index] = divergence
            elif partition.leading is not None and request.replica_id not in partition.leading.isr.members:
                on_replica_fetch(partition)

    def look(self) -> None:
        """Read what there is, unless a glance shows that the reader has it all."""
        if self._refused or not self._min_bytes:
            self.read()
            return
        seen = self._seen
        for part in self._request.parts:
            partition = self._partitions.get(part.topic, part.partition)
            if partition is None or not partition.is_led_in(part.leader_epoch) or self._end(partition) != part.offset:
                self.read()
                return
            seen.append((partition, part.offset, partition.appended_bytes))

    def read(self) -> None:
        """Read anew what there is."""
        self.size, self.failed = 0, False
        self.results, self.attachments, self._seen = [], [], []
        left = min(max(self._request.max_bytes, 0), RESPONSE_MAX)
        for index, part in enumerate(self._request.parts):
            refused = self._refused.get(index) if self._refused else None
            left -= self._read_part(part, left) if refused is None else self._refuse(part, refused)

    def more_is_committed(self) -> bool:
        """Whether a high watermark is past what the follower knows."""
        known = {(part.topic, part.partition): part.high_watermark for part in self._request.parts}
        return any(partition.high_watermark > known[partition.where] for partition, _, _ in self._seen)

    def enough(self) -> bool:
        """Whether waiting may end. Reads only if what was appended meanwhile can make the difference."""
        grown, size, led = False, self.size, True
        for partition, end, before in self._seen:
            led = led and partition.is_leader
            grown = grown or self._end(partition) != end
            size += partition.appended_bytes - before
        if led and (not grown or size < self._min_bytes):
            return False
        self.read()
        return self.satisfied

    def _end(self, partition: Partition) -> int:
        """Up to where this reader may read."""
        return partition.log.log_end_offset if self.by_replica else partition.high_watermark

    def _read_part(self, part: FetchPart, left: int) -> int:
        try:
            partition = self._partitions.led(part.topic, part.partition, part.leader_epoch)
            # The first batch of an answer comes whole, or a batch larger than the limits would block a reader for ever.
            first = self.size == 0
            read = partition.read_for_replica if self.by_replica else partition.read
            most = min(max(part.max_bytes, 0), left)
            views = read(part.offset, most, at_least_one=first) if left > 0 or first else []
        except OttlaError as error:
            return self._refuse(part, error)
        size = 0
        for view in views:
            size += len(view)
        self._seen.append((partition, self._end(partition), partition.appended_bytes))
        self.attachments += views
        self.size += size
        self.results.append(
            FetchPartResult(
                0, "", part.topic, part.partition, size, partition.high_watermark, partition.log.log_start_offset,
                partition.leader, partition.leader_epoch,
            )
        )  # fmt: skip
        return size

    def _refuse(self, part: FetchPart, why: OttlaError | Divergence) -> int:
        """Answer a part that cannot be read: with an error, or with where the follower must cut its log."""
        self.failed = True
        if not isinstance(why, OttlaError):
            epoch, end = why
            result = FetchPartResult(0, "", part.topic, part.partition, diverging_epoch=epoch, diverging_end=end)
        else:
            leader, leader_epoch = self._view.leader_of(part.topic, part.partition)
            why = told(why, part.topic, leader)
            start = self._partitions.log_start_offset(part.topic, part.partition)
            result = FetchPartResult(
                why.code, str(why), part.topic, part.partition,
                log_start_offset=start, leader=leader, leader_epoch=leader_epoch,
            )  # fmt: skip
        self.results.append(result)
        return 0
