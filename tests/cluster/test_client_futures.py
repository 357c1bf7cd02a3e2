"""What send gives works where futures are expected."""

import asyncio
import concurrent.futures
import threading

import pytest

from ottla.client import AsyncProducer, Producer
from ottla.client.errors import MessageTooLarge
from tests.support.client_topics import WAIT_S, MakeTopic

pytestmark = pytest.mark.cluster

TOO_LARGE = b"x" * 5000


def test_futures_of_a_producer_can_be_waited_for(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = [producer.send(topic, value).future() for value in (b"0", TOO_LARGE, b"1")]
        done, missing = concurrent.futures.wait(sent, timeout=WAIT_S)
        assert (len(done), len(missing)) == (3, 0)
        assert [future.result().offset for future in (sent[0], sent[2])] == [0, 1]
        assert isinstance(sent[1].exception(), MessageTooLarge)
        assert not sent[0].cancel()
        many = producer.send_many(topic, [b"2", b"3"]).future()
        assert [each.offset for each in many.result(WAIT_S)] == [2, 3]
        assert next(concurrent.futures.as_completed([many])) is many


def test_done_callback_is_called_with_the_delivery(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, called = make_topic(), threading.Event()
    seen: list[object] = []

    def told(delivery: object) -> None:
        seen.append(delivery)
        called.set()

    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send(topic, b"v")
        sent.add_done_callback(told)
        assert called.wait(WAIT_S)
    assert seen == [sent]


async def test_delivery_of_a_blocking_producer_can_be_awaited(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = await asyncio.to_thread(make_topic, 1, max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap) as producer:
        assert (await producer.send(topic, b"v")).offset == 0
        with pytest.raises(MessageTooLarge):
            await producer.send(topic, TOO_LARGE)


async def test_deliveries_of_an_asyncio_producer_work_with_asyncio(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = await asyncio.to_thread(make_topic, 1, max_message_bytes="2000")
    async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
        sent = [await producer.send(topic, b"%d" % n) for n in range(3)]
        assert [where.offset for where in await asyncio.gather(*sent)] == [0, 1, 2]
        futures = [(await producer.send(topic, b"v")).future(), (await producer.send(topic, TOO_LARGE)).future()]
        done, pending = await asyncio.wait(futures, timeout=WAIT_S)
        assert (len(done), len(pending)) == (2, 0)
        assert isinstance(futures[1].exception(), MessageTooLarge)
        assert (await asyncio.wait_for(await producer.send(topic, b"v"), WAIT_S)).offset == 4
        async with asyncio.TaskGroup():
            await (await producer.send(topic, b"v")).future()
