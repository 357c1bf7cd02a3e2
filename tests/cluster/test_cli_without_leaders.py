"""The ``ottla`` command on a cluster of which one broker is down: what cannot be done is told in time, and why."""

import time

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from tests.support.cluster import ottla, wait_until
from tests.support.machine import scaled

pytestmark = [pytest.mark.cluster, pytest.mark.incomplete_cluster]

CLUSTER = {"brokers": 2, "broker_config": {"zookeeper.session.timeout.ms": "2000"}}


@pytest.fixture(scope="module")
def crippled(cluster: LocalCluster) -> LocalCluster:
    """Of ``alone``, nobody is left; of ``both``, one of two that must have every record."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("alone", assignment=[[1]])
        admin.create_topic("both", assignment=[[1, 0]], config={"min.insync.replicas": "2"})
        cluster.kill(1)
        wait_until(lambda: admin.describe_topic("alone").partitions[0].leader < 0, scaled(20))
        wait_until(lambda: admin.describe_topic("both").partitions[0].isr == [0], scaled(20))
    return cluster


@pytest.mark.parametrize(("topic", "why"), [("alone", "alone-0 has no leader"), ("both", "1 in sync, 2 needed")])
def test_a_record_that_cannot_be_stored_is_given_up_in_time_and_it_is_said_why(
    crippled: LocalCluster, topic: str, why: str
) -> None:
    began = time.monotonic()
    failed = ottla("produce", topic, "--value", "x", "--timeout", "3", bootstrap=crippled.address(0))
    assert time.monotonic() - began < scaled(8), "starting Python included"
    assert (failed.returncode, failed.stderr.count("error: ")) == (3, 1)
    assert why in failed.stderr


def test_partitions_that_miss_replicas_are_found(crippled: LocalCluster) -> None:
    found = ottla("topic", "describe", "--under-replicated", bootstrap=crippled.address(0))
    assert [line.split("\t")[:2] for line in found.stdout.splitlines()[1:]] == [["alone", "0"], ["both", "0"]]


@pytest.mark.parametrize("options", [(), ("--unclean",)])
@pytest.mark.parametrize("where", ["nowhere:0", "both:7"])
def test_an_election_of_what_is_not_there_is_an_error(
    crippled: LocalCluster, where: str, options: tuple[str, ...]
) -> None:
    failed = ottla("partition", "elect", "both:0", where, *options, bootstrap=crippled.address(0))
    assert (failed.returncode, "does not exist" in failed.stderr) == (4, True)


def test_an_election_tells_who_leads_now(crippled: LocalCluster) -> None:
    bootstrap = crippled.address(0)
    named = ottla("partition", "elect", "both:0", "alone:0", bootstrap=bootstrap)
    assert named.stdout.splitlines() == [
        "both-0 is led by broker 0; preferred is broker 1, which is not in sync",
        "alone-0 has no leader",
    ]
    everywhere = ottla("partition", "elect", bootstrap=bootstrap)
    assert everywhere.stdout == "1 of 2 partitions have a leader, 0 of them the preferred one\n"
    unclean = ottla("partition", "elect", "--unclean", "--all", bootstrap=bootstrap)
    assert (unclean.returncode, unclean.stdout) == (0, everywhere.stdout)


def test_names_and_all_exclude_each_other(crippled: LocalCluster) -> None:
    failed = ottla("partition", "elect", "--unclean", "--all", "alone:0", bootstrap=crippled.address(0))
    assert (failed.returncode, "not both" in failed.stderr) == (2, True)
