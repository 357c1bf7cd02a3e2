"""What sending gives back: waiting for it, being told, and what went wrong."""

import asyncio
import logging
import threading
import traceback

import pytest

from ottla.client.loop_thread import shared_loop_thread
from ottla.client.producing.batches import ProducerBatch
from ottla.client.producing.delivery import AsyncManyDelivery, AsyncRecordDelivery, ManyDelivery, RecordDelivery
from ottla.wire.errors import ClientTimeout, MessageTooLarge
from ottla.wire.names import TopicPartition
from tests.support.machine import scaled


def batch(*values, partition=0):
    made = ProducerBatch(TopicPartition("t", partition), 0.0, 10.0)
    made.values, made.timestamps = list(values), 5
    return made


def test_result_waits_for_another_thread():
    sent = batch(b"a", b"b")
    delivery = RecordDelivery(sent, 1)
    assert not delivery.done()
    finishing = threading.Timer(0.01, lambda: sent.finish(10, -1))
    finishing.start()
    assert delivery.result(timeout=scaled(20)).offset == 11
    assert delivery.exception() is None
    finishing.join()


def test_result_that_does_not_come_in_time_names_its_partition():
    delivery = RecordDelivery(batch(b"a"), 0)
    with pytest.raises(ClientTimeout, match=r"t-0 within 0\.01 s"):
        delivery.result(timeout=0.01)
    with pytest.raises(ClientTimeout):
        delivery.exception(timeout=0.01)


def test_who_waits_no_longer_is_forgotten():
    sent = batch(b"a")
    delivery = RecordDelivery(sent, 0)
    for _ in range(3):
        with pytest.raises(ClientTimeout):
            delivery.result(timeout=0)
    assert sent._waiters == []


async def test_who_awaits_no_longer_is_forgotten():
    sent = batch(b"a")
    delivery = AsyncRecordDelivery(sent, 0)
    for _ in range(3):
        with pytest.raises(ClientTimeout):
            await delivery.result(timeout=0.001)
    assert sent._waiters == []


def test_exception_is_given_back_and_raised_by_result():
    sent = batch(b"a")
    sent.finish(error=MessageTooLarge("large"))
    delivery = RecordDelivery(sent, 0)
    assert isinstance(delivery.exception(), MessageTooLarge)
    with pytest.raises(MessageTooLarge):
        delivery.result()


def test_many_records_know_where_each_went_in_the_order_given():
    even, odd = batch(b"0", b"2", b"4"), batch(b"1", b"3", partition=1)
    delivery = ManyDelivery(5, [(range(0, 5, 2), even), ([1, 3], odd)])
    even.finish(100, -1)
    assert not delivery.done()
    odd.finish(200, -1)
    where = delivery.result()
    assert [(each.partition, each.offset) for each in where] == [(0, 100), (1, 200), (0, 101), (1, 201), (0, 102)]
    assert where[-1].offset == 102
    assert [each.offset for each in where[1:3]] == [200, 101]
    assert len(where) == 5
    with pytest.raises(IndexError):
        where[5]


def test_many_records_of_which_one_batch_failed_raise_its_error():
    good, bad = batch(b"0"), batch(b"1")
    good.finish(0, -1)
    bad.finish(error=MessageTooLarge("large"))
    with pytest.raises(MessageTooLarge):
        ManyDelivery(2, [([0], good), ([1], bad)]).result()


def test_nothing_sent_is_delivered_at_once():
    told: list[object] = []
    delivery = ManyDelivery(0, [])
    delivery.add_callback(told.append)
    assert told == [delivery]
    assert list(delivery.result()) == []


def test_callback_is_called_once_when_all_batches_are_done():
    first, second = batch(b"0"), batch(b"1")
    first.finish(0, -1)
    told: list[object] = []
    delivery = ManyDelivery(2, [([0], first), ([1], second)])
    delivery.add_callback(told.append)
    assert told == []
    second.finish(0, -1)
    assert told == [delivery]


def test_callback_that_raises_is_logged_and_disturbs_nobody(caplog):
    sent = batch(b"a")
    told: list[object] = []
    RecordDelivery(sent, 0).add_callback(lambda _: 1 / 0)
    RecordDelivery(sent, 0).add_callback(told.append)
    with caplog.at_level(logging.ERROR):
        sent.finish(0, -1)
    assert len(told) == 1
    assert "a delivery callback failed" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_callback_that_tries_to_end_the_clients_thread_is_logged_and_ends_nothing(error, caplog):
    sent = batch(b"a")
    told: list[object] = []

    def end(_):
        raise error

    thread = shared_loop_thread()
    RecordDelivery(sent, 0).add_callback(end)
    RecordDelivery(sent, 0).add_callback(told.append)
    with caplog.at_level(logging.ERROR):
        thread.call(lambda: sent.finish(0, -1))
    assert len(told) == 1
    assert "tried to end the client's own thread" in caplog.text
    assert thread.call(lambda: "alive") == "alive"


def test_client_thread_goes_on_after_whatever_is_raised_on_it(caplog):
    thread = shared_loop_thread()

    def end():
        raise SystemExit

    with caplog.at_level(logging.ERROR):
        thread.loop.call_soon_threadsafe(end)
        assert thread.call(lambda: "alive") == "alive"


def test_callback_of_a_batch_that_is_done_raises_to_whoever_added_it():
    sent = batch(b"a")
    sent.finish(0, -1)

    def end(_):
        raise SystemExit

    with pytest.raises(SystemExit):
        RecordDelivery(sent, 0).add_callback(end)


def test_callback_that_ends_the_event_loop_of_an_async_producer_ends_it_after_all_are_told():
    told: list[object] = []

    def end(_):
        raise SystemExit(3)

    async def main():
        sent = batch(b"a")
        AsyncRecordDelivery(sent, 0).add_callback(end)
        AsyncRecordDelivery(sent, 0).add_callback(told.append)
        sent.finish(0, -1)
        told.append("went on")
        await asyncio.sleep(60)

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert len(told) == 2


def test_error_of_a_batch_is_raised_anew_for_each_of_its_records():
    sent = batch(b"a", b"b")
    cause = OSError("why")
    sent.finish(error=MessageTooLarge("large", topic="t", partition=3, hint="smaller"))
    assert sent.error is not None
    sent.error.__cause__ = cause
    many = ManyDelivery(2, [([0, 1], sent)])
    raised = [each.exception() for each in (RecordDelivery(sent, 0), RecordDelivery(sent, 1), many, many)]
    assert len({id(error) for error in raised}) == 4
    for error in raised:
        assert type(error) is MessageTooLarge
        assert (str(error), error.topic, error.partition, error.hint) == ("large", "t", 3, "smaller")
        assert error.__cause__ is cause
    depths = [len(traceback.extract_tb(error.__traceback__)) for error in raised if error is not None]
    assert max(depths) <= 5, "an exception holds the places of its own raising and no others"
    assert sent.error.__traceback__ is None


async def test_awaited_delivery_survives_that_one_of_its_waiters_is_cancelled():
    sent = batch(b"a")
    delivery = AsyncRecordDelivery(sent, 0)
    first, second = (
        asyncio.ensure_future(delivery.result(scaled(20))),
        asyncio.ensure_future(delivery.result(scaled(20))),
    )
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    sent.finish(3, -1)
    assert (await second).offset == 3
    assert first.cancelled()


async def test_awaited_result_that_does_not_come_in_time_names_its_partition():
    delivery = AsyncManyDelivery(1, [([0], batch(b"a", partition=4))])
    with pytest.raises(ClientTimeout, match=r"t-4 within 0\.01 s"):
        await delivery.result(timeout=0.01)
