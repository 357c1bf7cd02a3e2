"""A broker as a program: its health, its metrics, and where its settings come from."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.wire.errors import (
    OttlaError,
)
from ottla.zk.ensemble.ports import free_ports
from tests.support.broker_requests import WAIT_S, address, batch, get
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.cluster

# --- health and metrics ---


def test_health_readiness_and_metrics_are_served(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name, assignment=[[1]])

    def metric(broker: int, wanted: str) -> float:
        lines = get(f"{cluster.admin_url(broker)}/metrics").splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(wanted))

    for broker in cluster.brokers:
        assert get(f"{cluster.admin_url(broker)}/healthz") == "ok\n"
        assert get(f"{cluster.admin_url(broker)}/readyz") == "ready\n"
    records, failures = metric(1, "ottla_records_in_total"), 'ottla_request_errors_total{api="PRODUCE"'
    with RawClient(address(cluster, 1)) as client:
        client.produce(name, batch(b"a", b"b", b"c")).raise_if_failed()
        with pytest.raises(OttlaError):
            client.produce(name, batch(b"v"), acks=7)
    assert metric(1, "ottla_records_in_total") == records + 3
    assert metric(1, failures) >= 1
    assert metric(1, "ottla_bytes_in_total") > 0
    assert metric(1, 'ottla_requests_total{api="PRODUCE"}') >= 1
    assert metric(1, "ottla_leader_partitions") >= 1
    assert sum(metric(broker, "ottla_active_controller") for broker in cluster.brokers) == 1


# --- properties ---


def run_broker(
    *arguments: str, environment: dict[str, str] | None = None, timeout_s: float = WAIT_S
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ottla.broker", *arguments]
    env = {**child_environment(), **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=env, check=False)


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(cluster: LocalCluster, tmp_path: Path) -> None:
    ports = free_ports(4)
    file = tmp_path / "server.properties"
    zookeeper = {**cluster.zookeeper_properties, "zookeeper.connect": f"{cluster.zookeeper}/precedence"}
    file.write_text(
        f"# a comment\nbroker.id=10\nlog.dirs={tmp_path / 'data'}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports[0]}\nadmin.listener=http://127.0.0.1:{ports[1]}\n"
        + "".join(f"{key}={value}\n" for key, value in zookeeper.items())
        + "broker.rack=file\nof.some.later.version=1\n"
    )
    command = [sys.executable, "-m", "ottla.broker", "--config", str(file)]
    command += ["-o", "broker.id=12", "-o", f"admin.listener=http://127.0.0.1:{ports[3]}"]
    environment = {"OTTLA_BROKER_ID": "11", "OTTLA_LISTENERS": f"PLAINTEXT://127.0.0.1:{ports[2]}"}
    log = (tmp_path / "log").open("wb")
    broker = subprocess.Popen(command, env={**child_environment(), **environment}, stderr=log, stdout=log)
    try:
        with Admin(bootstrap_servers=f"127.0.0.1:{ports[2]}") as admin:
            [found] = admin.describe_cluster(timeout=WAIT_S).brokers
        assert (found.id, found.port, found.rack) == (12, ports[2], "file")
        assert get(f"http://127.0.0.1:{ports[3]}/healthz") == "ok\n"
        assert "of.some.later.version" in (tmp_path / "log").read_text()
    finally:
        broker.terminate()
        assert broker.wait(WAIT_S) == 0
        log.close()


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("broker.id=-5", "broker.id=-5"),
        ("broker.id=one", "give a whole number"),
        ("listeners=nonsense", "listeners='nonsense'"),
        ("log.flush.policy=never", "log.flush.policy"),
        ("zookeeper.session.timeout.ms=20000", "below replica.lag.time.max.ms"),
        ("log.dirs=,", "log.dirs"),
        ("message.max.bytes=0", "message.max.bytes"),
        ("brokerid=1", "did you mean broker.id"),
        ("broker.id", "is not key=value"),
    ],
)
def test_config_that_makes_no_sense_is_refused_with_its_name(tmp_path: Path, flag: str, says: str) -> None:
    folder = f"log.dirs={tmp_path}"
    ended = run_broker("-o", "broker.id=1", "-o", folder, "-o", "listeners=127.0.0.1:0", "-o", flag)
    assert ended.returncode == 1
    assert says in ended.stderr
    assert ended.stderr.startswith("error: ")
    assert "Traceback" not in ended.stderr


def test_missing_properties_file_is_refused(tmp_path: Path) -> None:
    ended = run_broker("--config", str(tmp_path / "nowhere.properties"))
    assert ended.returncode == 1
    assert "cannot read" in ended.stderr
