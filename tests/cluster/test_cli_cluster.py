"""``ottla cluster``: brokers come and go, and no record is lost by it."""

import json
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from tests.support.cluster import ottla, wait_until

pytestmark = pytest.mark.cluster

RECORDS = 300


@pytest.fixture(scope="module")
def four() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic("orders", partitions=8, replication_factor=2)
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number)
        yield cluster


def replicas(cluster: LocalCluster) -> dict[int, int]:
    told = json.loads(ottla("cluster", "info", "--format", "json", bootstrap=cluster.bootstrap).stdout)
    return {broker["id"]: broker["replicas"] for broker in told["brokers"]}


def values(cluster: LocalCluster) -> list[int]:
    done = ottla("consume", "orders", "-o", "earliest", "-e", bootstrap=cluster.bootstrap)
    return sorted(map(int, done.stdout.split()))


def test_a_broker_is_drained_and_filled_again(four: LocalCluster) -> None:
    bootstrap = four.bootstrap
    planned = ottla("cluster", "drain", "3", bootstrap=bootstrap)
    assert (planned.returncode, len(planned.stdout.splitlines())) == (0, 5), planned.stderr
    assert "nothing was changed" in planned.stderr
    assert replicas(four)[3] == 4
    done = ottla("cluster", "drain", "3", "--execute", bootstrap=bootstrap)
    assert done.returncode == 0, done.stderr
    assert "4 partitions were moved" in done.stderr
    assert sorted(replicas(four).values()) == [0, 5, 5, 6]
    assert replicas(four)[3] == 0
    assert values(four) == list(range(RECORDS))
    assert "nothing is to be moved" in ottla("cluster", "drain", "3", bootstrap=bootstrap).stderr

    filled = ottla("cluster", "balance", "--execute", bootstrap=bootstrap)
    assert filled.returncode == 0, filled.stderr
    assert set(replicas(four).values()) == {4}
    assert values(four) == list(range(RECORDS))
    checked = ottla("cluster", "check", "--wait", "20", bootstrap=bootstrap)
    assert (checked.returncode, checked.stdout) == (0, "all is well\n")


def test_a_broker_that_is_down_is_told_and_can_be_drained(four: LocalCluster) -> None:
    bootstrap = four.address(0)
    four.kill(2)
    try:
        wait_until(lambda: ottla("cluster", "check", bootstrap=bootstrap).returncode == 1)
        problems = json.loads(ottla("cluster", "check", "--format", "json", bootstrap=bootstrap).stdout)
        assert {problem["problem"] for problem in problems} == {"not in sync: 2"}
        drained = ottla("cluster", "drain", "2", "--execute", bootstrap=bootstrap)
        assert drained.returncode == 0, drained.stderr
        assert ottla("cluster", "check", "--wait", "20", bootstrap=bootstrap).returncode == 0
        assert values(four) == list(range(RECORDS))
    finally:
        four.start(2)
    ottla("cluster", "balance", "--execute", bootstrap=bootstrap)


def test_what_cannot_be_drained_is_told(four: LocalCluster) -> None:
    bootstrap = four.bootstrap
    unknown = ottla("cluster", "drain", "9", bootstrap=bootstrap)
    assert (unknown.returncode, "there is no broker 9" in unknown.stderr) == (4, True)
    ottla("topic", "create", "everywhere", "-r", "4", bootstrap=bootstrap)
    full = ottla("cluster", "drain", "1", "--execute", bootstrap=bootstrap)
    assert full.returncode == 2
    assert "everywhere-0" in full.stderr
    assert "--fewer-replicas" in full.stderr
    fewer = ottla("cluster", "drain", "1", "--execute", "--fewer-replicas", bootstrap=bootstrap)
    assert fewer.returncode == 0, fewer.stderr
    assert replicas(four)[1] == 0
    described = json.loads(ottla("topic", "describe", "everywhere", "--format", "json", bootstrap=bootstrap).stdout)
    assert sorted(described["partitions"][0]["replicas"]) == [0, 2, 3]


def test_settings_are_changed_while_brokers_run(four: LocalCluster) -> None:
    bootstrap = four.bootstrap

    def shown(*arguments: str) -> dict[str, tuple[str, str]]:
        done = ottla("cluster", "config", *arguments, "--format", "json", bootstrap=bootstrap)
        assert done.returncode == 0, done.stderr
        return {one["key"]: (one["value"], one["source"]) for one in json.loads(done.stdout)}

    done = ottla(
        "cluster", "config", "--set", "log.retention.ms=7000", "--set", "num.partitions=2", bootstrap=bootstrap
    )
    assert (done.returncode, done.stdout) == (0, "altered all brokers\n"), done.stderr
    assert ottla("cluster", "config", "--broker", "2", "--set", "num.partitions=3", bootstrap=bootstrap).returncode == 0
    assert shown() == {"log.retention.ms": ("7000", "all brokers"), "num.partitions": ("2", "all brokers")}
    of_two = shown("--broker", "2")
    assert (of_two["num.partitions"], of_two["log.retention.ms"]) == (("3", "this broker"), ("7000", "all brokers"))
    assert shown("--broker", "1")["num.partitions"] == ("2", "all brokers")
    refused = ottla("cluster", "config", "--set", "log.dirs=/x", bootstrap=bootstrap)
    assert refused.returncode != 0
    assert "is read when a broker starts" in refused.stderr
    nobody = ottla("cluster", "config", "--broker", "77", bootstrap=bootstrap)
    assert (nobody.returncode != 0, "there is no broker 77" in nobody.stderr) == (True, True)
    for arguments in (
        ["--unset", "log.retention.ms", "--unset", "num.partitions"],
        ["--broker", "2", "--unset", "num.partitions"],
    ):
        assert ottla("cluster", "config", *arguments, bootstrap=bootstrap).returncode == 0
    assert shown() == {}
