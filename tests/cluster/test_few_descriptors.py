"""Brokers with few file descriptors: many segments are read, and too many clients come. Nobody is restarted, no log fails."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError
from ottla.wire.requests import MetadataRequest, MetadataResponse
from tests.support.cluster import wait_until
from tests.support.descriptors import brokers_with_descriptors
from tests.support.machine import scaled
from tests.support.raw_client import Hung, RawClient
from tests.support.small_topics import make_topic, read
from tests.support.workload import HASTY, WAIT_S, check_replicas
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

SOFT, HARD = 100, 200
VALUES = [b"%06d" % number + b"x" * 3000 for number in range(300)]
"""One segment each."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = {**HASTY, "log.segment.bytes": "4096"}
    with brokers_with_descriptors(SOFT, HARD), LocalCluster(brokers=3, broker_config=settings) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=int(WAIT_S * 1000)) as producer:
        yield producer


def is_served(address: str, held: ExitStack) -> bool:
    """Whether one more client gets an answer; it stays connected then."""
    host, _, port = address.rpartition(":")
    client = RawClient((host, int(port)))
    try:
        client.ask(MetadataRequest([]), MetadataResponse)
    except (OSError, OttlaError, Hung):
        client.close()
        return False
    held.enter_context(client)
    return True


def wait_for_isr(cluster: LocalCluster, topic: str) -> None:
    wait_until(lambda: len(partition_state(cluster, topic).state.isr) == 3, WAIT_S)


def test_more_segments_are_written_and_read_than_there_are_descriptors(
    cluster: LocalCluster, admin: Admin, producer: Producer
) -> None:
    topic = make_topic(admin, [0, 1, 2])
    for value in VALUES:
        producer.send(topic, value).result(WAIT_S)
    assert len(list((cluster.data_path(0) / f"{topic}-0").glob("*.log"))) > HARD
    assert read(cluster, topic, len(VALUES)) == VALUES
    producer.send(topic, b"after").result(WAIT_S)
    wait_for_isr(cluster, topic)
    check_replicas(cluster, topic)
    log = cluster.log_path(0).read_text()
    assert f"limit of open files raised: from={SOFT} to={HARD}" in log
    assert "for the moment" not in log
    assert "log failed" not in log


def test_logs_and_brokers_keep_descriptors_when_too_many_clients_come(
    cluster: LocalCluster, admin: Admin, producer: Producer
) -> None:
    topic = make_topic(admin, [0, 1, 2])
    producer.send(topic, b"before").result(WAIT_S)
    with ExitStack() as held:
        served = 0
        while is_served(cluster.address(0), held):
            served += 1
            assert served < HARD
        producer.send(topic, b"meanwhile").result(WAIT_S)
        later = make_topic(admin, [0, 1, 2])
        producer.send(later, b"new").result(WAIT_S)
        assert cluster.terminate(1) == 0
        cluster.start(1)
        wait_for_isr(cluster, topic)  # broker 1 could connect to broker 0, which leads
    with ExitStack() as held:
        wait_until(lambda: is_served(cluster.address(0), held), scaled(20))
    with Consumer(topic, bootstrap_servers=cluster.address(0), auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(timeout=scaled(10))] == [b"before", b"meanwhile"]
    for each in (topic, later):
        check_replicas(cluster, each)
    log = cluster.log_path(0).read_text()
    assert log.count("file descriptors are nearly exhausted") == 1
    assert "log failed" not in log
    assert "Too many open files" not in log
