"""DescribeProducers: the idempotent producers that a replica remembers."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

from ottla.broker.api.later import while_asked
from ottla.broker.api.parts import check_parts, client_error
from ottla.broker.api.slices import in_slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.producers.decision import Entry, last_sequence
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import UnknownTopicOrPartition
from ottla.wire.messages import PartitionName
from ottla.wire.requests import (
    DescribedProducer,
    DescribeProducersPartResult,
    DescribeProducersRequest,
    DescribeProducersResponse,
)

PRODUCERS_MAX = 2_000
"""Of one answer, over all its partitions: a broker may remember hundreds of thousands, and an answer is made in one go on the
event loop. The answer has the producers that wrote last, and the number of those that it leaves out."""


class DescribeProducersHandler:
    """Every replica answers, as in Kafka: followers remember what their leader does."""

    def __init__(self, partitions: Partitions, view: ClusterView, now_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._view = view
        self._now_ms = now_ms

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DescribeProducersRequest)
        check_parts(request.parts)
        results = self._described(request.parts)
        if incoming.is_long:
            return while_asked(_in_slices(results))
        return Reply(DescribeProducersResponse(list(results)))

    def _described(self, parts: Sequence[PartitionName]) -> Iterator[DescribeProducersPartResult]:
        most = PRODUCERS_MAX
        for part in parts:
            result = self._describe(part, most)
            most -= len(result.producers)
            yield result

    def _describe(self, part: PartitionName, most: int) -> DescribeProducersPartResult:
        found = self._partitions.get(part.topic, part.partition)
        if found is None:
            leader, _ = self._view.leader_of(part.topic, part.partition)
            missing = UnknownTopicOrPartition(f"no {part.topic[:100]}-{part.partition} is here")
            error = client_error(missing, part.topic, leader)
            return DescribeProducersPartResult(error.code, str(error), part.topic, part.partition)
        states = found.log.producers.states
        latest = states.latest(most)
        booted_ms = self._now_ms() - time.monotonic() * 1000
        producers = tuple(_described(producer_id, entry, booted_ms) for producer_id, entry in latest)
        return DescribeProducersPartResult(0, "", part.topic, part.partition, producers, len(states) - len(producers))


async def _in_slices(results: Iterator[DescribeProducersPartResult]) -> Reply:
    return Reply(DescribeProducersResponse(await in_slices(lambda result: result, results)))


def _described(producer_id: int, entry: Entry, booted_ms: float) -> DescribedProducer:
    """``booted_ms``: the time of day at which the monotonic clock was 0."""
    return DescribedProducer(producer_id, entry.epoch, last_sequence(entry), int(booted_ms + entry.last_used_s * 1000))
