"""``ottla group`` and ``ottla consume -g`` as a user's shell runs them."""

import json
import signal
import subprocess
import sys
import uuid

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from tests.support.cluster import ottla
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster


@pytest.fixture
def topic(cluster1: LocalCluster) -> str:
    name = f"cli-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=cluster1.bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    with Producer(bootstrap_servers=cluster1.bootstrap) as producer:
        for number in range(10):
            producer.send(name, b"%d" % number, partition=number % 2)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def test_member_that_is_told_to_end_leaves_its_group_with_143(cluster1: LocalCluster, topic: str, group: str) -> None:
    command = [sys.executable, "-m", "ottla.cli", "consume", topic, "-g", group, "-b", cluster1.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment()) as consumer:
        assert consumer.stdout is not None
        assert len([consumer.stdout.readline() for _ in range(10)]) == 10
        consumer.send_signal(signal.SIGTERM)
        _, err = consumer.communicate(timeout=scaled(20))
    assert (consumer.returncode, err) == (143, b"interrupted: read 10 records\n")
    with Admin(bootstrap_servers=cluster1.bootstrap) as admin:
        assert not admin.describe_group(group).members


def test_group_is_read_shown_reset_and_deleted(cluster1: LocalCluster, topic: str, group: str) -> None:
    bootstrap = cluster1.bootstrap
    first = ottla("consume", topic, "-g", group, "-n", "4", bootstrap=bootstrap)
    assert (first.returncode, first.stderr, len(first.stdout.split())) == (0, "", 4)
    rest = ottla("consume", topic, "-g", group, "-e", bootstrap=bootstrap)
    assert sorted(map(int, (first.stdout + rest.stdout).split())) == list(range(10)), "it goes on where it was"

    listed = json.loads(ottla("group", "list", "--format", "json", bootstrap=bootstrap).stdout)
    assert {"group": group, "state": "Empty"} in listed
    lag = json.loads(ottla("group", "lag", group, "--format", "json", bootstrap=bootstrap).stdout)
    assert [(one["partition"], one["current_offset"], one["lag"]) for one in lag] == [(0, 5, 0), (1, 5, 0)]
    assert [one["lag_seconds"] for one in lag] == [0, 0]

    planned = ottla("group", "reset", group, "-o", "earliest", bootstrap=bootstrap)
    assert "nothing was changed" in planned.stderr
    assert planned.stdout.splitlines()[1:] == [f"{topic}\t0\t5\t0", f"{topic}\t1\t5\t0"]
    assert ottla("group", "lag", group, bootstrap=bootstrap).stdout.splitlines()[1].split("\t")[4] == "0"
    ottla("group", "reset", group, f"{topic}:1", "-o", "-2", "--execute", bootstrap=bootstrap)
    lag = json.loads(ottla("group", "lag", group, "--format", "json", bootstrap=bootstrap).stdout)
    assert (lag[1]["lag"], 0 < lag[1]["lag_seconds"] < 300) == (2, True)
    again = ottla("consume", topic, "-g", group, "-e", bootstrap=bootstrap)
    assert again.stdout.split() == ["7", "9"]

    places = (f"{topic}:0=3", f"{topic}:1=latest")
    dry = ottla("group", "seek", group, *places, "--dry-run", bootstrap=bootstrap)
    assert dry.stdout.splitlines()[1:] == [f"{topic}\t0\t5\t3", f"{topic}\t1\t5\t5"]
    assert ottla("group", "seek", group, *places, "--execute", bootstrap=bootstrap).returncode == 0
    assert ottla("consume", topic, "-g", group, "-e", bootstrap=bootstrap).stdout.split() == ["6", "8"]

    assert ottla("group", "delete", group, "-y", bootstrap=bootstrap).returncode == 0
    gone = ottla("group", "describe", group, bootstrap=bootstrap)
    assert (gone.returncode, gone.stdout) == (4, "")
    assert f"group {group} does not exist" in gone.stderr


def test_group_with_members_is_described_and_neither_reset_nor_deleted(
    cluster1: LocalCluster, topic: str, group: str
) -> None:
    bootstrap = cluster1.bootstrap
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", client_id="me"
    ) as consumer:
        consumer.subscribe([topic])
        records: list[object] = []
        while len(records) < 10:
            records += consumer.poll(0.2)
        described = json.loads(ottla("group", "describe", group, "--format", "json", bootstrap=bootstrap).stdout)
        assert (described["state"], described["strategy"], len(described["members"])) == (
            "Stable",
            "cooperative-sticky",
            1,
        )
        assert described["members"][0]["client_id"] == "me"
        for command in (("reset", group, topic, "--execute"), ("delete", group, "-y")):
            refused = ottla("group", *command, bootstrap=bootstrap)
            assert refused.returncode == 1
            assert "member" in refused.stderr


def test_what_a_group_cannot_do_is_told(cluster1: LocalCluster, topic: str, group: str) -> None:
    for options in (("-p", "0"), ("-o", "5")):
        refused = ottla("consume", topic, "-g", group, *options, bootstrap=cluster1.bootstrap)
        assert refused.returncode in (1, 2)
        assert "hint:" in refused.stderr


def test_group_that_is_sent_beyond_the_end_is_told_where_it_went(
    cluster1: LocalCluster, topic: str, group: str
) -> None:
    moved = ottla("group", "seek", group, f"{topic}:0=5000", "--execute", bootstrap=cluster1.bootstrap)
    assert moved.returncode == 0
    assert f"the nearer end is taken: {topic}[0] has 0 to " in moved.stderr
    read = ottla("consume", topic, "-o", "5000", "-e", bootstrap=cluster1.bootstrap)
    assert (read.returncode, read.stdout) == (0, "")
    assert "not 5000" in read.stderr
