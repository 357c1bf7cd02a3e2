"""Failures that nobody asks about are told, and no others."""

import asyncio
import gc
import logging

import pytest

from ottla.client.producing import undelivered
from ottla.client.producing.batches import ProducerBatch
from ottla.client.producing.delivery import ManyDelivery, RecordDelivery
from ottla.client.producing.undelivered import Untold
from ottla.wire.errors import MessageTooLarge, OttlaError
from ottla.wire.names import TopicPartition

WHERE = TopicPartition("orders", 0)


@pytest.fixture
async def untold(caplog: pytest.LogCaptureFixture) -> Untold:
    caplog.set_level(logging.WARNING)
    gc.collect()  # what other tests have left behind is told before,
    caplog.clear()  # and is none of ours
    return Untold(asyncio.get_running_loop())


def failed_batch(untold: Untold, records: int, error: OttlaError | None = None) -> ProducerBatch:
    batch = ProducerBatch(WHERE, 0.0, 1.0)
    batch.values = [b""] * records
    batch.timestamps = 0
    error = error or MessageTooLarge("too large")
    batch.failed = untold.failed(WHERE.topic, records, error)
    batch.finish(error=error)
    return batch


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in caplog.records]


async def test_failure_that_nobody_asked_about_is_told_when_nobody_can_ask_any_more(
    untold: Untold, caplog: pytest.LogCaptureFixture
) -> None:
    batch = failed_batch(untold, 3)
    sent = RecordDelivery(batch, 0)
    del batch
    assert told(caplog) == []
    del sent
    assert told(caplog) == ["records were not delivered count=3 topic=orders reason=MessageTooLarge: too large"]


async def test_records_that_were_asked_about_are_not_counted(untold: Untold, caplog: pytest.LogCaptureFixture) -> None:
    batch = failed_batch(untold, 3)
    with pytest.raises(MessageTooLarge):
        RecordDelivery(batch, 1).result()
    assert RecordDelivery(batch, 1).exception() is not None
    del batch
    assert told(caplog) == ["records were not delivered count=2 topic=orders reason=MessageTooLarge: too large"]


async def test_who_asked_for_all_of_them_or_has_a_callback_knows(
    untold: Untold, caplog: pytest.LogCaptureFixture
) -> None:
    batch = failed_batch(untold, 2)
    with pytest.raises(MessageTooLarge):
        ManyDelivery(2, [(range(2), batch)]).result()
    other = failed_batch(untold, 1)
    RecordDelivery(other, 0).add_callback(lambda delivery: None)
    del batch, other
    assert told(caplog) == []


async def test_halves_of_a_batch_are_told_once(untold: Untold, caplog: pytest.LogCaptureFixture) -> None:
    batch = ProducerBatch(WHERE, 0.0, 1.0)
    batch.values = [b""] * 4
    batch.timestamps = 0
    first, second = batch.split()
    error = MessageTooLarge("too large")
    second.failed = untold.failed(WHERE.topic, 2, error)
    first.finish(7)
    second.finish(error=error)
    assert batch.fate(1)[0] is None
    assert batch.fate(1)[1].offset == 8
    assert RecordDelivery(batch, 2).exception() is not None
    del batch, first, second
    assert told(caplog) == ["records were not delivered count=1 topic=orders reason=MessageTooLarge: too large"]


async def test_many_failures_are_one_line_with_their_count(
    untold: Untold, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undelivered, "QUIET_S", 0.05)
    for _ in range(100):
        failed_batch(untold, 10)
    assert len(told(caplog)) == 1
    told_again = asyncio.Event()

    def warning(*what: object) -> None:
        logging.warning(*what)
        told_again.set()

    monkeypatch.setattr(undelivered.logger, "warning", warning)
    await asyncio.wait_for(told_again.wait(), 10)
    assert [line.split(" topic")[0].split("count=")[1] for line in told(caplog)] == ["10", "990"]


async def test_what_is_held_when_the_process_ends_is_told_then(
    untold: Untold, caplog: pytest.LogCaptureFixture
) -> None:
    batch = failed_batch(untold, 1)
    untold.tell_all()
    assert len(told(caplog)) == 1
    del batch
    assert len(told(caplog)) == 1
