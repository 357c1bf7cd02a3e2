"""Fetch: give record batches of many partitions, waiting for enough of them if there are not."""

import asyncio
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ottla.broker.api.parts import check_parts, told
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.replication.partition import Divergence, Partition
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.purgatory import Purgatory
from ottla.net.connection import Connection, Reply
from ottla.wire.batch import Buffer
from ottla.wire.connection import IncomingRequest
from ottla.wire.errors import ClusterAuthorizationFailed, OttlaError
from ottla.wire.messages import CONSUMER
from ottla.wire.names import TopicPartition
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
        purgatory: Purgatory[Reply],
        metrics: Metrics,
        on_replica_fetch: Callable[[Partition], None],
    ) -> None:
        """``on_replica_fetch`` is called when a follower that is not in sync has fetched."""
        self._partitions = partitions
        self._view = view
        self._purgatory = purgatory
        self._bytes_out = metrics.bytes_out
        self._on_replica_fetch = on_replica_fetch
        self._waiting: WeakKeyDictionary[Connection, tuple[asyncio.Future[Reply], _Fetch]] = WeakKeyDictionary()

    def __call__(self, incoming: IncomingRequest, connection: Connection) -> Reply | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, FetchRequest)
        check_parts(request.parts)
        if request.replica_id != CONSUMER and connection.broker_id != request.replica_id:
            # A forged follower could read what is not committed and make the leader believe that it is replicated.
            connection.refuse("it fetched as a replica and is no broker")
            raise ClusterAuthorizationFailed("only brokers of this cluster fetch as replicas")
        if request.replica_id != CONSUMER:
            self._supersede(connection)
        fetch = _Fetch(self._partitions, self._view, request)
        wait_s = min(max(request.max_wait_ms, 0) / 1000, WAIT_MAX_S)
        if fetch.by_replica:
            fetch.note_progress(self._on_replica_fetch)
        fetch.read()
        if fetch.satisfied or wait_s == 0 or not request.parts:
            return self._reply(fetch)
        waiting = self._purgatory.wait(
            lambda: self._reply(fetch) if fetch.enough() else self._keep_waiting(fetch, connection),
            lambda: self._reply(fetch, again=True),
            [TopicPartition(part.topic, part.partition) for part in request.parts],
            wait_s,
        )
        if fetch.by_replica:
            self._waiting[connection] = (waiting, fetch)
        return waiting

    def _keep_waiting(self, fetch: "_Fetch", connection: Connection) -> None:
        """Nothing new to read. A follower hears all the same, a little later, that more is committed than it knows.

        If it were to lead next, with too few others to commit anything, it could show no more than it knows of.
        """
        if fetch.by_replica and not fetch.hurried and fetch.more_is_committed():
            fetch.hurried = True
            asyncio.get_running_loop().call_later(COMMITTED_DELAY_S, self._answer_now, connection, fetch)

    def _answer_now(self, connection: Connection, fetch: "_Fetch") -> None:
        if self._waiting.get(connection, (None, None))[1] is fetch:
            self._supersede(connection)

    def _supersede(self, connection: Connection) -> None:
        """A follower asks again before it was answered, for it follows more by now: answer what it asked before at once."""
        waiting, fetch = self._waiting.pop(connection, (None, None))
        if waiting is not None and fetch is not None and not waiting.done():
            waiting.set_result(self._reply(fetch, again=True))

    def _reply(self, fetch: "_Fetch", again: bool = False) -> Reply:
        if again:
            fetch.read()
        self._bytes_out.count += fetch.size
        return Reply(FetchResponse(fetch.results), fetch.attachments)


class _Fetch:
    """One fetch request being answered."""

    def __init__(self, partitions: Partitions, view: ClusterView, request: FetchRequest) -> None:
        self._partitions = partitions
        self._view = view
        self._request = request
        self._min_bytes = max(request.min_bytes, 0)
        self._seen: list[tuple[Partition, int, int]] = []
        self._refused: dict[int, OttlaError | Divergence] = {}
        self.by_replica = request.replica_id != CONSUMER
        self.hurried = False
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

    def read(self) -> None:
        """Read anew what there is."""
        self.size, self.failed = 0, False
        self.results, self.attachments, self._seen = [], [], []
        left = min(max(self._request.max_bytes, 0), RESPONSE_MAX)
        for index, part in enumerate(self._request.parts):
            refused = self._refused.get(index)
            left -= self._read_part(part, left) if refused is None else self._refuse(part, refused)

    def more_is_committed(self) -> bool:
        """Whether a high watermark is past what the follower knows."""
        known = {(part.topic, part.partition): part.high_watermark for part in self._request.parts}
        return any(partition.high_watermark > known[partition.where] for partition, _, _ in self._seen)

    def enough(self) -> bool:
        """Whether waiting may end. Reads only if what was appended meanwhile can make the difference."""
        if all(partition.is_leader and self._end(partition) == end for partition, end, _ in self._seen):
            return False
        appended = sum(partition.appended_bytes - before for partition, _, before in self._seen)
        if all(partition.is_leader for partition, _, _ in self._seen) and self.size + appended < self._min_bytes:
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
        size = sum(map(len, views))
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
