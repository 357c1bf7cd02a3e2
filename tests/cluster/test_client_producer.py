"""The producers, blocking and asyncio, against one live broker."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest

from ottla.client import AsyncConsumer, AsyncProducer, Consumer, Producer
from ottla.client.producing.delivery import RecordDelivery
from ottla.local import LocalCluster
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    UnknownTopicOrPartition,
)
from tests.support.client_topics import WAIT_S, MakeTopic, read
from tests.support.cluster import wait_until

pytestmark = pytest.mark.cluster

# --- where records go ----------------------------------------------------------------------------------------------------


def test_s71_records_are_appended_and_told_where(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        told = [producer.send(topic, b"%d" % n).result(timeout=WAIT_S) for n in range(5)]
    assert [(each.topic, each.partition, each.offset) for each in told] == [(topic, 0, n) for n in range(5)]
    assert [record.value for record in read(bootstrap, topic, 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_s72_n_records_of_one_key_land_in_one_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=5)
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = [producer.send(topic, b"%d" % n, key=b"abc") for n in range(100)]
        many = producer.send_many(topic, [b"m"] * 50, keys=[b"abc"] * 50)
        partitions = {each.result(timeout=WAIT_S).partition for each in sent}
        assert partitions == {each.partition for each in many.result(timeout=WAIT_S)}
    assert len(partitions) == 1
    values = [record.value for record in read(bootstrap, topic, 150)]
    assert values == [b"%d" % n for n in range(100)] + [b"m"] * 50


def test_s73_topic_and_value_are_enough(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"only").result(timeout=WAIT_S)
    [record] = read(bootstrap, topic, 1)
    assert (record.key, record.value, record.headers, record.partition) == (None, b"only", (), 0)
    assert abs(record.timestamp - time.time() * 1000) < 60_000


def test_names_keys_values_and_headers_of_numpy_are_sent_as_what_they_are_made_of(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    numpy = pytest.importorskip("numpy")
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        headers = [(numpy.str_("h"), numpy.bytes_(b"1"))]
        sent = producer.send(numpy.str_(topic), numpy.bytes_(b"v"), key=numpy.bytes_(b"k"), headers=headers)
        assert sent.result(timeout=WAIT_S).offset == 0
    [record] = read(bootstrap, topic, 1)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"),))


def test_s74_records_without_a_key_go_round_over_the_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = [producer.send(topic, b"v") for _ in range(100)]
        hits = Counter(each.result(timeout=WAIT_S).partition for each in sent)
    assert hits == {0: 25, 1: 25, 2: 25, 3: 25}


def test_s75_timestamp_is_the_producers_or_the_brokers(bootstrap: str, make_topic: MakeTopic) -> None:
    created, appended = make_topic(), make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    with Producer(bootstrap_servers=bootstrap) as producer:
        assert producer.send(created, b"v", timestamp_ms=12345).result(timeout=WAIT_S).timestamp == 12345
        told = producer.send(appended, b"v", timestamp_ms=12345).result(timeout=WAIT_S).timestamp
    [by_producer], [by_broker] = read(bootstrap, created, 1), read(bootstrap, appended, 1)
    assert (by_producer.timestamp_type, by_producer.timestamp) == (0, 12345)
    assert (by_broker.timestamp_type, by_broker.timestamp) == (1, told)
    assert before - 1000 <= told <= time.time() * 1000 + 1000


def test_s76_s78_named_partition_wins_over_the_key(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(3):
            where = producer.send(topic, b"v", key=b"same", partition=partition).result(timeout=WAIT_S)
            assert where.partition == partition
        with pytest.raises(UnknownTopicOrPartition, match="partition 3 of a topic that has 3"):
            producer.send(topic, b"v", partition=3)


def test_s77_serializers_make_bytes_and_their_errors_reach_the_sender(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    options: Any = {"key_serializer": str.encode, "value_serializer": lambda number: b"%d" % number}
    with Producer(bootstrap_servers=bootstrap, **options) as producer:
        producer.send(topic, 5, key="k").result(timeout=WAIT_S)
        with pytest.raises(TypeError):
            producer.send(topic, "five", key="k")
        producer.send_many(topic, [6, 7], keys=["a", "b"]).result(timeout=WAIT_S)
    records = read(bootstrap, topic, 3)
    assert [(record.key, record.value) for record in records] == [(b"k", b"5"), (b"a", b"6"), (b"b", b"7")]
    with Producer(bootstrap_servers=bootstrap) as producer, pytest.raises(TypeError, match="value_serializer"):
        producer.send(topic, "text")


def test_headers_and_tombstones_arrive_as_they_were_sent(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ümlaut", b"\xff")]
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"with", key=b"k", headers=headers)
        producer.send(topic, None, key=b"k")
        producer.send(topic, b"")
        with pytest.raises(TypeError, match="header"):
            producer.send(topic, b"v", headers=[("a", "text")])  # type: ignore[list-item]
    first, tombstone, empty = read(bootstrap, topic, 3)
    assert list(first.headers) == headers
    assert (tombstone.key, tombstone.value, tombstone.headers) == (b"k", None, ())
    assert empty.value == b""


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_arrive_whole(bootstrap: str, make_topic: MakeTopic, codec: Any) -> None:
    topic = make_topic()
    values = [b"value %d " % n * 20 for n in range(500)]
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        producer.send_many(topic, values, keys=[b"k"] * 500).result(timeout=WAIT_S)
        producer.send(topic, b"one").result(timeout=WAIT_S)
    assert [record.value for record in read(bootstrap, topic, 501)] == [*values, b"one"]


# --- several at once ---------------------------------------------------------------------------------------------------------


def test_threads_share_a_producer_and_each_keeps_its_order(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    with Producer(bootstrap_servers=bootstrap, buffer_memory=200_000) as producer:

        def send(name: int) -> None:
            for n in range(2000):
                producer.send(topic, b"%d:%d" % (name, n), key=b"%d" % name)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = [record.value.split(b":") for record in read(bootstrap, topic, 8000)]
    for name in range(4):
        assert [int(n) for who, n in values if int(who) == name] == list(range(2000))


def test_close_while_threads_send_leaves_no_record_without_a_fate(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer(bootstrap_servers=bootstrap)
    producer.send(topic, b"first").result(timeout=WAIT_S)
    sent = []
    refused = []

    def send() -> None:
        try:
            while True:
                sent.append(producer.send(topic, b"v"))
        except ClientClosed as error:
            refused.append(error)

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(sent) > 1000)
    producer.close()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(refused) == 3
    delivered = sum(1 for each in sent if each.exception(timeout=WAIT_S) is None)
    assert len(read(bootstrap, topic, delivered + 1)) == delivered + 1


def test_callbacks_are_told_and_may_send_but_not_block(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    outcomes: list[object] = []
    with Producer(bootstrap_servers=bootstrap) as producer, Consumer(topic, bootstrap_servers=bootstrap) as consumer:

        def told(delivery: RecordDelivery) -> None:
            outcomes.append(delivery.result().offset)
            for attempt in (
                lambda: producer.send(topic, b"from the callback").result(timeout=WAIT_S),
                lambda: producer.flush(),
                lambda: consumer.poll(timeout=WAIT_S),
                lambda: consumer.position(topic, 0),
            ):
                try:
                    outcomes.append(attempt())
                except RuntimeError as error:
                    outcomes.append(str(error))

        producer.send(topic, b"v").add_callback(told)
        wait_until(lambda: len(outcomes) == 5)
    assert outcomes[0] == 0
    assert all("in a callback of its own thread" in str(outcome) for outcome in outcomes[1:])
    assert len(read(bootstrap, topic, 2)) == 2


# --- asyncio ---


async def test_async_producer_sends_awaits_and_flushes(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = await asyncio.to_thread(make_topic, 2)
    async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
        where = await producer.send_and_wait(topic, b"a", partition=1)
        assert (where.partition, where.offset) == (1, 0)
        sent = await producer.send(topic, b"b", partition=1)
        assert (await sent.result(timeout=WAIT_S)).offset == 1
        many = await producer.send_many(topic, [b"%d" % n for n in range(100)], partition=0)
        await producer.flush(timeout=WAIT_S)
        assert many.done()
        assert [each.offset for each in await many] == list(range(100))
    with pytest.raises(ClientClosed):
        await producer.send(topic, b"c")


async def test_cancelled_waiter_loses_nothing(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = await asyncio.to_thread(make_topic)
    async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        sent = await producer.send(topic, b"v")
        waiter = asyncio.ensure_future(sent.result())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        with pytest.raises(ClientTimeout, match=f"{topic}-0"):
            await sent.result(timeout=0.001)
        assert (await sent).offset == 0
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        polling = asyncio.ensure_future(consumer.poll(timeout=WAIT_S))
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        assert [record.value for record in await consumer.poll(timeout=WAIT_S)] == [b"v"]


# --- closed by several ---------------------------------------------------------------------------------------------------


def test_close_in_a_second_thread_returns_when_all_is_delivered(cluster1: LocalCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer(bootstrap_servers=cluster1.bootstrap)
    producer.send(topic, b"first").result(timeout=WAIT_S)
    cluster1.pause(0)
    try:
        sent = producer.send(topic, b"second")
        delivered_at_close: list[bool] = []

        def close() -> None:
            producer.close()
            delivered_at_close.append(sent.done())

        closing = [threading.Thread(target=close) for _ in range(2)]
        for thread in closing:
            thread.start()
        with pytest.raises(ClientTimeout):
            producer.close(timeout=0.3)
        assert delivered_at_close == []
    finally:
        cluster1.resume(0)
    for thread in closing:
        thread.join(WAIT_S)
    assert delivered_at_close == [True, True]
    assert sent.result(timeout=0).offset == 1
    producer.close()


async def test_close_in_a_second_task_returns_when_all_is_delivered(bootstrap: str, make_topic: MakeTopic) -> None:
    producer = AsyncProducer(bootstrap_servers=bootstrap, linger_ms=60_000)
    sent = await producer.send(await asyncio.to_thread(make_topic), b"v")
    closing = asyncio.ensure_future(producer.close())
    await asyncio.sleep(0)
    await producer.close()
    assert sent.done()
    await closing
