"""A consumer's fetch that waits is answered as soon as what it waits for is committed, whenever it came."""

import pytest

from ottla.net.exchange import Answer
from ottla.wire.messages import CONSUMER
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.wire.requests import FetchPart, FetchRequest, FetchResponse
from tests.component.replication.brokers import Cluster, turns
from tests.support.waiting import eventually

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def fetch(*places: tuple[TopicPartition, int], min_bytes: int = 1, wait_ms: int = 60_000) -> FetchRequest:
    parts = [FetchPart(where.topic, where.partition, offset, 1 << 20, NO_EPOCH) for where, offset in places]
    return FetchRequest(wait_ms, min_bytes, 1 << 20, parts, CONSUMER)


def sizes(answer: Answer) -> list[tuple[str, bool]]:
    """Of each part of an answer, its topic and whether there are records."""
    assert isinstance(answer.message, FetchResponse)
    return [(part.topic, part.size > 0) for part in answer.message.parts]


@pytest.mark.parametrize("min_bytes", [1, 90])
async def test_a_fetch_between_append_and_commit_is_woken_by_the_commit(cluster: Cluster, min_bytes: int) -> None:
    await cluster.create(A0)
    consumer = cluster.leader.connect(-1)
    cluster.follower.line.held = True
    cluster.leader.append(A0)
    await turns()
    waiting = consumer.channel.send(fetch((A0, 0), min_bytes=min_bytes))
    await turns()
    assert not waiting.done()
    cluster.follower.line.release()
    await turns()
    assert sizes(waiting.result()) == [("a", True)]


async def test_a_fetch_for_more_than_is_committed_waits_on_and_is_woken_by_the_rest(cluster: Cluster) -> None:
    await cluster.create(A0, B0)
    consumer = cluster.leader.connect(-1)
    cluster.follower.line.held = True
    cluster.leader.append(A0)
    await turns()
    waiting = consumer.channel.send(fetch((A0, 0), (B0, 0), min_bytes=150))  # a batch has 91 bytes
    await turns()
    cluster.follower.line.release()
    await turns()
    assert not waiting.done()
    cluster.leader.append(B0)
    await eventually(waiting.done)
    assert sizes(waiting.result()) == [("a", True), ("b", True)]


async def test_a_fetch_that_may_not_wait_is_told_of_every_part_though_there_is_nothing_new(cluster: Cluster) -> None:
    await cluster.create(A0)
    consumer = cluster.leader.connect(-1)
    cluster.leader.append(A0)
    await eventually(lambda: cluster.leader.partition(A0).high_watermark == 1)
    answer = await consumer.channel.request(fetch((A0, 1), wait_ms=0), 2.0)
    assert sizes(answer) == [("a", False)]
