"""Where the records of a leader's epoch end, as readers are told."""

import pytest

from ottla.wire.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OttlaError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import EpochEndPart, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tests.component.api.served import HERE, THERE, Served, batch_of, error_of


@pytest.mark.parametrize(
    ("epoch", "told"),
    [(0, (0, 2)), (1, (0, 2)), (3, (3, 3)), (4, (3, 3)), (5, (5, 4)), (6, (-1, -1))],
)
async def test_an_epoch_ends_where_the_next_one_began(served: Served, epoch: int, told: tuple[int, int]) -> None:
    for leader_epoch, count in ((0, 2), (3, 1), (5, 1)):
        await served.decide(epoch=leader_epoch)
        for _ in range(count):
            served.produce(batch_of()).raise_if_failed()
    asked = OffsetForLeaderEpochRequest([EpochEndPart("t", 0, epoch)])
    (part,) = served.answer(asked, OffsetForLeaderEpochResponse).parts
    assert (part.leader_epoch, part.end_offset) == told


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (EpochEndPart("nowhere", 0, 1), UnknownTopicOrPartition),
        (EpochEndPart("t", 0, 1, current_leader_epoch=2), FencedLeaderEpoch),
        (EpochEndPart("t", 0, 1, current_leader_epoch=4), UnknownLeaderEpoch),
        (EpochEndPart("led-elsewhere", 0, 1), NotLeaderOrFollower),
    ],
    ids=repr,
)
async def test_only_the_leader_tells(served: Served, part: EpochEndPart, error: type[OttlaError]) -> None:
    await served.decide(epoch=3)
    await served.decide("led-elsewhere", leader=THERE, replicas=(HERE, THERE))
    (told,) = served.answer(OffsetForLeaderEpochRequest([part]), OffsetForLeaderEpochResponse).parts
    assert error_of(told) is error
