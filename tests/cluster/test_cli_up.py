"""``ottla up``, ``down``, ``status``, ``broker`` and ``zookeeper``, and how fast the command itself starts."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.local.state import load_state
from ottla.zk.ensemble.ports import free_ports
from tests.support.cluster import ottla, wait_until
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster


# --- up, down, status --------------------------------------------------------------------------------------------------------


def free_port_pair() -> int:
    """A port whose admin port, 1000 below, is free too."""
    for port in free_ports(50):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port - 1000))
            except OSError:
                continue
        return port
    raise AssertionError("no port")


def test_detached_cluster_is_shown_and_stopped(tmp_path: Path) -> None:
    port, data = free_port_pair(), str(tmp_path / "data")
    assert ottla("status", "--data", data).returncode == 4
    up = ottla("up", "--brokers", "1", "--port", str(port), "--data", data, "--detach")
    try:
        assert up.returncode == 0, up.stderr
        assert f"127.0.0.1:{port}" in up.stdout
        again = ottla("up", "--brokers", "1", "--port", str(port), "--data", data, "--detach")
        assert again.returncode == 1
        assert "already" in again.stderr
        assert f"`ottla status --data {data}`" in again.stderr
        status = ottla("status", "--data", data, "--format", "json")
        value = json.loads(status.stdout)
        assert status.returncode == 0, status.stdout
        assert value["controller"] == 0
        assert [process["state"] for process in value["processes"]] == ["running", "ready"]
        state = load_state(Path(data))
        assert state is not None
        os.kill(state.brokers[0].process.pid, signal.SIGKILL)
        wait_until(lambda: not state.brokers[0].process.alive)
        assert ottla("status", "--data", data).returncode == 1
    finally:
        down = ottla("down", "--data", data)
    assert down.returncode == 0, down.stderr
    members = [state.owner, *(member.process for member in (*state.brokers, *state.zookeepers))]
    assert not any(process.alive for process in members)
    assert ottla("down", "--data", data).returncode == 4


def test_cluster_in_the_foreground_ends_cleanly_with_ctrl_c(tmp_path: Path) -> None:
    port = free_port_pair()
    command = [sys.executable, "-m", "ottla.cli", "up", "--brokers", "1", "--port", str(port), "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment()) as up:
        assert up.stdout is not None
        while b"Ctrl-C" not in (line := up.stdout.readline()):
            assert line, "it ended before it was up"
        state = load_state(tmp_path)
        assert state is not None
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=scaled(60))
    assert up.returncode == 130
    assert b"Traceback" not in err
    assert load_state(tmp_path) is None
    assert not any(member.process.alive for member in (*state.brokers, *state.zookeepers))


def test_taken_port_is_told_by_up(cluster1: LocalCluster, tmp_path: Path) -> None:
    port = cluster1.bootstrap.rpartition(":")[2]
    for mode in ([], ["--detach"]):
        failed = ottla("up", "--brokers", "1", "--port", port, "--data", str(tmp_path), *mode)
        assert failed.returncode == 1
        assert f"port {port} cannot be used" in failed.stderr


# --- broker, zookeeper -------------------------------------------------------------------------------------------------------


def test_zookeeper_and_broker_run_in_the_foreground(tmp_path: Path) -> None:
    zookeeper_port, port, admin_port = free_ports(3)
    config = tmp_path / "server.properties"
    config.write_text(f"broker.id=7\nzookeeper.connect=127.0.0.1:{zookeeper_port}\nlog.dirs={tmp_path / 'logs'}\n")
    command = [sys.executable, "-m", "ottla.cli"]
    options = ["-o", f"listeners=PLAINTEXT://127.0.0.1:{port}", "-o", f"admin.listener=http://127.0.0.1:{admin_port}"]
    zookeeper_command = [*command, "zookeeper", "--data", str(tmp_path / "zk"), "--port", str(zookeeper_port)]
    log_path = tmp_path / "log"
    with log_path.open("wb") as log, subprocess.Popen(zookeeper_command, stdout=log, stderr=log) as zookeeper:
        try:
            with subprocess.Popen(
                [*command, "broker", "--config", str(config), *options], stdout=log, stderr=log, env=child_environment()
            ) as broker:
                try:
                    wait_until(lambda: ottla("cluster", "info", "-b", f"127.0.0.1:{port}").returncode == 0, scaled(40))
                    shown = ottla("cluster", "info", "--format", "json", "-b", f"127.0.0.1:{port}")
                    assert json.loads(shown.stdout)["brokers"][0]["id"] == 7
                    broker.send_signal(signal.SIGINT)
                    assert broker.wait(scaled(20)) == 0
                finally:
                    broker.kill()
        finally:
            zookeeper.kill()


def test_broker_with_wrong_config_says_so_and_ends_with_1() -> None:
    failed = ottla("broker", "-o", "broker.idd=1")
    assert failed.returncode == 1
    assert "hint: did you mean broker.id?" in failed.stderr


# --- start-up ----------------------------------------------------------------------------------------------------------------


def best_of_five(*arguments: str) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def test_help_answers_within_300_ms_of_a_bare_python() -> None:
    assert best_of_five("-m", "ottla.cli", "--help") - best_of_five("-c", "pass") < 0.3


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, ottla.cli.main; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    heavy = {
        "rich.table",
        "aiohttp",
        "kazoo",
        "asyncio",
        "uvloop",
        "msgspec",
        "ottla.client.blocking.producer",
        "ottla.client.producing.producer",
        "ottla.local.cluster",
    }
    assert not loaded & heavy


# --- one broker of a local cluster -------------------------------------------------------------------------------------------


def test_a_broker_of_a_local_cluster_is_stopped_and_started_and_the_folder_deleted(tmp_path: Path) -> None:
    port, data = free_port_pair(), str(tmp_path / "data")
    up = ottla("up", "--brokers", "1", "--port", str(port), "--data", data, "--detach", "-o", "message.max.bytes=4321")
    try:
        assert up.returncode == 0, up.stderr
        shown = (tmp_path / "data" / "broker-0" / "server.properties").read_text()
        assert "message.max.bytes=4321" in shown
        assert ottla("start", "broker-0", "--data", data).returncode == 2
        assert ottla("stop", "broker-9", "--data", data).returncode == 4
        for options in ([], ["--kill"]):
            stopped = ottla("stop", "broker-0", "--data", data, *options)
            assert stopped.stdout == "stopped broker-0\n", stopped.stderr
            assert ottla("status", "--data", data).returncode == 1
            started = ottla("start", "0", "--data", data)
            assert started.stdout == f"started broker-0 at 127.0.0.1:{port}\n", started.stderr
            wait_until(lambda: ottla("status", "--data", data).returncode == 0, scaled(20))
    finally:
        down = ottla("down", "--delete", "--data", data)
    assert down.returncode == 0, down.stderr
    assert not (tmp_path / "data").exists()


def test_only_the_folder_of_a_local_cluster_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    assert ottla("down", "--delete", "--data", str(tmp_path)).returncode == 4
    assert (tmp_path / "mine").exists()


def test_a_start_that_failed_leaves_no_mark(cluster1: LocalCluster, tmp_path: Path) -> None:
    port = cluster1.bootstrap.rpartition(":")[2]
    for mode in ([], ["--detach"]):
        assert ottla("up", "--brokers", "1", "--port", port, "--data", str(tmp_path / "new"), *mode).returncode == 1
        assert not (tmp_path / "new").exists()
    pairs = [f"{key}={value}" for key, value in cluster1.zookeeper_properties.items()]
    options = [
        word
        for pair in ("broker.id=0", f"log.dirs={tmp_path / 'logs'}", "listeners=PLAINTEXT://127.0.0.1:0",
                     "admin.listener=http://127.0.0.1:0", "zookeeper.session.timeout.ms=1000", *pairs)
        for word in ("-o", pair)
    ]  # fmt: skip
    failed = ottla("broker", *options)  # 0 is taken
    assert failed.returncode == 1
    assert "taken" in failed.stderr
    assert not (tmp_path / "logs").exists() or not any((tmp_path / "logs").iterdir())


def test_what_is_no_folder_or_no_text_is_an_error(cluster1: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfe\x00")
    binary = ottla("broker", "--config", str(tmp_path / "file"))
    assert (binary.returncode, "Traceback" in binary.stderr) == (1, False)
    assert "is no properties file" in binary.stderr
    pairs = [f"{key}={value}" for key, value in cluster1.zookeeper_properties.items()]
    for name in ("log.dirs", "log.dir"):  # Kafka's older name too
        options = [word for pair in ("broker.id=9", f"{name}={tmp_path / 'file'}", *pairs) for word in ("-o", pair)]
        failed = ottla("broker", *options)
        assert (failed.returncode, "Traceback" in failed.stderr) == (1, False)
        assert "cannot be used" in failed.stderr
