"""Brokers that exist only in this process and answer late, out of order, and for leaders that were replaced long ago.

A world has one topic. What is committed stays committed, so a consumer may be kept waiting but never misled for good. Every
request waits in ``pending`` until somebody delivers it; its answer is what the broker knew when it was asked, or later.
"""

import asyncio
import copy
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig
from ottla.net.exchange import Answer
from ottla.wire.batch import stamp
from ottla.wire.errors import (
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    InconsistentTopicId,
    NetworkException,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OttlaError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import EARLIEST, BrokerEndpoint, Message, Request
from ottla.wire.names import NO_EPOCH
from ottla.wire.records import encode_batch
from ottla.wire.requests import (
    FetchPart,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    ListOffsetsPart,
    ListOffsetsPartResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)

M = TypeVar("M", bound=Message)

TOPIC = "t"


@dataclass
class Replica:
    """A partition as one broker knows it."""

    incarnation: int
    leader: int
    epoch: int = 0
    start: int = 0
    ends: list[int] = field(default_factory=lambda: [0])
    """Where batches end; the first one begins at 0."""

    @property
    def end(self) -> int:
        return self.ends[-1]

    def copy(self) -> "Replica":
        return replace(self, ends=list(self.ends))


class World:
    """The truth, and what each broker knows of it."""

    def __init__(self, dice: random.Random, brokers: int = 3, partitions: int = 2) -> None:
        self.dice = dice
        self.brokers = list(range(brokers))
        self.truth = [Replica(1, dice.randrange(brokers)) for _ in range(partitions)]
        self.known = {broker: [replica.copy() for replica in self.truth] for broker in self.brokers}
        self.pending: list[Callable[[], None]] = []
        self._epoch, self._count = 1, 0
        self.told: list[MetadataResponse] = []
        """All that controllers told of the cluster, in order; a broker has heard of it up to ``heard``."""
        self.heard = dict.fromkeys(self.brokers, 0)
        self.keeps = True
        """Whether brokers keep what consumers name, from fetch to fetch."""
        self.most_parts = 100
        """How many parts an answer has room for, where what was named is kept."""
        self.channels: list[FakeChannel] = []
        self.tell()

    # --- what happens ------------------------------------------------------------------------------------------------

    def write(self) -> None:
        number = self.dice.randrange(len(self.truth))
        replica = self.truth[number]
        replica.ends.append(replica.end + self.dice.randint(1, 4))
        self.known[replica.leader][number] = replica.copy()

    def elect(self) -> None:
        """Another broker leads, or the same one in another epoch; who led before does not know of it."""
        number = self.dice.randrange(len(self.truth))
        replica = self.truth[number]
        replica.leader, replica.epoch = self.dice.choice(self.brokers), replica.epoch + 1
        self.known[replica.leader][number] = replica.copy()
        self.tell()

    def retain(self) -> None:
        """The oldest batches are deleted."""
        replica = self.dice.choice(self.truth)
        replica.start = self.dice.choice([end for end in replica.ends if end >= replica.start])

    def recreate(self) -> None:
        """The topic is deleted and created anew. Nobody but its leaders knows yet."""
        self.tell(None)
        for number, replica in enumerate(self.truth):
            new = self.truth[number] = Replica(replica.incarnation + 1, self.dice.choice(self.brokers))
            self.known[new.leader][number] = new.copy()
            self.tell(number + 1)

    def replace_controller(self) -> None:
        self._epoch, self._count = self._epoch + 1, 0
        self.tell()

    def tell(self, partitions: int | None = -1) -> None:
        """A controller tells everybody of a change: of the topic with so many partitions, or None if it is gone."""
        self._count += 1
        endpoints = [BrokerEndpoint(broker, "nowhere", broker) for broker in self.brokers]
        topic = TopicMetadata(TOPIC, "", [], {}, UnknownTopicOrPartition.code, "gone")
        if partitions is not None:
            some = self.truth if partitions < 0 else self.truth[:partitions]
            states = [PartitionMetadata(n, r.leader, r.epoch, self.brokers, self.brokers) for n, r in enumerate(some)]
            topic = TopicMetadata(TOPIC, topic_id(self.truth[0]), states, {})
        self.told.append(MetadataResponse("cluster", 0, endpoints, [topic], (self._epoch, self._count)))

    def listen(self) -> None:
        """A broker hears some of what it was told since."""
        broker = self.dice.choice(self.brokers)
        self.heard[broker] = self.dice.randint(self.heard[broker], len(self.told) - 1)

    def hear(self, broker: int | None = None) -> None:
        """A broker hears of everything."""
        broker = self.dice.choice(self.brokers) if broker is None else broker
        self.known[broker] = [r.copy() for r in self.truth]
        self.heard[broker] = len(self.told) - 1

    def deliver(self, which: int | None = None) -> None:
        if self.pending:
            self.pending.pop(self.dice.randrange(len(self.pending)) if which is None else which)()

    def hang_up(self) -> None:
        """A connection ends: the broker may have answered, but nobody hears it."""
        if self.channels:
            self.dice.choice(self.channels).hang_up()

    def forget_kept(self) -> None:
        """A broker keeps nothing any more of what was named over a connection."""
        if self.channels:
            self.dice.choice(self.channels).kept = None

    # --- what brokers answer -----------------------------------------------------------------------------------------

    async def ask(self, work: Callable[[], Answer]) -> Answer:
        """Wait until somebody delivers the answer: of now, or of then."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        now = work() if self.dice.random() < 0.7 else None

        def arrive() -> None:
            if not answer.done():
                answer.set_result(now or work())

        self.pending.append(arrive)
        return await answer

    def answer(self, broker: int, request: Request) -> Answer:
        if isinstance(request, FetchRequest):
            parts, records = zip(*(self._fetch(broker, part) for part in request.parts), strict=True)
            return Answer(FetchResponse(list(parts)), list(records))
        assert isinstance(request, ListOffsetsRequest)
        return Answer(ListOffsetsResponse([self._offset(broker, part) for part in request.parts]), [])

    def answer_kept(self, broker: int, kept: dict[int, FetchPart]) -> Answer:
        """Of what is kept, some that there is something to say of; it is kept no more."""
        found: list[tuple[FetchPartResult, memoryview]] = []
        for number, part in list(kept.items()):
            result, records = self._fetch(broker, part)
            if (result.error_code or records) and len(found) < self.most_parts:
                found.append((result, records))
                del kept[number]
        return Answer(FetchResponse([result for result, _ in found], True), [records for _, records in found])

    def _led(self, broker: int, part: FetchPart | ListOffsetsPart) -> Replica:
        replica = self.known[broker][part.partition]
        if isinstance(part, FetchPart) and part.topic_id not in ("", topic_id(replica)):
            raise InconsistentTopicId
        if part.leader_epoch not in (NO_EPOCH, replica.epoch):
            raise FencedLeaderEpoch if part.leader_epoch < replica.epoch else UnknownLeaderEpoch
        if replica.leader != broker:
            raise NotLeaderOrFollower
        return replica

    def _fetch(self, broker: int, part: FetchPart) -> tuple[FetchPartResult, memoryview]:
        known = self.known[broker][part.partition]
        try:
            replica = self._led(broker, part)
            if not replica.start <= part.offset <= replica.end:
                raise OffsetOutOfRange
        except OttlaError as error:
            result = FetchPartResult(
                error.code, "", TOPIC, part.partition, log_start_offset=known.start,
                leader=known.leader, leader_epoch=known.epoch, topic_id=topic_id(known),
            )  # fmt: skip
            return result, memoryview(b"")
        records = b"".join(
            batch(replica.incarnation, part.partition, base, end)
            for base, end in zip(replica.ends, replica.ends[1:], strict=False)
            if part.offset < end <= part.offset + 12
        )
        return FetchPartResult(0, "", TOPIC, part.partition, len(records), replica.end), memoryview(records)

    def _offset(self, broker: int, part: ListOffsetsPart) -> ListOffsetsPartResult:
        try:
            replica = self._led(broker, part)
        except OttlaError as error:
            return ListOffsetsPartResult(error.code, "", TOPIC, part.partition)
        offset = replica.start if part.timestamp_ms == EARLIEST else replica.end
        return ListOffsetsPartResult(0, "", TOPIC, part.partition, offset)

    def metadata(self) -> Answer:
        """As any broker knows it: what one knows may be older than what another one told before."""
        answer = copy.deepcopy(self.told[self.heard[self.dice.choice(self.brokers)]])
        return Answer(answer, [])


def topic_id(replica: Replica) -> str:
    return f"id-{replica.incarnation}"


def batch(incarnation: int, partition: int, base: int, end: int) -> bytes:
    """Records that say where they belong."""
    encoded = encode_batch([b"%d %d %d" % (incarnation, partition, n) for n in range(base, end)], timestamps=7)
    stamp(encoded, 0, base, 0)
    return bytes(encoded)


class FakeChannel:
    """A connection: requests are worked on in order, each at once or when its answer is delivered, and answered in order."""

    def __init__(self, world: World, broker: int) -> None:
        self.address = f"nowhere:{broker}"
        self.usable = True
        self.kept: dict[int, FetchPart] | None = None
        self._world = world
        self._broker = broker
        self._owed: deque[tuple[Request, asyncio.Future[Answer], list[Answer | OttlaError]]] = deque()
        world.channels.append(self)

    async def request(self, request: Request, timeout_s: float) -> Answer:
        return await self.send(request)

    def send(self, request: Request) -> "asyncio.Future[Answer]":
        self._work()  # a fetch that waits is answered before the next one is looked at
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._owed.append((request, answer, []))
        if self._world.dice.random() < 0.7:
            self._work()
        self._world.pending.append(self._deliver)
        return answer

    def _work(self) -> None:
        for request, _, found in self._owed:
            if not found:
                found.append(self.work_on(request))

    def work_on(self, request: Request) -> Answer | OttlaError:
        if not isinstance(request, FetchRequest) or not (request.since_last or (request.keep and self._world.keeps)):
            return self._world.answer(self._broker, request)
        if not request.since_last:
            self.kept = {}
        if self.kept is None:
            return FetchSessionIdNotFound()
        for drop in request.dropped:
            self.kept.pop(drop.partition, None)
        for part in request.parts:
            self.kept.pop(part.partition, None)
            self.kept[part.partition] = part
        return self._world.answer_kept(self._broker, self.kept)

    def _deliver(self) -> None:
        if self._owed:
            self._work()
            _, answer, (found,) = self._owed.popleft()
            if isinstance(found, OttlaError):
                _fail(answer, found)
            elif not answer.done():
                answer.set_result(found)

    def hang_up(self) -> None:
        self.usable = False
        self._world.channels.remove(self)
        owed, self._owed = self._owed, deque()
        for _, answer, _ in owed:
            _fail(answer, NetworkException("hung up"))

    async def close(self) -> None:
        if self.usable:
            self.hang_up()


def _fail(answer: "asyncio.Future[Answer]", error: OttlaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # looked at, as a real channel's


class FakeCluster(Cluster):
    """The client's own metadata, from a world's brokers."""

    def __init__(self, world: World, config: ClientConfig) -> None:
        super().__init__(config)
        self._world = world
        self._fakes: dict[tuple[int, int], FakeChannel] = {}

    async def channel(self, broker_id: int, lane: int = 0) -> Any:
        known = self._fakes.get((broker_id, lane))
        if known is None or not known.usable:
            known = self._fakes[broker_id, lane] = self.connect(broker_id)
        return known

    def connect(self, broker_id: int) -> FakeChannel:
        return FakeChannel(self._world, broker_id)

    async def ask_any(
        self,
        request: Request,
        kind: type[M],
        check: Callable[[M], None] = lambda _: None,
        is_in_doubt: Callable[[M], bool] = lambda _: False,
    ) -> M:
        answer = cast(M, (await self._world.ask(self._world.metadata)).message)
        check(answer)
        return answer
