"""Every answer of Fetch to consumers: what cannot be read, limits, and fetches that wait."""

import time

import pytest

from ottla.broker.peers import BrokerPrincipal
from ottla.wire.errors import (
    ClusterAuthorizationFailed,
    FencedLeaderEpoch,
    InconsistentTopicId,
    InvalidRequest,
    InvalidTopic,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OttlaError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import FetchPart, FetchPartResult, FetchRequest, FetchResponse
from tests.component.api.served import HERE, THERE, Asked, Peer, Served, batch_of, error_of, message_of
from tests.support.waiting import eventually

MUCH = 1 << 20
LONG_MS = 60_000


def parts_of(asked: Asked) -> list[FetchPartResult]:
    return message_of(asked, FetchResponse).parts


# --- what cannot be read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1, -(2**63), 2**63])
async def test_a_partition_that_is_not_there_is_unknown(served: Served, partition: int) -> None:
    await served.decide()
    assert error_of(served.fetch(0, partition=partition)) is UnknownTopicOrPartition


@pytest.mark.parametrize(("topic", "error"), [("nowhere", UnknownTopicOrPartition), ("not/legal", InvalidTopic)])
async def test_a_topic_that_is_not_there_is_worth_asking_again_for_only_if_it_can_be(
    served: Served, topic: str, error: type[OttlaError]
) -> None:
    await served.decide()
    assert error_of(served.fetch(0, topic)) is error


@pytest.mark.parametrize("replicas", [(HERE, THERE), (THERE,)], ids=["a follower", "no replica at all"])
async def test_who_does_not_lead_says_who_does_and_of_which_topic(served: Served, replicas: tuple[int, ...]) -> None:
    await served.decide(leader=THERE, epoch=5, replicas=replicas)
    result = served.fetch(0)
    assert error_of(result) is NotLeaderOrFollower
    assert (result.leader, result.leader_epoch, result.topic_id) == (THERE, 5, "id-of-t")


@pytest.mark.parametrize("offset", [-1, 2, 2**63 - 1, -(2**63), 2**64 - 1])
async def test_an_offset_out_of_the_log_is_out_of_range_at_once(served: Served, offset: int) -> None:
    await served.decide()
    served.produce(batch_of())
    request = FetchRequest(LONG_MS, MUCH, MUCH, [FetchPart("t", 0, offset, MUCH)])
    (part,) = parts_of(served.ask(request))
    assert (error_of(part), part.log_start_offset) == (OffsetOutOfRange, 0)
    assert error_of(served.fetch(1)) is None, "the end is where the next record will be"


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, None), (3, None), (2, FencedLeaderEpoch), (0, FencedLeaderEpoch), (4, UnknownLeaderEpoch)]
)
async def test_leader_epochs_are_compared(served: Served, epoch: int, error: type[OttlaError] | None) -> None:
    await served.decide(epoch=3)
    assert error_of(served.fetch(0, epoch=epoch)) is error


async def test_reader_of_another_topic_of_that_name_is_told_so(served: Served) -> None:
    await served.decide()
    part = FetchPart("t", 0, 0, MUCH, topic_id="id-of-the-one-before")
    (result,) = parts_of(served.ask(FetchRequest(0, 1, MUCH, [part])))
    assert (error_of(result), result.topic_id) == (InconsistentTopicId, "id-of-t")


async def test_partition_named_twice_is_answered_in_each_place(served: Served) -> None:
    """Each place is read for itself, and all together within the limit of the answer."""
    size = await fill(served, partitions=1, batches=3)
    parts = [FetchPart("t", 0, 2, MUCH), FetchPart("t", 0, 2, MUCH), FetchPart("t", 0, 0, MUCH)]
    found = parts_of(served.ask(FetchRequest(0, 1, MUCH, parts)))
    assert [(part.error_code, part.size, part.high_watermark) for part in found] == [
        (0, size, 3), (0, size, 3), (0, 3 * size, 3)
    ]  # fmt: skip
    found = parts_of(served.ask(FetchRequest(0, 1, int(1.5 * size), [FetchPart("t", 0, 2, MUCH)] * 9999)))
    assert sum(part.size for part in found) == size


async def test_more_parts_than_two_hundred_thousand_are_refused(served: Served) -> None:
    with pytest.raises(InvalidRequest):
        served.answer(FetchRequest(0, 1, 1, [FetchPart("t", 0, 0, 1)] * 200_001), FetchResponse)


@pytest.mark.parametrize("peer", [Peer(), Peer(BrokerPrincipal(3))], ids=["a client", "another broker"])
async def test_who_is_not_that_replica_cannot_fetch_as_it(served: Served, peer: Peer) -> None:
    await served.decide(replicas=(HERE, THERE))
    asked = served.ask(FetchRequest(0, 1, MUCH, [FetchPart("t", 0, 0, MUCH)], THERE, 7), peer=peer)
    assert asked.reply is not None
    assert isinstance(asked.reply.error, ClusterAuthorizationFailed)
    assert str(peer.principal) in peer.refused


# --- limits ----------------------------------------------------------------------------------------------------------------


