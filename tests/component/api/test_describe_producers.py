"""Every answer of DescribeProducers."""

import pytest

from ottla.broker.api import describe_producers
from ottla.wire.errors import InvalidTopic, NotLeaderOrFollower, OttlaError, UnknownTopicOrPartition
from ottla.wire.messages import PartitionName
from ottla.wire.records import encode_batch
from ottla.wire.requests import (
    DescribeProducersPartResult,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from tests.component.api.served import HERE, THERE, Served, error_of
from tests.support.clocks import wall_ms


def describe(served: Served, *topics: str) -> list[DescribeProducersPartResult]:
    request = DescribeProducersRequest([PartitionName(topic, 0) for topic in topics])
    return served.answer(request, DescribeProducersResponse).parts


def write(served: Served, producer_id: int, sequence: int = 0, topic: str = "t") -> None:
    batch = encode_batch(
        [b"a", b"b"], timestamps=wall_ms(), producer_id=producer_id, producer_epoch=3, base_sequence=sequence
    )
    served.produce(batch, topic).raise_if_failed()


async def test_a_producer_is_described_by_its_last_batch_and_who_wrote_last_comes_first(served: Served) -> None:
    await served.decide()
    began_ms = wall_ms()
    for producer_id, sequence in ((7, 0), (8, 0), (7, 2)):
        write(served, producer_id, sequence)
    (found,) = describe(served, "t")
    assert [(one.producer_id, one.producer_epoch, one.last_sequence) for one in found.producers] == [
        (7, 3, 3),
        (8, 3, 1),
    ]
    assert all(began_ms - 1 <= one.last_timestamp_ms <= wall_ms() for one in found.producers)
    assert (error_of(found), found.left_out) == (None, 0)


@pytest.mark.parametrize(
    ("topic", "error"),
    [("nowhere", UnknownTopicOrPartition), ("not/legal", InvalidTopic), ("elsewhere", NotLeaderOrFollower)],
)
async def test_what_is_not_here_is_a_typed_error(served: Served, topic: str, error: type[OttlaError]) -> None:
    await served.decide("elsewhere", leader=THERE, replicas=(THERE,))
    assert error_of(describe(served, topic)[0]) is error


async def test_followers_answer_too(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    write(served, 7)
    await served.decide(replicas=(HERE, THERE), leader=THERE, epoch=1)
    assert [one.producer_id for one in describe(served, "t")[0].producers] == [7]


async def test_an_answer_has_so_many_producers_and_tells_how_many_are_left_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_producers, "PRODUCERS_MAX", 3)
    for topic in ("t", "u", "v"):
        await served.decide(topic)
        for producer_id in (7, 8):
            write(served, producer_id, topic=topic)
    told = describe(served, "t", "u", "v")
    assert [([one.producer_id for one in part.producers], part.left_out) for part in told] == [
        ([8, 7], 0),
        ([8], 1),
        ([], 2),
    ]
