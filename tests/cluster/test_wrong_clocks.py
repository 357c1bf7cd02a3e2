"""A broker whose wall clock is eight days ahead: it deletes nothing by time, as a follower or as a leader."""

import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from ottla.wire.names import TopicPartition
from tests.support.client_topics import write
from tests.support.clocks import brokers_with_clocks, set_clock, wall_ms
from tests.support.cluster import wait_until
from tests.support.workload import WAIT_S, controller_of, in_sync, leader_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

AHEAD_S = 8 * 24 * 3600.0
RECORDS = 200
GROUPS = [f"group-{number}" for number in range(8)]
EAGER = {
    "log.retention.check.interval.ms": "100",
    "offsets.retention.check.interval.ms": "100",
    "log.segment.bytes.min": "1024",
}
SEGMENTS = {"segment.bytes": "1024", "min.insync.replicas": "1"}


@pytest.fixture(params=["checked", pytest.param("unchecked", marks=pytest.mark.deep)])
def how(request: pytest.FixtureRequest) -> str:
    """Without the comparison of clocks, everything is lost: the mechanism switched off."""
    return str(request.param)


@pytest.fixture
def cluster(how: str, tmp_path: Path) -> Iterator[LocalCluster]:
    with brokers_with_clocks(tmp_path, how), LocalCluster(brokers=3, broker_config=EAGER) as running:
        yield running


def make_topic(admin: Admin, assignment: list[list[int]], **config: str) -> str:
    name = f"clocks-{uuid.uuid4().hex[:8]}"
    settings = {**SEGMENTS, **{key.replace("_", "."): value for key, value in config.items()}}
    admin.create_topic(name, -1, -1, settings, assignment=assignment, timeout=WAIT_S)
    return name


def metric(cluster: LocalCluster, broker: int, name: str) -> float:
    with urllib.request.urlopen(f"{cluster.admin_url(broker)}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])


def skew(cluster: LocalCluster, broker: int) -> float:
    return metric(cluster, broker, 'ottla_clock_skew_seconds{reference="zookeeper"}')


def segments(cluster: LocalCluster, broker: int, topic: str) -> list[str]:
    return sorted(path.name for path in (cluster.data_path(broker) / f"{topic}-0").glob("*.log"))


def wait_until_retention_ran(cluster: LocalCluster, admin: Admin, broker: int) -> None:
    """Returns when a broker has looked after retention again: it deletes by size even if its clock is wrong."""
    topic = make_topic(admin, [[broker]], retention_bytes="1024")
    write(cluster.bootstrap, topic, range(RECORDS))
    wait_until(lambda: admin.earliest_offsets(topic, timeout=WAIT_S)[TopicPartition(topic, 0)] > 0, WAIT_S)


def test_wrong_clock_deletes_nothing_on_a_follower_nor_on_a_leader(
    cluster: LocalCluster, how: str, tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: len(admin.describe_cluster(timeout=WAIT_S).brokers) == 3, WAIT_S)
        controller = controller_of(admin)
        wrong, right = (broker for broker in cluster.brokers if broker != controller)
        topic = make_topic(admin, [[right, wrong]])
        write(cluster.bootstrap, topic, range(RECORDS))
        for group in GROUPS:
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): 7}, timeout=WAIT_S)
        wait_until(lambda: segments(cluster, wrong, topic) == segments(cluster, right, topic), WAIT_S)
        before = segments(cluster, wrong, topic)
        assert len(before) > 2

        wait_until(lambda: how == "unchecked" or metric(cluster, wrong, "ottla_clock_trusted") == 1, WAIT_S)
        set_clock(tmp_path, wrong, AHEAD_S)
        if how == "unchecked":
            wait_until(lambda: segments(cluster, wrong, topic) != before, WAIT_S)
        else:
            wait_until(lambda: metric(cluster, wrong, "ottla_clock_trusted") == 0, WAIT_S)
            assert abs(skew(cluster, wrong) - AHEAD_S) < 60
            wait_until_retention_ran(cluster, admin, wrong)
            assert segments(cluster, wrong, topic) == before

        assert in_sync(admin, topic) == [sorted([right, wrong])]
        cluster.kill(right)
        wait_until(lambda: leader_of(admin, topic) == wrong, WAIT_S)
        cluster.start(right)
        wait_until(lambda: in_sync(admin, topic) == [sorted([right, wrong])], WAIT_S)
        wait_until_retention_ran(cluster, admin, wrong)
        kept = [group for group in GROUPS if admin.group_offsets(group, timeout=WAIT_S)]
        first = admin.earliest_offsets(topic, timeout=WAIT_S)[TopicPartition(topic, 0)]
        if how == "unchecked":
            assert first > 0
            assert len(kept) < len(GROUPS)
            return
        assert (first, kept) == (0, GROUPS)
        assert segments(cluster, wrong, topic) == segments(cluster, right, topic)

        set_clock(tmp_path, wrong, 0)
        wait_until(lambda: metric(cluster, wrong, "ottla_clock_trusted") == 1, WAIT_S)
        admin.alter_topic_config(topic, {"retention.ms": "1"}, timeout=WAIT_S)
        wait_until(lambda: admin.earliest_offsets(topic, timeout=WAIT_S)[TopicPartition(topic, 0)] > 0, WAIT_S)
        wait_until(lambda: len(segments(cluster, right, topic)) < len(before), WAIT_S)  # the follower, after its leader


def test_controller_whose_clock_is_as_wrong_as_that_of_zookeeper_deletes_nothing(
    cluster: LocalCluster, how: str, tmp_path: Path
) -> None:
    """Both run on one machine: to them, the clocks of all other brokers and producers are eight days behind."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: len(admin.describe_cluster(timeout=WAIT_S).brokers) == 3, WAIT_S)
        controller = controller_of(admin)
        right = [broker for broker in cluster.brokers if broker != controller]
        for broker in right:
            set_clock(tmp_path, broker, -AHEAD_S)
        wait_until(lambda: all(skew(cluster, broker) < -AHEAD_S / 2 for broker in right), WAIT_S)
        set_clock(tmp_path, controller, 2.0)  # it compares its clock again
        wait_until(lambda: skew(cluster, controller) > 1, WAIT_S)
        topic = make_topic(admin, [[controller, *right]])
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            true_ms = wall_ms() - int(AHEAD_S * 1000)
            for _ in range(0, RECORDS, 5):
                producer.send_many(topic, [b"x" * 50] * 5, partition=0, timestamp_ms=true_ms).result(timeout=WAIT_S)
        wait_until_retention_ran(cluster, admin, controller)
        first = admin.earliest_offsets(topic, timeout=WAIT_S)[TopicPartition(topic, 0)]
        assert (first > 0) == (how == "unchecked")
