"""Reads the partitions of a fetch without a session: the results, and the records as views of the log."""

from ottla.broker.api.fetch_refusals import isolated_leader, refusal
from ottla.broker.api.numbered_sessions import unknown_id
from ottla.broker.api.parts import ANSWER_MAX
from ottla.broker.cluster_view import ClusterView
from ottla.broker.purgatory import Waiting
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.wire.batch import Buffer
from ottla.wire.errors import OttlaError
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest


class FetchedParts:
    """One fetch request being answered."""

    __slots__ = (
        "_left", "_min_bytes", "_partitions", "_seen", "_view", "attachments", "failed", "may_read", "request", "results",
        "size", "waiting",
    )  # fmt: skip

    def __init__(self, partitions: Partitions, view: ClusterView, request: FetchRequest) -> None:
        self._partitions = partitions
        self._view = view
        self.request = request
        self._min_bytes = max(request.min_bytes, 0)
        self._left = 0
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
        self.begin()
        for part in self.request.parts:
            self.read_part(part)

    def begin(self) -> None:
        """Forget what was read: every part of the request is to be read anew, in order."""
        self.size, self.failed = 0, False
        self.results, self.attachments, self._seen = [], [], []
        self._left = min(max(self.request.max_bytes, 0), ANSWER_MAX) if self.may_read else 0

    def read_part(self, part: FetchPart) -> None:
        self._left -= self._read_part(part, self._left)

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
