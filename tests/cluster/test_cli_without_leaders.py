"""The ``ottla`` command on a cluster of which one broker is down: what cannot be done is told in time, and why."""

import time

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from tests.support.cluster import ottla, wait_until

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 2, "broker_config": {"zookeeper.session.timeout.ms": "2000"}}


@pytest.fixture(scope="module")
def crippled(cluster: LocalCluster) -> LocalCluster:
    """Of ``alone``, nobody is left; of ``both``, one of two that must have every record."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("alone", assignment=[[1]])
        admin.create_topic("both", assignment=[[1, 0]], config={"min.insync.replicas": "2"})
        cluster.kill(1)
        wait_until(lambda: admin.describe_topic("alone").partitions[0].leader < 0, 20)
        wait_until(lambda: admin.describe_topic("both").partitions[0].isr == [0], 20)
    return cluster


@pytest.mark.parametrize(("topic", "why"), [("alone", "alone-0 has no leader"), ("both", "min.insync.replicas is 2")])
def test_a_record_that_cannot_be_stored_is_given_up_in_time_and_it_is_said_why(
    crippled: LocalCluster, topic: str, why: str
) -> None:
    began = time.monotonic()
    failed = ottla("produce", topic, "--value", "x", "--timeout", "3", bootstrap=crippled.address(0))
    assert time.monotonic() - began < 8, "starting Python included"
    assert (failed.returncode, failed.stderr.count("error: ")) == (3, 1)
    assert why in failed.stderr
