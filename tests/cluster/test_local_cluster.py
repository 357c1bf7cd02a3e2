"""LocalCluster on real processes: it starts them, breaks them as told, and leaves none behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster, LocalClusterError
from ottla.local.processes import start_time
from ottla.local.state import RunningProcess
from ottla.zk.ensemble.java import EnsembleUnavailable
from tests.support.cluster import wait_until
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

WAIT_S = scaled(20.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One broker that the tests of this file break; each leaves it running."""
    with LocalCluster(brokers=1) as running:
        yield running


def write(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        producer.send_many(topic, values).result(timeout=WAIT_S)


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        while len(values) < count:
            records = consumer.poll(timeout=WAIT_S)
            assert records, f"only {len(values)} of {count} records came"
            values += [record.value for record in records]
    return values


def running(pid: int) -> RunningProcess:
    return RunningProcess(pid, start_time(pid))


def test_started_cluster_serves_clients(cluster: LocalCluster) -> None:
    assert cluster.is_ready(0)
    assert cluster.brokers == [0]
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        [broker] = admin.describe_cluster(timeout=WAIT_S).brokers
    assert f"127.0.0.1:{broker.port}" == cluster.bootstrap
    assert broker.rack == cluster.rack(0) == "rack1"
    assert "broker started" in cluster.log_path(0).read_text()
    assert cluster.data_path(0).is_dir()


def test_killed_broker_comes_back_with_its_data_and_its_port(cluster: LocalCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("kept", partitions=1, timeout=WAIT_S)
    values = [b"%d" % i for i in range(1000)]
    write(cluster, "kept", values)
    before, bootstrap = cluster.pid(0), cluster.bootstrap
    cluster.kill(0)
    assert not cluster.alive(0)
    assert not cluster.is_ready(0)
    cluster.start(0)
    assert cluster.pid(0) != before
    assert cluster.bootstrap == bootstrap
    assert read(cluster, "kept", 1000) == values


def test_terminated_broker_ends_with_0_and_a_clean_log(cluster: LocalCluster) -> None:
    logged = len(cluster.log_path(0).read_text())
    assert cluster.terminate(0) == 0
    cluster.start(0)
    news = cluster.log_path(0).read_text()[logged:]
    assert "unclean=False" in news
    assert "Traceback" not in news


def test_paused_broker_answers_nothing_until_it_is_resumed(cluster: LocalCluster) -> None:
    cluster.pause(0)
    try:
        assert cluster.alive(0)
        assert not cluster.is_ready(0)
    finally:
        cluster.resume(0)
    cluster.wait_ready(WAIT_S)


def test_broker_that_runs_is_not_started_twice(cluster: LocalCluster) -> None:
    with pytest.raises(Exception, match="running already"):
        cluster.start(0)
    with pytest.raises(LocalClusterError, match="no broker 5"):
        cluster.kill(5)
    assert cluster.is_ready(0)


def test_zookeeper_server_can_be_killed_and_started(cluster: LocalCluster) -> None:
    servers = cluster.zookeeper_servers
    before = servers.pid(0)
    servers.kill(0)
    assert not servers.alive(0)
    servers.start(0)
    assert servers.pid(0) != before
    assert cluster.zookeeper == servers.address(0)
    cluster.wait_ready(WAIT_S)


def test_brokers_stand_in_racks_by_turns_and_nothing_is_left_after_stop() -> None:
    with LocalCluster(brokers=2, racks=2) as cluster:
        folder = cluster.folder
        members = [running(cluster.pid(i)) for i in cluster.brokers] + [running(cluster.zookeeper_servers.pid(0))]
        assert all(member.alive for member in members)
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            brokers = admin.describe_cluster(timeout=WAIT_S).brokers
        assert sorted((broker.id, broker.rack) for broker in brokers) == [(0, "rack1"), (1, "rack2")]
        cluster.pause(1)  # one that cannot hear must go too
    assert [start_time(member.pid) for member in members] == [None] * 3, "not even a zombie is left"
    assert not folder.exists()


async def test_cluster_starts_inside_a_running_event_loop() -> None:
    with LocalCluster(brokers=1) as cluster:
        assert cluster.is_ready(0)


OWNER = """
import signal, sys
from ottla.local import LocalCluster
with LocalCluster(brokers=1, folder=sys.argv[1]) as cluster:
    print(cluster.pid(0), cluster.zookeeper_servers.pid(0), flush=True)
    signal.pause()
"""


def test_nothing_is_left_after_the_owner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            members = [running(int(pid)) for pid in owner.stdout.readline().split()]
            assert len(members) == 2
            assert all(member.alive for member in members)
        finally:
            os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not any(member.alive for member in members))


def test_given_folder_is_kept_locked_and_used_again(tmp_path: Path) -> None:
    cluster = LocalCluster(brokers=1, folder=tmp_path)
    with cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic("kept", timeout=WAIT_S)
        write(cluster, "kept", [b"a", b"b"])
        with pytest.raises(LocalClusterError, match="another cluster runs"):
            LocalCluster(brokers=1, folder=tmp_path).start()
        bootstrap = cluster.bootstrap
    with cluster:
        assert cluster.bootstrap == bootstrap
        assert read(cluster, "kept", 2) == [b"a", b"b"]


def test_broker_that_does_not_start_is_told_with_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_LOG_FLUSH_POLICY", "os")  # of a developer's shell: must not mend it
    cluster = LocalCluster(brokers=1, broker_config={"log.flush.policy": "perhaps"})
    with pytest.raises(LocalClusterError, match=r"(?s)broker 0 ended with code 1.*log\.flush\.policy=perhaps"):
        cluster.start()
    assert not cluster.folder.exists()


def test_machine_without_java_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise EnsembleUnavailable("no Java", hint="install one")

    monkeypatch.setattr("ottla.zk.ensemble.servers.find_java", nowhere)
    cluster = LocalCluster(brokers=1)
    with pytest.raises(EnsembleUnavailable):
        cluster.start()
    assert not cluster.folder.exists()
