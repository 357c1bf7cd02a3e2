"""Records written by each of Kafka's clients, in every codec, are read by all of them and by ours as they were sent."""

import time
from typing import Any

import pytest

from ottla.client import Consumer, Producer
from ottla.wire.batch import MAGIC_COLUMNS, MAGIC_KAFKA
from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import CLIENTS, Sent
from tests.support.machine import scaled

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW_MS = int(time.time() * 1000)
RECORDS = [
    Sent(b"plain", None, [], NOW_MS),
    Sent(b"with a key", b"key", [], NOW_MS + 1),
    Sent(b"with headers", b"key", [("one", b"1"), ("two", b""), ("one", b"\xff\x00")], NOW_MS + 2),
    Sent(None, b"a tombstone", [], NOW_MS + 3),
    Sent(b"", b"", [], NOW_MS + 4),
    Sent(b"long " * 1000, b"key", [], NOW_MS + 5),
    *[
        Sent(f"value {i}".encode(), f"key {i % 7}".encode(), [("n", str(i).encode())], NOW_MS + 6 + i)
        for i in range(200)
    ],
]


def _by_ours(bootstrap: str, topic: str, count: int) -> list[Sent]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found: list[Sent] = []
        while len(found) < count:
            records = consumer.poll(timeout=scaled(10))
            assert records, f"{len(found)} of {count} records came"
            found += [Sent(one.value, one.key, list(one.headers), one.timestamp) for one in records]
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_what_a_client_writes_all_clients_read(bootstrap: str, make_topic: MakeTopic, writer: Any, codec: str) -> None:
    topic = make_topic()
    writer.write(bootstrap, topic, RECORDS, codec=codec)
    assert _by_ours(bootstrap, topic, len(RECORDS)) == RECORDS
    for reader in CLIENTS:
        assert reader.read(bootstrap, topic, len(RECORDS)) == RECORDS, reader.name


@pytest.mark.parametrize("codec", CODECS)
def test_what_our_client_writes_in_columns_all_clients_read(bootstrap: str, make_topic: MakeTopic, codec: Any) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5) as producer:
        for one in RECORDS:
            producer.send(
                topic, one.value, key=one.key, headers=list(one.headers), timestamp_ms=one.timestamp_ms, partition=0
            )
        producer.flush()
    for reader in CLIENTS:
        assert reader.read(bootstrap, topic, len(RECORDS)) == RECORDS, reader.name


@pytest.mark.parametrize(("record_format", "magic"), [("kafka", MAGIC_KAFKA), ("columnar", MAGIC_COLUMNS)])
def test_a_topic_says_in_which_format_our_client_writes(
    bootstrap: str, make_topic: MakeTopic, record_format: str, magic: int
) -> None:
    topic = make_topic(record_format=record_format)
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4", linger_ms=5) as producer:
        for one in RECORDS:
            producer.send(
                topic, one.value, key=one.key, headers=list(one.headers), timestamp_ms=one.timestamp_ms, partition=0
            )
        producer.flush()
    assert _by_ours(bootstrap, topic, len(RECORDS)) == RECORDS
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found = consumer.poll_batches(timeout=scaled(10))
    assert {batch._batch.header.magic for batch in found} == {magic}
    for reader in CLIENTS:
        assert reader.read(bootstrap, topic, len(RECORDS)) == RECORDS, reader.name


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_every_kind_of_acknowledgement(bootstrap: str, make_topic: MakeTopic, writer: Any, acks: str) -> None:
    topic = make_topic()
    writer.write(bootstrap, topic, RECORDS, acks=acks)
    assert _by_ours(bootstrap, topic, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_idempotent_producers(bootstrap: str, make_topic: MakeTopic, writer: Any) -> None:
    topic = make_topic()
    for _ in range(2):
        writer.write(bootstrap, topic, RECORDS, idempotent=True)
    assert _by_ours(bootstrap, topic, 2 * len(RECORDS)) == RECORDS * 2


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_records_of_a_megabyte(bootstrap: str, make_topic: MakeTopic, writer: Any) -> None:
    topic = make_topic(max_message_bytes="4000000")
    large = [Sent(bytes([i]) * 1_048_576, b"large", [], NOW_MS) for i in range(3)]
    writer.write(bootstrap, topic, large)
    for reader in CLIENTS:
        assert reader.read(bootstrap, topic, len(large)) == large, reader.name
