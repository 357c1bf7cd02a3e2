"""Kafka's own clients behind one face, as far as all of them can do the same: write records, read a topic from the first on."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import aiokafka
import confluent_kafka
import kafka
from aiokafka.structs import TopicPartition as AioPartition

from tests.support.machine import scaled

WAIT_S = scaled(30.0)
READ_MAX = 8 * 1024 * 1024


class Sent(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


class Confluent:
    """confluent-kafka: librdkafka."""

    name = "confluent"

    def write(
        self, bootstrap: str, topic: str, records: Iterable[Sent], *, codec: str = "none", acks: str = "all",
        idempotent: bool = False, partition: int = 0,
    ) -> None:  # fmt: skip
        options = {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": acks, "linger.ms": 5}
        options |= {"message.max.bytes": READ_MAX, "enable.idempotence": idempotent}
        producer, failed = confluent_kafka.Producer(options), []
        for one in records:
            more = {} if one.timestamp_ms is None else {"timestamp": one.timestamp_ms}
            cast(Any, producer).produce(
                topic, one.value, one.key, partition, headers=list(one.headers), **more,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )  # fmt: skip
        assert producer.flush(WAIT_S) == 0
        if failed:
            raise confluent_kafka.KafkaException(failed[0])

    def read(self, bootstrap: str, topic: str, count: int, partition: int = 0) -> list[Sent]:
        options = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
        options |= {"fetch.message.max.bytes": READ_MAX}
        consumer = confluent_kafka.Consumer(options)
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        found: list[Sent] = []
        try:
            while len(found) < count:
                got = consumer.consume(count - len(found), timeout=WAIT_S)
                assert got, f"{len(found)} of {count} records came"
                for one in got:
                    assert one.error() is None, one.error()
                    headers = [(name, value) for name, value in cast(Any, one.headers() or [])]
                    found.append(Sent(one.value(), one.key(), headers, one.timestamp()[1]))
        finally:
            consumer.close()
        return found


class AioKafka:
    """aiokafka: asyncio."""

    name = "aiokafka"

    def write(
        self, bootstrap: str, topic: str, records: Iterable[Sent], *, codec: str = "none", acks: str = "all",
        idempotent: bool = False, partition: int = 0,
    ) -> None:  # fmt: skip
        async def write_all() -> None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec,
                acks="all" if acks == "all" else int(acks), enable_idempotence=idempotent, max_request_size=READ_MAX,
            )  # fmt: skip
            async with producer:
                sent = [
                    await producer.send(
                        topic, one.value, one.key, partition, timestamp_ms=one.timestamp_ms, headers=list(one.headers)
                    )
                    for one in records
                ]
                await asyncio.gather(*sent)

        asyncio.run(asyncio.wait_for(write_all(), WAIT_S))

    def read(self, bootstrap: str, topic: str, count: int, partition: int = 0) -> list[Sent]:
        async def read_all() -> list[Sent]:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=READ_MAX)
            async with consumer:
                place = AioPartition(topic, partition)
                consumer.assign([place])
                await consumer.seek_to_beginning(place)
                found: list[Sent] = []
                while len(found) < count:
                    one = await consumer.getone()
                    found.append(Sent(one.value, one.key, list(one.headers), one.timestamp))
                return found

        return asyncio.run(asyncio.wait_for(read_all(), WAIT_S))


class KafkaPython:
    """kafka-python 3: threads."""

    name = "kafka-python"

    def write(
        self, bootstrap: str, topic: str, records: Iterable[Sent], *, codec: str = "none", acks: str = "all",
        idempotent: bool = False, partition: int = 0,
    ) -> None:  # fmt: skip
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks), enable_idempotence=idempotent, max_request_size=READ_MAX,
        )  # fmt: skip
        try:
            sent = [
                producer.send(
                    topic,
                    one.value,
                    one.key,
                    headers=list(one.headers),
                    partition=partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in records
            ]
            for future in sent:
                future.get(WAIT_S)
        finally:
            producer.close(WAIT_S)

    def read(self, bootstrap: str, topic: str, count: int, partition: int = 0) -> list[Sent]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, consumer_timeout_ms=int(WAIT_S * 1000), max_partition_fetch_bytes=READ_MAX,
            enable_auto_commit=False,
        )  # fmt: skip
        try:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            found: list[Sent] = []
            while len(found) < count:
                one: Any = next(consumer)
                found.append(Sent(one.value, one.key, list(one.headers), one.timestamp))
            return found
        finally:
            consumer.close()


CLIENTS: list[Any] = [Confluent(), AioKafka(), KafkaPython()]
KCAT = shutil.which("kcat") or shutil.which("kafkacat")


def kcat(bootstrap: str, *arguments: str, given: bytes = b"") -> bytes:
    """What kcat prints."""
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", bootstrap, *arguments], input=given, capture_output=True, timeout=WAIT_S, check=True
    )
    return done.stdout
