"""Admins and look-ups that were made before the broker they used to ask died or fell asleep."""

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.names import TopicPartition
from tests.support.cluster import complete
from tests.support.machine import scaled
from tests.support.workload import HASTY, SESSION_S, WAIT_S, controller_of, leader_of, make_topic

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CLUSTER = {"brokers": 3, "broker_config": HASTY}

FEW_S = scaled(8.0)
"""Much less than the 30 s that a request may take, and enough for an election on a busy machine."""


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    """It has asked before, so that it has connections and knows who leads."""
    with Admin(bootstrap_servers=cluster.bootstrap) as running:
        running.create_topic(f"before-{uuid.uuid4().hex[:8]}", timeout=WAIT_S)
        yield running


def took(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def test_topic_is_created_within_seconds_of_the_controllers_death(cluster: LocalCluster, admin: Admin) -> None:
    name = f"after-{uuid.uuid4().hex[:8]}"
    cluster.kill(controller_of(admin))
    assert took(lambda: admin.create_topic(name, partitions=2, replication_factor=2)) < FEW_S
    assert len(admin.describe_topic(name).partitions) == 2


def test_offsets_are_found_within_seconds_of_the_leaders_death(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(cluster)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, b"v", partition=0).result(WAIT_S)
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        first = TopicPartition(topic, 0)
        assert admin.latest_offsets(topic)[first] == 1
        assert consumer.end_offsets([first]) == {first: 1}
        cluster.kill(leader_of(admin, topic))
        assert took(lambda: admin.latest_offsets(topic)) < FEW_S
        assert took(lambda: consumer.end_offsets([first])) < FEW_S
        assert admin.latest_offsets(topic)[first] == 1


def test_controller_or_leader_that_sleeps_is_given_up_once_it_is_replaced(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(cluster)
    admin.latest_offsets(topic)
    sleeper = controller_of(admin)
    cluster.pause(sleeper)
    try:
        name = f"asleep-{uuid.uuid4().hex[:8]}"
        assert took(lambda: admin.create_topic(name, timeout=60)) < SESSION_S + FEW_S
        assert took(lambda: admin.latest_offsets(topic, timeout=60)) < SESSION_S + FEW_S
    finally:
        cluster.resume(sleeper)
        complete(cluster)


def test_metadata_is_of_one_version_everywhere_and_of_a_later_one_under_the_next_controller(
    cluster: LocalCluster, admin: Admin
) -> None:
    def versions() -> set[tuple[int, int]]:
        found = set()
        for address in cluster.bootstrap.split(","):
            with Admin(bootstrap_servers=address) as one:
                found.add(one.describe_cluster(timeout=WAIT_S).version)
        return found

    def agreed() -> tuple[int, int]:
        """Of one look in which all said the same: between two looks the version may move, as replicas join the ISR."""
        deadline = time.monotonic() + WAIT_S
        while len(look := versions()) != 1:
            assert time.monotonic() < deadline, look
        return look.pop()

    first = agreed()
    admin.create_topic(f"version-{uuid.uuid4().hex[:8]}", replication_factor=3)
    assert min(versions()) > first
    second = agreed()
    cluster.kill(controller_of(admin))
    complete(cluster)
    assert agreed()[0] > second[0]
