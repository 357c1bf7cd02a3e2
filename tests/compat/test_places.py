"""Where Kafka's clients begin to read: seeks, times, ends, and what the admin of records changes."""

import asyncio
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import WAIT_S, Confluent, Sent

NOW_MS = int(time.time() * 1000)
RECORDS = [Sent(str(i).encode(), timestamp_ms=NOW_MS + 10 * i) for i in range(100)]


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    """One partition with a hundred records, ten milliseconds from each other, in several batches."""
    made = make_topic()
    for start in range(0, 100, 20):
        Confluent().write(bootstrap, made, RECORDS[start : start + 20])
    return made


def test_confluent_seeks_and_finds_times(bootstrap: str, topic: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "places"})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for offset in (50, 7, 99, 20):
            consumer.seek(TopicPartition(topic, 0, offset))
            found = consumer.poll(WAIT_S)
            assert found is not None
            assert (found.offset(), found.value()) == (offset, str(offset).encode())
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (0, 100)
        times = [(NOW_MS, 0), (NOW_MS + 335, 34), (NOW_MS + 990, 99), (NOW_MS + 5000, OFFSET_END)]
        for timestamp, offset in times:
            (place,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], WAIT_S)
            assert place.offset == offset
    finally:
        consumer.close()


def test_confluent_lists_offsets_of_every_kind(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    kinds = [
        (OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 100), (OffsetSpec.max_timestamp(), 99),
        (OffsetSpec.for_timestamp(NOW_MS + 11), 2),
    ]  # fmt: skip
    for kind, offset in kinds:
        (found,) = admin.list_offsets({TopicPartition(topic, 0): kind}, request_timeout=WAIT_S).values()
        assert found.result(WAIT_S).offset == offset, kind


def test_aiokafka_seeks_and_finds_times(bootstrap: str, topic: str) -> None:
    async def look() -> None:
        place = AioPartition(topic, 0)
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([place])
            for offset in (50, 7, 99):
                consumer.seek(place, offset)
                assert (await consumer.getone()).value == str(offset).encode()
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 100}
            found = await consumer.offsets_for_times({place: NOW_MS + 335})
            assert (found[place].offset, found[place].timestamp) == (34, NOW_MS + 340)

    asyncio.run(asyncio.wait_for(look(), WAIT_S))


def test_kafka_python_seeks_and_finds_times(bootstrap: str, topic: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=int(WAIT_S * 1000))
    try:
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        for offset in (50, 7, 99):
            consumer.seek(place, offset)
            assert next(consumer).value == str(offset).encode()
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 100}
        assert consumer.offsets_for_times({place: NOW_MS + 335})[place].offset == 34
    finally:
        consumer.close()
