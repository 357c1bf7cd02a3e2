"""Idempotent producers, ours and librdkafka's, whose batches are refused: nothing is stored twice or lost silently."""

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from ottla.client import Producer
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError, OutOfOrderSequenceNumber, UnknownProducerId
from ottla.wire.records import encode_batch
from ottla.wire.requests import InitProducerIdRequest, InitProducerIdResponse
from tests.support.broker_requests import address, get
from tests.support.client_topics import WAIT_S, read
from tests.support.raw_client import RawClient

REMEMBERED = 100
"""About so many producers are remembered that have sent one batch."""


@pytest.fixture(scope="module")
def kafka_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, broker_config={"producer.state.max.bytes": str(REMEMBERED * 366)}) as running:
        yield running


@pytest.fixture
def topic(kafka_cluster: LocalCluster, client: RawClient, name: str) -> str:
    client.create_topic(name)
    client.wait_until_led(name)
    return name


@pytest.fixture
def client(kafka_cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(address(kafka_cluster, 0)) as opened:
        yield opened


def batch(producer: int, sequence: int, *values: bytes) -> bytearray:
    now_ms = int(time.time() * 1000)
    return encode_batch(values, timestamps=now_ms, producer_id=producer, producer_epoch=0, base_sequence=sequence)


def next_producer_id(client: RawClient) -> int:
    """The id that the next producer gets: the only broker gives them in order."""
    return client.ask(InitProducerIdRequest(), InitProducerIdResponse).producer_id + 1


def crowd_out(client: RawClient, topic: str) -> None:
    """As many short-lived producers as it takes to evict all others."""
    for number in range(3 * REMEMBERED):
        client.produce(topic, batch(10**9 + number, 0, b"crowd")).raise_if_failed()


def values_but_the_crowd(bootstrap: str, client: RawClient, topic: str) -> list[bytes]:
    records = read(bootstrap, topic, client.end_offset(topic))
    return [record.value for record in records if record.value != b"crowd"]


class Librdkafka:
    def __init__(self, bootstrap: str) -> None:
        # A long linger: what is sent together is one batch.
        options: Any = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 200}
        self._producer: Any = confluent_kafka.Producer(options)

    def send(self, topic: str, values: list[bytes]) -> list[str]:
        """What became of each: its error, or nothing."""
        errors: list[str] = []
        for value in values:
            self._producer.produce(
                topic, value, partition=0, on_delivery=lambda error, _: errors.append(str(error) if error else "")
            )
        try:
            assert self._producer.flush(WAIT_S) == 0
        except (SystemError, confluent_kafka.KafkaException) as error:  # fatal: this producer sends nothing more
            return [repr(error)] * len(values)
        return errors

    def close(self) -> None:
        """It has nothing left to send."""


class Ours:
    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap, linger_ms=200)

    def send(self, topic: str, values: list[bytes]) -> list[str]:
        errors = []
        for sent in [self._producer.send(topic, value, partition=0) for value in values]:
            try:
                sent.result(WAIT_S)
                errors.append("")
            except OttlaError as error:
                errors.append(type(error).__name__)
        return errors

    def close(self) -> None:
        self._producer.close()


@pytest.mark.parametrize("kind", [Ours, Librdkafka])
def test_producer_that_was_evicted_goes_on_and_stores_everything_once(
    kafka_cluster: LocalCluster, bootstrap: str, client: RawClient, topic: str, kind: Any
) -> None:
    """Before: after 10,000 others its batch was stored twice, or librdkafka died with OUT_OF_ORDER_SEQUENCE_NUMBER."""
    producer = kind(bootstrap)
    assert producer.send(topic, [b"1"]) == [""]
    crowd_out(client, topic)
    assert producer.send(topic, [b"2"]) == [""]
    assert producer.send(topic, [b"3"]) == [""]
    producer.close()
    assert values_but_the_crowd(bootstrap, client, topic) == [b"1", b"2", b"3"]
    metrics = get(f"{kafka_cluster.admin_url(0)}/metrics")
    counts = {line.split()[0]: float(line.split()[1]) for line in metrics.splitlines() if not line.startswith("#")}
    assert counts["ottla_producers_evicted_total"] > 0
    assert 0 < counts["ottla_producer_state_bytes"] <= REMEMBERED * 366


def test_evicted_producers_first_batch_is_refused_when_it_comes_again(
    bootstrap: str, client: RawClient, topic: str
) -> None:
    producer = next_producer_id(client)
    first = bytes(batch(producer, 0, b"1"))
    client.produce(topic, bytearray(first)).raise_if_failed()
    client.produce(topic, bytearray(first)).raise_if_failed()  # it is known, and stored once
    crowd_out(client, topic)
    with pytest.raises(UnknownProducerId):
        client.produce(topic, bytearray(first)).raise_if_failed()
    assert values_but_the_crowd(bootstrap, client, topic) == [b"1"]


@pytest.mark.parametrize("kind", [Ours, Librdkafka])
def test_overlapping_batch_is_never_taken_for_a_repetition(
    bootstrap: str, client: RawClient, topic: str, kind: Any
) -> None:
    """Before: 0..4 after 0..2 was answered as a duplicate, so 3 and 4 vanished and counted as delivered."""
    producer_id = next_producer_id(client)
    client.produce(topic, batch(producer_id, 0, b"0", b"1", b"2")).raise_if_failed()
    with pytest.raises(OutOfOrderSequenceNumber):
        client.produce(topic, batch(producer_id, 1, b"1", b"2", b"3")).raise_if_failed()
    producer = kind(bootstrap)
    errors = producer.send(topic, [b"0", b"1", b"2", b"3", b"4"])
    producer.close()
    stored = values_but_the_crowd(bootstrap, client, topic)
    delivered = [str(number).encode() for number, error in enumerate(errors) if not error]
    assert set(delivered) <= set(stored), (
        "what counts as delivered is stored; for the rest the application gets an error"
    )
    assert all(stored.count(value) <= 1 for value in (b"3", b"4"))


def test_batch_that_is_stored_in_other_batches_counts_as_delivered_by_librdkafka(
    bootstrap: str, client: RawClient, topic: str
) -> None:
    producer_id = next_producer_id(client)
    client.produce(topic, batch(producer_id, 0, *[b"%d" % number for number in range(10)])).raise_if_failed()
    producer = Librdkafka(bootstrap)
    assert producer.send(topic, [b"0", b"1", b"2"]) == ["", "", ""]
    assert client.end_offset(topic) == 10
