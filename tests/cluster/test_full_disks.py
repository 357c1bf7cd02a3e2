"""A disk that is full under a leader or a follower: nobody is restarted, nothing is lost, and retention makes room."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from tests.support.cluster import wait_until
from tests.support.small_disks import fill_up, make_room, small_disk
from tests.support.small_topics import make_topic, read
from tests.support.workload import HASTY, WAIT_S, check_replicas
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

VALUES = [os.urandom(20_000) for _ in range(10)]
SETTINGS = {**HASTY, "log.segment.bytes": "65536", "log.retention.check.interval.ms": "300"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("full")
    with ExitStack() as disks:
        for broker in (0, 1):
            disks.enter_context(small_disk(folder / f"broker-{broker}" / "data", 4096))
        with LocalCluster(brokers=3, folder=folder, broker_config=SETTINGS) as running:
            yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=int(WAIT_S * 1000)) as producer:
        yield producer


def disk(cluster: LocalCluster, broker: int) -> Path:
    return cluster.data_path(broker)


def refusals(cluster: LocalCluster, broker: int) -> int:
    return cluster.log_path(broker).read_text().count("log cannot be used for the moment")


def test_leader_and_follower_wait_for_room_and_go_on(cluster: LocalCluster, admin: Admin, producer: Producer) -> None:
    topic = make_topic(admin, [0, 1, 2])
    producer.send(topic, VALUES[0]).result(WAIT_S)
    fill_up(disk(cluster, 0))
    waits = producer.send(topic, VALUES[1])
    wait_until(lambda: refusals(cluster, 0) == 1, WAIT_S)
    assert not waits.done()
    make_room(disk(cluster, 0))
    waits.result(WAIT_S)
    fill_up(disk(cluster, 1))
    producer.send(topic, VALUES[2]).result(WAIT_S)  # the follower that has no room leaves the ISR
    assert refusals(cluster, 1) == 1
    make_room(disk(cluster, 1))
    wait_until(lambda: len(partition_state(cluster, topic).state.isr) == 3, WAIT_S)
    state = partition_state(cluster, topic).state
    assert (state.leader, state.leader_epoch) == (0, 0), "nobody was replaced"
    assert read(cluster, topic, 3) == VALUES[:3]
    check_replicas(cluster, topic)


def test_retention_makes_room_for_a_leader(cluster: LocalCluster, admin: Admin, producer: Producer) -> None:
    topic = make_topic(admin, [0, 1, 2])
    for value in VALUES:
        producer.send(topic, value).result(WAIT_S)
    fill_up(disk(cluster, 0))
    before = refusals(cluster, 0)
    waits = producer.send(topic, VALUES[0])
    wait_until(lambda: refusals(cluster, 0) > before, WAIT_S)
    admin.alter_topic_config(topic, {"retention.bytes": "65536"}, timeout=WAIT_S)
    assert waits.result(WAIT_S).offset == len(VALUES)
    assert "log failed" not in cluster.log_path(0).read_text()
    make_room(disk(cluster, 0))