async def fill(served: Served, partitions: int = 3, batches: int = 10) -> int:
    """Batches of one size in partitions of t; the size."""
    batch = batch_of(b"x" * 1000)
    for partition in range(partitions):
        await served.decide(partition=partition)
        for _ in range(batches):
            served.produce(batch, partition=partition).raise_if_failed()
    return len(batch)


async def test_each_partition_is_read_from_its_own_offset(served: Served) -> None:
    size = await fill(served)
    parts = [FetchPart("t", 0, 8, MUCH), FetchPart("t", 1, 10, MUCH), FetchPart("t", 2, 5, MUCH)]
    asked = served.ask(FetchRequest(0, 1, MUCH, parts))
    assert [part.size for part in parts_of(asked)] == [2 * size, 0, 5 * size]
    assert asked.reply is not None
    assert sum(map(len, asked.reply.attachments)) == 7 * size


@pytest.mark.parametrize(
    ("of_part", "of_all", "sizes"),
    [(3.01, 100, [3, 3, 3]), (3.01, 4, [3, 1, 0]), (0.001, 0.001, [1, 0, 0]), (100, 10.5, [10, 0, 0])],
    ids=["a partition's", "the answer's", "one batch comes in any case", "whole batches only"],
)
async def test_bytes_have_limits(served: Served, of_part: float, of_all: float, sizes: list[int]) -> None:
    size = await fill(served)
    parts = [FetchPart("t", partition, 0, int(of_part * size)) for partition in range(3)]
    found = parts_of(served.ask(FetchRequest(0, 1, int(of_all * size), parts)))
    assert [part.size for part in found] == [count * size for count in sizes]


@pytest.mark.parametrize("limit", [-1, 0, 2**31 - 1, -(2**63), 2**64 - 1])
async def test_any_byte_limits_are_taken_as_some_that_make_sense(served: Served, limit: int) -> None:
    size = await fill(served, partitions=1)
    (part,) = parts_of(served.ask(FetchRequest(-1, limit, limit, [FetchPart("t", 0, 0, limit)])))
    assert part.size == (10 * size if limit > size else size)


async def test_a_consumer_sees_nothing_that_is_not_committed(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    served.produce(batch_of())
    result = served.fetch(0)
    assert (error_of(result), result.size, result.high_watermark) == (None, 0, 0)
    assert served.fetch(1).size == 0, "it may have read that from an earlier leader: it is committed soon"


# --- fetches that wait -----------------------------------------------------------------------------------------------------


def waiting_fetch(served: Served, min_bytes: int = 1, *, wait_ms: int = LONG_MS, peer: Peer | None = None) -> Asked:
    return served.ask(FetchRequest(wait_ms, min_bytes, MUCH, [FetchPart("t", 0, 0, MUCH)]), peer=peer)


async def test_fetch_waits_until_there_is_as_much_as_it_wants(served: Served) -> None:
    await served.decide()
    batch = batch_of(b"x" * 1000)
    asked = waiting_fetch(served, 2 * len(batch))
    served.turn.begin()
    served.produce(batch)
    served.turn.end()
    assert asked.waits
    served.turn.begin()
    served.produce(batch)
    served.turn.end()
    assert [part.size for part in parts_of(asked)] == [2 * len(batch)]
    assert served.purgatories.fetch.size == 0


async def test_time_that_is_over_brings_what_there_is(served: Served) -> None:
    await served.decide()
    asked = waiting_fetch(served, wait_ms=2)
    await eventually(lambda: not asked.waits)
    assert [part.size for part in parts_of(asked)] == [0]


async def test_reader_that_waits_hears_of_a_new_leader_at_once(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    asked = waiting_fetch(served)
    served.turn.begin()
    await served.decide(leader=THERE, epoch=1, replicas=(HERE, THERE))
    served.turn.end()
    (part,) = parts_of(asked)
    assert error_of(part) is NotLeaderOrFollower


async def test_peer_that_does_not_read_is_read_for_only_when_it_does(served: Served) -> None:
    await served.decide()
    peer = Peer()
    peer.stalled = True
    asked = waiting_fetch(served, peer=peer)
    served.turn.begin()
    served.produce(batch_of())
    served.turn.end()
    assert asked.waits, "its answer would only take memory"
    peer.stalled = False
    served.turn.begin()
    assert asked._later is not None
    asked._later.try_again()
    served.turn.end()
    assert parts_of(asked)[0].size > 0


async def test_follower_in_its_place_is_not_kept_waiting_by_consumers(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    consumer = waiting_fetch(served)
    replica = FetchRequest(LONG_MS, 1, MUCH, [FetchPart("t", 0, 0, MUCH, 0)], THERE, 7)
    follower = served.ask(replica, peer=Peer(BrokerPrincipal(THERE)))
    assert follower.waits
    served.turn.begin()
    served.produce(batch_of())
    served.turn.end()
    assert parts_of(follower)[0].size > 0
    assert consumer.waits
    served.turn.begin()
    served.partition().fetched_by(THERE, 7, FetchPart("t", 0, 1, MUCH, 0), time.monotonic())
    served.turn.end()
    assert parts_of(consumer)[0].size > 0
