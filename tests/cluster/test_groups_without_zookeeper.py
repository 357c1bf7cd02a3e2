"""Groups while ZooKeeper says nothing: whoever asks is told so."""

import uuid
from collections.abc import Iterator

import pytest

from ottla.client import Admin, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.errors import ClientTimeout

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 1, "broker_config": {"zookeeper.session.timeout.ms": "40000", "replica.lag.time.max.ms": "60000"}}
"""So long that the broker does not think itself given up meanwhile."""

ZERO = TopicPartition("t", 0)


@pytest.fixture
def group(cluster: LocalCluster) -> Iterator[str]:
    """One that its coordinator has at hand; ZooKeeper is silent while a test runs."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        if "t" not in admin.list_topics():
            admin.create_topic("t", partitions=1)
        admin.alter_group_offsets(name, {ZERO: 0})
    cluster.zookeeper_servers.pause(0)
    yield name
    cluster.zookeeper_servers.resume(0)


def test_whoever_commits_or_asks_what_was_committed_is_told_that_zookeeper_is_silent(
    cluster: LocalCluster, group: str
) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for ask in (
            lambda: admin.alter_group_offsets(group, {ZERO: 0}, timeout=7),
            lambda: admin.group_offsets(group, timeout=7),
        ):
            with pytest.raises(ClientTimeout, match="ZooKeeper has not answered this broker for"):
                ask()
