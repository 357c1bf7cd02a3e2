"""The consumers, blocking and asyncio, against one live broker."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from ottla.client import AsyncAdmin, AsyncConsumer, Consumer, Producer, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.errors import (
    ClientClosed,
    ConfigError,
    RecordDeserializationError,
    UnknownTopicOrPartition,
)
from tests.support.client_topics import WAIT_S, MakeTopic, offsets, take, write
from tests.support.cluster import wait_until

pytestmark = pytest.mark.cluster

BRIEF_S = 0.3
"""How long a test waits for what must not come."""

# --- reading ---


def test_s82_one_consumer_reads_many_partitions_each_in_order(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=50, partitions=5)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        records = take(consumer, 250)
        assert consumer.assignment() == {TopicPartition(topic, partition) for partition in range(5)}
    for partition in range(5):
        assert [(r.offset, r.value) for r in records if r.partition == partition] == [(n, b"%d" % n) for n in range(50)]


def test_consumer_whose_fetches_do_not_wait_reads_on_at_the_end_of_the_log(
    bootstrap: str, make_filled_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_filled_topic(records=5)
    with (
        caplog.at_level("INFO", logger="ottla.client"),
        Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer,
    ):
        assert offsets(take(consumer, 5)) == [0, 1, 2, 3, 4]
        assert consumer.poll(timeout=BRIEF_S) == []
        write(bootstrap, topic, range(5, 6))
        assert offsets(take(consumer, 1)) == [5]
    assert "answered 0 parts" not in caplog.text


def test_s84_position_is_the_offset_of_the_record_that_is_read_next(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic(records=20)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert consumer.position(topic, 0, timeout=WAIT_S) == 0
        take(consumer, 7)
        assert consumer.position(topic, 0) == 7
        for record in consumer:
            assert consumer.position(topic, 0) == record.offset + 1
            if record.offset == 11:
                break
        assert offsets(take(consumer, 1)) == [12]
        with pytest.raises(ConfigError, match="is not assigned"):
            consumer.position(topic, 5)


def test_s86_consumer_rewinds_and_reads_again(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=30)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert offsets(take(consumer, 30)) == list(range(30))
        consumer.seek(topic, 0, 13)
        assert offsets(take(consumer, 17)) == list(range(13, 30))
        consumer.seek_to_beginning()
        assert offsets(take(consumer, 5)) == [0, 1, 2, 3, 4]
        consumer.seek_to_end()
        assert consumer.poll(timeout=BRIEF_S) == []
        write(bootstrap, topic, range(30, 31))
        assert offsets(take(consumer, 1)) == [30]


def test_s86_seek_amid_what_was_fetched_ahead_gives_nothing_of_before(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic(records=200)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        for target in (100, 3, 150, 0, 198, 42):
            take(consumer, 1)
            consumer.seek(topic, 0, target)
            assert consumer.poll(timeout=WAIT_S, max_records=1)[0].offset == target
        for record in consumer:  # a loop, too, goes on where it was told
            if record.offset == 60:
                consumer.seek(topic, 0, 190)
            elif record.offset >= 190:
                break
            assert record.offset <= 60


def test_s87_nothing_is_pushed_beyond_the_fetch_buffer(
    bootstrap: str, make_filled_topic: MakeTopic, cluster1: LocalCluster
) -> None:
    topic = make_filled_topic()
    value = b"x" * 10_000
    with Producer(bootstrap_servers=bootstrap, batch_size=20_000) as producer:
        producer.send_many(topic, [value] * 1000).result(timeout=WAIT_S)
    options: Any = {"fetch_buffer_bytes": 100_000, "auto_offset_reset": "earliest"}
    with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        first = consumer.poll(timeout=WAIT_S, max_records=1)
        inbox = consumer._inbox
        wait_until(lambda: inbox.room == 0)
        assert inbox._bytes_put - inbox._bytes_taken < 200_000
        put = inbox._bytes_put
        assert consumer.position(topic, 0) == 1
        assert inbox._bytes_put == put
        assert len(first + take(consumer, 999)) == 1000


def test_records_before_a_mid_batch_start_are_not_given(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=20)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.seek(topic, 0, 7)  # before it is assigned
        consumer.assign([(topic, 0)])
        assert offsets(take(consumer, 13)) == list(range(7, 20))
        consumer.seek(topic, 0, 15)
        batches = consumer.poll_batches(timeout=WAIT_S)
    assert [list(batch.offsets()) for batch in batches] == [[15, 16, 17, 18, 19]]
    assert batches[0].values() == [b"15", b"16", b"17", b"18", b"19"]
    assert batches[0].to_arrow().column("offset").to_pylist() == [15, 16, 17, 18, 19]


def test_polls_and_batches_can_be_mixed(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=40)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        seen = offsets(take(consumer, 3))
        while len(seen) < 40:
            seen += [offset for batch in consumer.poll_batches(timeout=WAIT_S) for offset in batch.offsets()]
            if len(seen) < 40:
                seen += offsets(list(islice(consumer, 2)))
    assert seen == list(range(40))


def test_iterating_ends_when_nothing_came_for_consumer_timeout(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=25)
    options: Any = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 1000}
    with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        assert offsets(list(consumer)) == list(range(25))


def test_poll_waits_for_records_and_gives_an_empty_list_when_none_come(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic()
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        begun = time.monotonic()
        assert consumer.poll(timeout=BRIEF_S) == []
        assert time.monotonic() - begun >= BRIEF_S
        assert consumer.poll() == []
        writing = threading.Thread(target=write, args=(bootstrap, topic, range(3)))
        writing.start()
        assert len(take(consumer, 3)) == 3
        writing.join()
        with pytest.raises(ConfigError, match="max_records"):
            consumer.poll(max_records=0)


def test_max_poll_records_bounds_a_poll(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=30)
    options: Any = {"auto_offset_reset": "earliest", "max_poll_records": 7}
    with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        assert len(consumer.poll(timeout=WAIT_S)) == 7
        assert len(consumer.poll(timeout=WAIT_S, max_records=2)) == 2


def test_pause_gives_nothing_of_a_partition_and_resume_loses_nothing(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic(records=20, partitions=2)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        take(consumer, 5)
        consumer.pause((topic, 0))
        before = consumer.position(topic, 0)
        rest = take(consumer, 20 - consumer.position(topic, 1))
        assert {record.partition for record in rest} <= {1}
        assert consumer.poll(timeout=BRIEF_S) == []
        consumer.resume((topic, 0))
        assert offsets(take(consumer, 20 - before)) == list(range(before, 20))


def test_deserializers_are_used_and_a_record_they_refuse_can_be_skipped(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic(records=5)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"5", b"bad", b"7"]).result(timeout=WAIT_S)
    options: Any = {"auto_offset_reset": "earliest", "value_deserializer": int}
    with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        assert [record.value for record in take(consumer, 6)] == [0, 1, 2, 3, 4, 5]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match="bad") as caught:
                consumer.poll(timeout=WAIT_S)
        refused = caught.value
        assert (refused.topic, refused.partition, refused.offset) == (topic, 0, 6)
        consumer.seek(TopicPartition(topic, 0), refused.next_offset)
        assert [record.value for record in take(consumer, 1)] == [7]


# --- the end ---


def test_close_ends_a_loop_and_a_poll_of_another_thread(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=3)
    ended: list[object] = []
    for read in (list, lambda consumer: consumer.poll(timeout=60), lambda consumer: consumer.poll(timeout=60)):
        consumer = Consumer(topic, bootstrap_servers=bootstrap)
        assert consumer.position(topic, 0, timeout=WAIT_S) == 3

        def run(consumer: Consumer = consumer, read: Callable[[Consumer], object] = read) -> None:
            try:
                ended.append(read(consumer))
            except ClientClosed as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        consumer.close()
        consumer.close()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        with pytest.raises(ClientClosed):
            consumer.poll()
    assert ended[0] == []
    assert all(isinstance(each, ClientClosed) for each in ended[1:])


def test_consumer_that_is_closed_at_once_closes_at_once(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=3)
    begun = time.monotonic()
    for _ in range(30):
        with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.end_offsets([(topic, 0)])
            consumer.assign([(topic, 0)])
    assert time.monotonic() - begun < WAIT_S


# --- asyncio ---


async def test_async_consumer_reads_seeks_and_iterates(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = await asyncio.to_thread(make_filled_topic, 30)
    options: Any = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 1000}
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        assert offsets(await consumer.poll(timeout=WAIT_S, max_records=3)) == [0, 1, 2]
        async for record in consumer:
            if record.offset == 14:
                break
        assert await consumer.position(topic, 0) == 15
        assert [record.offset async for record in consumer] == list(range(15, 30))
        await consumer.seek(topic, 0, 25)
        [batch] = await consumer.poll_batches(timeout=WAIT_S)
        assert list(batch.offsets()) == [25, 26, 27, 28, 29]
        await consumer.pause((topic, 0))
        await consumer.seek_to_beginning()
        assert await consumer.poll(timeout=BRIEF_S) == []
        await consumer.resume((topic, 0))
        assert (await consumer.poll(timeout=WAIT_S))[0].offset == 0
    with pytest.raises(ClientClosed):
        await consumer.poll()


async def test_async_poll_that_is_cancelled_loses_no_records(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = await asyncio.to_thread(make_filled_topic)
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert await consumer.position(topic, 0, timeout=WAIT_S) == 0
        for round_ in range(5):
            polling = asyncio.ensure_future(consumer.poll(timeout=WAIT_S))
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            await asyncio.to_thread(write, bootstrap, topic, range(round_, round_ + 1))
            assert offsets(await consumer.poll(timeout=WAIT_S)) == [round_]


async def test_async_admin_creates_describes_and_deletes(bootstrap: str) -> None:
    topic = f"admin-{uuid.uuid4().hex[:8]}"
    async with AsyncAdmin.from_config({"bootstrap.servers": bootstrap}) as admin:
        topic_id = await admin.create_topic(topic, partitions=2, config={"retention.ms": "60000"})
        described = await admin.describe_topic(topic)
        assert (described.topic_id, len(described.partitions)) == (topic_id, 2)
        assert described.config == {"retention.ms": "60000"}
        assert topic in await admin.list_topics()
        assert await admin.latest_offsets(topic) == {(topic, 0): 0, (topic, 1): 0}
        await admin.delete_topic(topic)
        assert topic not in await admin.list_topics()
        with pytest.raises(UnknownTopicOrPartition, match=topic):
            await admin.describe_topic(topic)
        with pytest.raises(UnknownTopicOrPartition, match=topic):
            await admin.delete_topic(topic)
