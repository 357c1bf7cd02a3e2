"""Acknowledgements of Produce requests whose batches are appended in slices: nobody hears of a change of leader in between."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from ottla.broker.api.acknowledgements import Awaited
from ottla.broker.api.long_produce import LongProduces
from ottla.net.reply import Reply
from ottla.wire.errors import NotLeaderOrFollower
from ottla.wire.messages import ACKS_ALL
from ottla.wire.requests import ProducePart, ProducePartResult, ProduceRequest, ProduceResponse
from tests.component.api.served import HERE, THERE, Served, batch_of
from tests.support.waiting import eventually

REPLICAS = (HERE, THERE)


@pytest.mark.parametrize("led_again_by", [HERE, THERE])
async def test_what_was_appended_in_another_leader_epoch_is_not_acknowledged(
    served: Served, monkeypatch: pytest.MonkeyPatch, led_again_by: int
) -> None:
    """The high watermark that passes its end may be that of other records, which the next leader has put in its place."""
    monkeypatch.setattr("ottla.broker.api.long_produce.LOOK_AGAIN_S", 0.2)
    await served.decide(replicas=REPLICAS)
    partition = served.partition()

    def append(part: ProducePart, records: memoryview, acks: int, awaited: list[Awaited]) -> ProducePartResult:
        appended = partition.append(records, int(time.time() * 1000), all_must_ack=True)
        result = ProducePartResult(0, "", part.topic, part.partition, appended.first_offset)
        awaited.append((result, partition, appended.last_offset + 1))
        return result

    batch = batch_of(b"1")
    request = ProduceRequest(ACKS_ALL, 5_000, [ProducePart("t", 0, len(batch))])
    handler = LongProduces(append, lambda results: None)
    answering = asyncio.create_task(handler.answer(request, [memoryview(batch)], SimpleNamespace(in_hand=None)))  # type: ignore[arg-type]
    await eventually(lambda: partition.log.log_end_offset == 1)
    await served.decide(leader=THERE, epoch=1, replicas=REPLICAS)
    await served.decide(leader=led_again_by, epoch=2, replicas=REPLICAS)
    partition.high_watermark = 1
    reply = await answering
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, ProduceResponse)
    assert [part.error_code for part in reply.message.parts] == [NotLeaderOrFollower.code]
