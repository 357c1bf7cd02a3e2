"""Clients whose broker dies, sleeps, moves or was never there; and processes that end or fork with clients in them."""

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, Record
from ottla.local import LocalCluster
from ottla.wire.errors import ClientTimeout, OttlaError
from tests.support.cluster import wait_until
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

WAIT_S = scaled(60.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One broker that the tests of this file kill and pause; each leaves it running."""
    with LocalCluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def cluster3() -> Iterator[LocalCluster]:
    """Three brokers; each test leaves them running."""
    with LocalCluster(brokers=3) as running:
        yield running


def make_topic(cluster: LocalCluster, partitions: int = 1) -> str:
    name = f"faults-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, timeout=WAIT_S)
    return name


@pytest.fixture
def unused_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


# --- nobody there ---


def test_every_client_names_the_addresses_that_it_tried(unused_address: str) -> None:
    with Admin(bootstrap_servers=unused_address) as admin, pytest.raises(OttlaError, match=unused_address):
        admin.list_topics(timeout=0.3)
    with Producer(bootstrap_servers=unused_address, max_block_ms=300) as producer:
        with pytest.raises(OttlaError, match=unused_address):
            producer.send("t", b"v")
        with pytest.raises(OttlaError, match=unused_address):
            producer.partitions_for("t", timeout=0.3)
    with Consumer("t", bootstrap_servers=unused_address) as consumer:
        with pytest.raises(OttlaError, match=unused_address):
            consumer.poll(timeout=0.3)
        with pytest.raises(OttlaError, match=unused_address):
            consumer.position("t", 0, timeout=0.3)
        with pytest.raises(OttlaError, match=unused_address):
            consumer.end_offsets([("t", 0)], timeout=0.3)


def test_address_that_never_answers_is_given_up_and_the_next_is_asked(cluster: LocalCluster) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        refused = pytest.raises(OttlaError, match=f"{address} did not answer")
        with Admin(bootstrap_servers=[address], connect_timeout_ms=200) as admin, refused:
            admin.list_topics(timeout=1)
        with Admin(bootstrap_servers=[address, cluster.bootstrap], connect_timeout_ms=200) as admin:
            assert admin.describe_cluster(timeout=WAIT_S).brokers[0].id == 0


# --- the broker goes and comes back ---


def test_producer_and_consumer_go_on_by_themselves_after_kill_9(cluster: LocalCluster) -> None:
    topic = make_topic(cluster)
    seen: list[Record] = []
    stop = threading.Event()
    with (
        Producer(bootstrap_servers=cluster.bootstrap, linger_ms=2) as producer,
        Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):

        def read() -> None:
            while not stop.is_set():
                seen.extend(consumer.poll(timeout=0.1))

        reading = threading.Thread(target=read)
        reading.start()
        try:
            sent = [producer.send(topic, b"%d" % n) for n in range(100)]
            sent[-1].result(timeout=WAIT_S)
            wait_until(lambda: len(seen) == 100, WAIT_S)
            cluster.kill(0)
            sent += [producer.send(topic, b"%d" % n) for n in range(100, 200)]
            assert not sent[-1].done()
            cluster.start(0)
            sent += [producer.send(topic, b"%d" % n) for n in range(200, 300)]
            assert all(each.exception(timeout=WAIT_S) is None for each in sent)
            wait_until(lambda: len({record.value for record in seen}) == 300, WAIT_S)
        finally:
            stop.set()
            reading.join()
    assert [record.offset for record in seen] == list(range(len(seen)))
    in_order = list(dict.fromkeys(record.value for record in seen))
    assert in_order == [b"%d" % n for n in range(300)]


def test_clients_made_while_the_broker_is_down_begin_when_it_comes(cluster: LocalCluster) -> None:
    topic = make_topic(cluster)
    cluster.kill(0)
    with (
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
        Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        sent: list[int] = []
        sending = threading.Thread(target=lambda: sent.append(producer.send(topic, b"v").result(WAIT_S).offset))
        sending.start()
        cluster.start(0)
        sending.join(WAIT_S)
        assert sent == [0]
        assert [record.value for record in consumer.poll(timeout=WAIT_S)] == [b"v"]


def test_delivery_timeout_is_kept_while_the_broker_is_down_and_while_it_sleeps(cluster: LocalCluster) -> None:
    topic = make_topic(cluster)
    with Producer(bootstrap_servers=cluster.bootstrap, delivery_timeout_ms=700) as producer:
        producer.send(topic, b"v").result(timeout=WAIT_S)
        cluster.pause(0)
        try:
            begun = time.monotonic()
            with pytest.raises(ClientTimeout, match=r"not delivered to .* within 0.7 s.*did not answer"):
                producer.send(topic, b"travels").result(timeout=WAIT_S)
            assert time.monotonic() - begun < scaled(10)
        finally:
            cluster.resume(0)
        cluster.wait_ready(WAIT_S)
        wait_until(lambda: producer.send(topic, b"again").exception(timeout=WAIT_S) is None, WAIT_S)
        cluster.kill(0)
        try:
            with pytest.raises(ClientTimeout, match=cluster.bootstrap):
                producer.send(topic, b"waits").result(timeout=WAIT_S)
            with pytest.raises(ClientTimeout, match="not everything was delivered"):
                producer.send(topic, b"waits")
                producer.flush(timeout=0.05)
        finally:
            cluster.start(0)


def test_full_buffer_of_a_broker_that_sleeps_is_an_error_after_max_block(cluster: LocalCluster) -> None:
    topic = make_topic(cluster)
    options: Any = {"buffer_memory": 1000, "max_block_ms": 300, "delivery_timeout_ms": 60_000}
    producer = Producer(bootstrap_servers=cluster.bootstrap, **options)
    producer.send(topic, b"v").result(timeout=WAIT_S)
    cluster.pause(0)
    try:
        held = producer.send(topic, b"x" * 1000)
        with pytest.raises(ClientTimeout, match=r"no room to send for 0\.3 s") as caught:
            producer.send(topic, b"v")
        assert cluster.bootstrap in str(caught.value)
        with pytest.raises(ClientTimeout):
            producer.close(timeout=0.2)
        assert held.exception(timeout=WAIT_S) is not None  # closing left nobody waiting
    finally:
        cluster.resume(0)
        cluster.wait_ready(WAIT_S)


def test_request_timeout_gives_up_a_silent_connection_and_the_record_still_arrives(cluster: LocalCluster) -> None:
    topic = make_topic(cluster)
    with Producer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=100, connect_timeout_ms=300) as producer:
        producer.send(topic, b"v").result(timeout=WAIT_S)
        cluster.pause(0)
        sent = producer.send(topic, b"w")
        channel = producer._twin._cluster.open_channel(0)
        assert channel is not None
        try:
            wait_until(lambda: not channel.usable, WAIT_S)
        finally:
            cluster.resume(0)
        assert sent.result(timeout=WAIT_S).offset >= 1


async def test_async_clients_go_on_by_themselves_after_kill_9(cluster: LocalCluster) -> None:
    topic = await asyncio.to_thread(make_topic, cluster)
    async with (
        AsyncProducer(bootstrap_servers=cluster.bootstrap) as producer,
        AsyncConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        await producer.send_and_wait(topic, b"before")
        assert [record.value for record in await consumer.poll(timeout=WAIT_S)] == [b"before"]
        await asyncio.to_thread(cluster.kill, 0)
        sent = await producer.send(topic, b"after")
        await asyncio.to_thread(cluster.start, 0)
        await sent.result(timeout=WAIT_S)
        assert [record.value for record in await consumer.poll(timeout=WAIT_S)] == [b"after"]


# --- several brokers ---


def test_s58_s59_any_broker_tells_the_same_metadata_and_is_enough_to_begin(cluster3: LocalCluster) -> None:
    topic = make_topic(cluster3, partitions=6)
    told = []
    for broker in cluster3.brokers:
        with Admin(bootstrap_servers=cluster3.address(broker)) as admin:
            described = admin.describe_cluster(timeout=WAIT_S)
            leaders = [(p.leader, p.replicas, p.isr) for p in admin.describe_topic(topic).partitions]
            told.append((described.cluster_id, described.controller, sorted(b.id for b in described.brokers), leaders))
        with Producer(bootstrap_servers=cluster3.address(broker)) as producer:
            many = producer.send_many(topic, [b"v"] * 6).result(timeout=WAIT_S)
            assert {each.partition for each in many} == set(range(6))
    assert told[0] == told[1] == told[2]
    assert sorted(leader for leader, _, _ in told[0][3]) == [0, 0, 1, 1, 2, 2]


def test_s61_s80_records_go_to_and_come_from_the_leaders(cluster3: LocalCluster) -> None:
    topic = make_topic(cluster3, partitions=6)
    with Producer(bootstrap_servers=cluster3.address(0)) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(600)]).result(timeout=WAIT_S)
    with Consumer(topic, bootstrap_servers=cluster3.address(2), auto_offset_reset="earliest") as consumer:
        values: list[bytes] = []
        while len(values) < 600:
            values += [record.value for record in consumer.poll(timeout=WAIT_S)]
    assert sorted(values, key=int) == [b"%d" % n for n in range(600)]
    with Admin(bootstrap_servers=cluster3.bootstrap) as admin:
        for partition in admin.describe_topic(topic).partitions:
            assert list(cluster3.data_path(partition.leader).glob(f"{topic}-{partition.partition}"))


def test_s62_wrong_idea_of_the_leader_is_put_right_by_the_broker(cluster3: LocalCluster) -> None:
    topic = make_topic(cluster3, partitions=3)
    with (
        Producer(bootstrap_servers=cluster3.bootstrap) as producer,
        Consumer(topic, bootstrap_servers=cluster3.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        producer.send_many(topic, [b"v"] * 3).result(timeout=WAIT_S)
        assert consumer.position(topic, 0, timeout=WAIT_S) == 0
        for cluster in (producer._twin._cluster, consumer._twin._cluster):
            for partition in cluster.topics[topic].partitions:
                partition.leader, partition.leader_epoch = (partition.leader + 1) % 3, -1
        sent = [producer.send(topic, b"w", partition=partition) for partition in range(3)]
        assert [each.result(timeout=WAIT_S).offset for each in sent] == [1, 1, 1]
        found: list[Record] = []
        while len(found) < 6:
            records = consumer.poll(timeout=WAIT_S)
            assert records
            found += records


def test_dead_broker_holds_up_its_own_partitions_only(cluster3: LocalCluster) -> None:
    topic = make_topic(cluster3, partitions=3)
    with Admin(bootstrap_servers=cluster3.bootstrap) as admin:
        [dead] = [p.partition for p in admin.describe_topic(topic).partitions if p.leader == 2]
    alive = [partition for partition in range(3) if partition != dead]
    with Producer(bootstrap_servers=cluster3.bootstrap) as producer:
        producer.send_many(topic, [b"v"] * 3).result(timeout=WAIT_S)
        cluster3.kill(2)
        try:
            for partition in alive:
                producer.send(topic, b"w", partition=partition).result(timeout=WAIT_S)
            waits = producer.send(topic, b"w", partition=dead)
            with Consumer(topic, bootstrap_servers=cluster3.bootstrap, auto_offset_reset="earliest") as consumer:
                found: list[Record] = []
                while len(found) < 4:
                    found += consumer.poll(timeout=WAIT_S)
                assert {record.partition for record in found} == set(alive)
                cluster3.start(2)
                while len(found) < 6:
                    records = consumer.poll(timeout=WAIT_S)
                    assert records
                    found += records
            assert waits.result(timeout=WAIT_S) is not None
        finally:
            if not cluster3.alive(2):
                cluster3.start(2)


def test_sleeping_broker_does_not_slow_what_others_answer(cluster3: LocalCluster) -> None:
    with Admin(bootstrap_servers=[cluster3.address(1), cluster3.address(0)], connect_timeout_ms=300) as admin:
        admin.list_topics(timeout=WAIT_S)
        cluster3.pause(1)
        try:
            admin.list_topics(timeout=WAIT_S)  # finds out
            begun = time.monotonic()
            for _ in range(5):
                admin.list_topics(timeout=WAIT_S)
            assert time.monotonic() - begun < scaled(4)
        finally:
            cluster3.resume(1)
            cluster3.wait_ready(WAIT_S)
