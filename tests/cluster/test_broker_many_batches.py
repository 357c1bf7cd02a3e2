"""Several batches of one partition in one request: each has its own result, in order, and is stored once."""

import time
from collections.abc import Iterator

import pytest

from ottla.client import Consumer
from ottla.local import LocalCluster
from ottla.wire.admin import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from ottla.wire.errors import MessageTooLarge, NotEnoughReplicas, OutOfOrderSequenceNumber
from ottla.wire.messages import ACKS_ALL
from ottla.wire.records import encode_batch
from ottla.wire.requests import ProducePart, ProducePartResult, ProduceRequest, ProduceResponse
from tests.support.machine import scaled
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

CLUSTER = {"brokers": 1}

PRODUCER = 4_711_000_000


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[RawClient]:
    host, port = cluster.bootstrap.split(",")[0].rsplit(":", 1)
    with RawClient((host, int(port))) as raw:
        raw.greet()
        yield raw


def create(client: RawClient, name: str, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    client.ask(CreateTopicsRequest([NewTopic(name, 1, 1, settings)], 10_000), CreateTopicsResponse)
    client.wait_until_led(name)


def numbered(value: bytes, sequence: int) -> bytes:
    return bytes(
        encode_batch([value], timestamps=now_ms(), producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
    )


def plain(value: bytes) -> bytes:
    return bytes(encode_batch([value], timestamps=now_ms()))


def now_ms() -> int:
    return int(time.time() * 1000)


def produce(client: RawClient, topic: str, batches: list[bytes]) -> list[ProducePartResult]:
    request = ProduceRequest(ACKS_ALL, 10_000, [ProducePart(topic, 0, len(batch)) for batch in batches])
    return client.ask(request, ProduceResponse, batches).parts


def values(cluster: LocalCluster, topic: str, count: int) -> list[bytes | None]:
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        found: list[bytes | None] = []
        while len(found) < count:
            found += [record.value for record in consumer.poll(timeout=scaled(30), max_records=100)]
        found += [record.value for record in consumer.poll(timeout=0.2, max_records=100)]
    return found


def test_all_are_stored_in_order_and_a_repeated_request_stores_nothing(
    cluster: LocalCluster, client: RawClient
) -> None:
    create(client, "together")
    batches = [numbered(b"%d" % number, number) for number in range(5)]
    assert [part.base_offset for part in produce(client, "together", batches)] == [0, 1, 2, 3, 4]
    again = produce(client, "together", [*batches[3:], numbered(b"5", 5)])
    assert [part.base_offset for part in again] == [3, 4, 5]
    assert values(cluster, "together", 6) == [b"%d" % number for number in range(6)]


def test_as_many_as_a_producer_may_have_in_flight_are_remembered(client: RawClient) -> None:
    create(client, "window")
    batches = [numbered(b"%d" % number, number) for number in range(25)]
    for start in range(0, 25, 5):
        produce(client, "window", batches[start : start + 5])
    assert [part.base_offset for part in produce(client, "window", batches)] == list(range(25))


def test_batch_that_can_never_be_stored_does_not_keep_the_next_from_it(
    cluster: LocalCluster, client: RawClient
) -> None:
    create(client, "too-large", max_message_bytes="500")
    first, second = plain(b"x" * 1000), plain(b"small")
    results = produce(client, "too-large", [first, second])
    assert [part.error_code for part in results] == [MessageTooLarge.code, 0]
    assert values(cluster, "too-large", 1) == [b"small"]


def test_what_keeps_a_batch_from_being_stored_for_now_keeps_those_behind_it(client: RawClient) -> None:
    create(client, "hold", min_insync_replicas="2")
    results = produce(client, "hold", [plain(b"a"), plain(b"b")])
    assert [part.error_code for part in results] == [NotEnoughReplicas.code] * 2
    assert client.end_offset("hold") == 0


def test_batch_behind_a_missing_one_is_refused(client: RawClient) -> None:
    create(client, "gap")
    results = produce(client, "gap", [numbered(b"0", 0), numbered(b"2", 2), numbered(b"1", 1)])
    assert [part.error_code for part in results][:2] == [0, OutOfOrderSequenceNumber.code]
