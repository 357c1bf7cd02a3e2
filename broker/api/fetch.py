"""Fetch: give record batches of many partitions, waiting for enough of them if there are not."""

from ottla.broker.api.consumer_sessions import WAIT_MAX_S, ConsumerSessions, isolated_leader, refusal
from ottla.broker.api.numbered_sessions import NumberedSessions, unknown_id
from ottla.broker.api.parts import ANSWER_MAX, check_parts, check_parts_by_id
from ottla.broker.api.replica_fetch import ReplicaFetchHandler
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.purgatory import Purgatory, Waiting
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.batch import Buffer
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError
from ottla.wire.messages import CONSUMER
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

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | Later:
        request = incoming.message
        assert isinstance(request, FetchRequest)
        if isinstance(request, NumberedFetchRequest):
            return self._of_number(request, connection)
        check_parts(request.parts)
        if request.replica_id != CONSUMER:
            return self._for_replicas(request, connection)
        if request.since_last:
            return self._sessions.get(connection, len(request.parts)).fetch(request)
        if request.keep:
            session = self._sessions.begin(connection, len(request.parts))
            if session is not None:
                return session.fetch(request)
        return self._of_all(request, connection)

    def _of_number(self, request: NumberedFetchRequest, connection: Peer) -> Reply | Later:
        """As Kafka's clients ask: whoever names everything gives up the session that it had."""
        if request.by_id:
            check_parts_by_id(request.parts)
        else:
            check_parts(request.parts)
        if request.replica_id != CONSUMER:
            return self._for_replicas(request, connection)
        if request.session_epoch not in (FIRST_EPOCH, FINAL_EPOCH):
            return self._numbered.fetch(connection, request)
        if request.session_id != NO_SESSION:
            self._numbered.end(connection, request.session_id)
        return self._of_all(request, connection)

    def _of_all(self, request: FetchRequest, connection: Peer) -> Reply | Later:
        """Answer for every part, and keep nothing but what is asked for with a number."""
        fetch = _Fetch(self._partitions, self._view, request)
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

    def _reply_if_enough(self, fetch: "_Fetch", connection: Peer) -> Reply | None:
        if fetch.waiting is None or not connection.takes(fetch.waiting) or not fetch.enough():
            return None
        fetch.waiting = None
        return self._reply(fetch, connection)

    def _reply_in_time(self, fetch: "_Fetch", connection: Peer) -> Reply:
        """Time is over. A peer that has not taken what it was given before gets no records: it can ask again."""
        if fetch.waiting is not None and not connection.takes(fetch.waiting):
            fetch.may_read = False
        fetch.waiting = None
        fetch.read()
        if not fetch.size and self._sessions.is_isolated():
            fetch.refuse_isolated()
        return self._reply(fetch, connection)

    def _reply(self, fetch: "_Fetch", connection: Peer) -> Reply:
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

    def _reply_again(self, fetch: "_Fetch", connection: Peer) -> Reply:
        fetch.read()
        return self._reply(fetch, connection)


class _Fetch:
    """One fetch request being answered."""

    __slots__ = (
        "_min_bytes", "_partitions", "_seen", "_view", "attachments", "failed", "may_read", "request", "results", "size",
        "waiting",
    )  # fmt: skip

    def __init__(self, partitions: Partitions, view: ClusterView, request: FetchRequest) -> None:
        self._partitions = partitions
        self._view = view
        self.request = request
        self._min_bytes = max(request.min_bytes, 0)
        self._seen: list[tuple[Partition, int, int]] = []
        self.size = 0
        self.failed = False
        self.may_read = True
        self.results: list[FetchPartResult] = []
        self.attachments: list[Buffer] = []
        self.waiting: Waiting | None = None

    @property
    def satisfied(self) -> bool:
        return self.failed or self.size >= self._min_bytes

    def look(self) -> None:
        """Read what there is, unless a glance shows that the reader has it all."""
        if not self._min_bytes:
            self.read()
            return
        seen = self._seen
        for part in self.request.parts:
            partition = self._partitions.get(part.topic, part.partition)
            if (
                partition is None
                or not partition.is_led_in(part.leader_epoch)
                or partition.high_watermark != part.offset
            ):
                self.read()
                return
            seen.append((partition, part.offset, self._bytes_before(partition)))

    def read(self) -> None:
        """Read anew what there is."""
        self.size, self.failed = 0, False
        self.results, self.attachments, self._seen = [], [], []
        left = min(max(self.request.max_bytes, 0), ANSWER_MAX) if self.may_read else 0
        for part in self.request.parts:
            left -= self._read_part(part, left)

    def enough(self) -> bool:
        """Whether waiting may end. Reads only if what was appended meanwhile can make the difference."""
        grown, size, led = False, self.size, True
        for partition, end, before in self._seen:
            led = led and partition.is_leader
            grown = grown or partition.high_watermark != end
            size += partition.appended_bytes - before
        if led and (not grown or size < self._min_bytes):
            return False
        self.read()
        return self.satisfied

    def _bytes_before(self, partition: Partition) -> int:
        """What ``appended_bytes`` had counted up to the high watermark, at least.

        Records may be there that are not committed yet. How many bytes of them is not known: any of them may be enough.
        """
        if partition.high_watermark == partition.log.log_end_offset:
            return partition.appended_bytes
        return partition.appended_bytes - self._min_bytes

    def _read_part(self, part: FetchPart, left: int) -> int:
        try:
            partition = self._partitions.led(part.topic, part.partition, part.leader_epoch, part.topic_id)
            # The first batch of an answer comes whole, or a batch larger than the limits would block a reader for ever.
            first = self.size == 0 and self.may_read
            most = min(max(part.max_bytes, 0), left)
            views = partition.read(part.offset, most, at_least_one=first) if left > 0 or first else []
        except OttlaError as error:
            return self._refuse(part, error)
        size = 0
        for view in views:
            size += len(view)
        self._seen.append((partition, partition.high_watermark, self._bytes_before(partition)))
        self.attachments += views
        self.size += size
        self.results.append(
            FetchPartResult(
                0, "", part.topic, part.partition, size, partition.high_watermark, partition.log.log_start_offset,
                partition.leader, partition.leader_epoch,
            )
        )  # fmt: skip
        return size

    def refuse_isolated(self) -> None:
        """Where there is nothing to read, another leader may have more, of which this broker cannot hear."""
        for place, (part, result) in enumerate(zip(self.request.parts, self.results, strict=True)):
            why = isolated_leader(self._partitions.get(part.topic, part.partition)) if not result.error_code else None
            if why is not None:
                self.results[place] = refusal(part, why, self._partitions, self._view)

    def _refuse(self, part: FetchPart, why: OttlaError) -> int:
        """Answer a part that cannot be read."""
        self.failed = True
        if not part.topic and part.topic_id:
            self.results.append(unknown_id(part))
        else:
            self.results.append(refusal(part, why, self._partitions, self._view))
        return 0
