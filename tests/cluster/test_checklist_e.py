"""docs/checklist.md, section E: requests. What has no test in test_broker*.py or test_client_*.py."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.errors import NotLeaderOrFollower
from ottla.wire.messages import ACKS_ALL, ACKS_LEADER, CONSUMER, Api
from ottla.wire.requests import FetchRequest, MetadataRequest, MetadataResponse, ProduceRequest
from tests.support.cluster import wait_until
from tests.support.observer import WAIT_S, Observer, observed
from tests.support.raw_client import one_record

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def seen() -> Iterator[Observer]:
    """Three brokers; no test stops one."""
    with LocalCluster(brokers=3) as cluster, observed(cluster) as observer:
        yield observer


@pytest.fixture
def topic(seen: Observer) -> str:
    """Three partitions of three replicas: every broker leads one and follows two."""
    name = f"e-{uuid.uuid4().hex[:12]}"
    seen.admin.create_topic(name, assignment=[[0, 1, 2], [1, 2, 0], [2, 0, 1]], timeout=WAIT_S)
    return name


def asked(seen: Observer, api: str) -> float:
    """How many requests of a kind the whole cluster has answered."""
    return sum(seen.metric(broker, f'ottla_requests_total{{api="{api}"}}') for broker in seen.cluster.brokers)


def test_s57_metadata_produce_and_fetch_are_enough_to_write_and_read(seen: Observer, topic: str) -> None:
    assert (ProduceRequest.api, FetchRequest.api, MetadataRequest.api) == (Api.PRODUCE, Api.FETCH, Api.METADATA)
    assert [int(api) for api in (Api.PRODUCE, Api.FETCH, Api.METADATA)] == [0, 1, 3], "Kafka's numbers"
    with seen.connect(0) as client:
        told = client.ask(MetadataRequest([topic]), MetadataResponse)
    by_id = {broker.id: (broker.host, broker.port) for broker in told.brokers}
    assert by_id[1] == ("127.0.0.1", int(seen.cluster.address(1).rpartition(":")[2]))
    for partition in told.topics[0].partitions:
        with seen.connect(partition.leader) as client:
            for acks in (ACKS_LEADER, ACKS_ALL):
                client.produce(topic, one_record(b"acks %d" % acks), partition.partition, acks).raise_if_failed()
            response, records = client.fetch(topic, 0, partition=partition.partition)
        assert response.parts[0].high_watermark == 2
        assert b"acks 1" in records
        assert b"acks -1" in records


def test_s63_clients_remember_who_leads(seen: Observer, topic: str) -> None:
    with (
        Producer(bootstrap_servers=seen.cluster.bootstrap) as producer,
        Consumer(topic, bootstrap_servers=seen.cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        producer.send_many(topic, [b"first"] * 3).result(timeout=WAIT_S)
        got = 0
        while got < 3:
            got += len(consumer.poll(timeout=WAIT_S))
        before, produced = asked(seen, "METADATA"), asked(seen, "PRODUCE")
        for _ in range(100):
            producer.send(topic, b"v").result(timeout=WAIT_S)
        while got < 103:
            records = consumer.poll(timeout=WAIT_S)
            assert records
            got += len(records)
        assert asked(seen, "PRODUCE") >= produced + 100
        assert asked(seen, "METADATA") == before, "nobody had to ask again"


def test_s62_metadata_are_asked_for_again_when_they_are_too_old(seen: Observer, topic: str) -> None:
    options: Any = {"bootstrap_servers": seen.cluster.bootstrap, "metadata_max_age_ms": 200}
    with Producer(**options) as producer, Consumer(topic, **options) as consumer:
        producer.send(topic, b"v").result(timeout=WAIT_S)
        assert len(consumer.assignment()) == 3
        # The topic grows. No error tells the clients: only their own regular question does.
        seen.admin.add_partitions(topic, 5, timeout=WAIT_S)
        wait_until(lambda: producer.partitions_for(topic) == 5, WAIT_S)
        wait_until(lambda: len(consumer.assignment()) == 5, WAIT_S)


def test_s62_clients_follow_a_leader_that_moves(seen: Observer, topic: str) -> None:
    with (
        Producer(bootstrap_servers=seen.cluster.bootstrap, acks="all") as producer,
        Consumer(topic, bootstrap_servers=seen.cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        sent = [b"%d" % n for n in range(30)]
        for n, value in enumerate(sent):
            producer.send(topic, value, partition=0).result(timeout=WAIT_S)
            if n == 10:
                seen.admin.reassign(topic, 0, [1, 0, 2], timeout=WAIT_S)
                wait_until(lambda: seen.assignment(topic)[0] == [1, 0, 2], WAIT_S)
                seen.wait_in_sync(topic)
                seen.admin.elect_leaders([(topic, 0)], timeout=WAIT_S)
                assert seen.leader(topic, 0) == 1
        found: list[bytes] = []
        while len(found) < 30:
            records = consumer.poll(timeout=WAIT_S)
            assert records
            found += [record.value for record in records]
    assert found == sent


def test_s61_s70_consumers_are_never_served_by_followers(seen: Observer, topic: str) -> None:
    seen.produce(topic, [b"here"], partition=0)
    wait_until(lambda: all(b"here" in seen.segments(broker, topic) for broker in (1, 2)), WAIT_S)
    assert FetchRequest(0, 0, 0, []).replica_id == CONSUMER
    for follower in (1, 2):  # it has the record, and does not give it
        with seen.connect(follower) as client:
            response, records = client.fetch(topic, 0)
        assert (response.parts[0].error_code, response.parts[0].leader) == (NotLeaderOrFollower.code, 0)
        assert records == b""
    with seen.connect(0) as client:
        assert b"here" in client.fetch(topic, 0)[1]
    # A client that knows followers only as its bootstrap servers reads from the leader all the same.
    followers = [seen.cluster.address(broker) for broker in (1, 2)]
    with Consumer(bootstrap_servers=followers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in consumer.poll(timeout=WAIT_S)] == [b"here"]
