"""What a local cluster refuses before it starts anything, and what it tells about itself."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from ottla.local import LocalCluster, LocalClusterError
from ottla.local.broker import DIGEST_FILE, child_environment, make_digest, why_not_ready, zookeeper_rights
from ottla.local.errors import last_lines
from ottla.local.processes import start_time
from ottla.local.state import STATE_FILE, RunningProcess, load_state
from ottla.wire.errors import ConfigError
from ottla.zk.access import read_digest


def test_given_port_counts_up_and_admin_ports_lie_1000_below() -> None:
    cluster = LocalCluster(brokers=2, port=9092)
    assert cluster.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert cluster.brokers == [0, 1]


def test_free_ports_are_picked_once_and_differ() -> None:
    cluster = LocalCluster(brokers=5)
    assert len(set(cluster.bootstrap.split(","))) == 5
    assert cluster.bootstrap == cluster.bootstrap


@pytest.mark.parametrize(("brokers", "racks", "port"), [(0, 1, None), (1, 0, None), (1, 1, 80), (3, 1, 65535)])
def test_senseless_numbers_are_refused(brokers: int, racks: int, port: int | None) -> None:
    with pytest.raises(ConfigError):
        LocalCluster(brokers=brokers, racks=racks, port=port)


def test_properties_that_the_cluster_decides_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"broker\.id"):
        LocalCluster(broker_config={"broker.id": "7"})


def test_cluster_that_is_not_started_says_so() -> None:
    cluster = LocalCluster(brokers=1)
    for ask in (lambda: cluster.pid(0), lambda: cluster.zookeeper, lambda: cluster.folder, lambda: cluster.kill(0)):
        with pytest.raises(LocalClusterError, match="not started"):
            ask()
    cluster.stop()


def test_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LocalClusterError, match=f"port {port} cannot be used"):
            LocalCluster(brokers=1, port=port, folder=tmp_path).start()
    assert not (tmp_path / "broker-0").exists()


def test_ottla_settings_do_not_reach_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BROKER_ID", "77")
    monkeypatch.setenv("OTTLA_PURE", "1")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    environment = child_environment()
    assert [name for name in environment if name.startswith("OTTLA_")] == ["OTTLA_PURE"], "not a setting of a broker's"
    assert environment["SOMETHING_ELSE"] == "1"


def test_broker_that_does_not_answer_is_not_ready() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert "does not answer" in (why_not_ready(url) or "")


def test_last_lines_of_a_log_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert "no log" in last_lines(path)
    path.write_text("")
    assert "empty" in last_lines(path)
    path.write_text("".join(f"line {i}\n" for i in range(10_000)))
    assert last_lines(path, 2) == "  line 9998\n  line 9999"


def test_process_is_known_by_pid_and_start_time() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        started = start_time(process.pid)
        assert RunningProcess(process.pid, started).alive
        assert not RunningProcess(process.pid, "1").alive, "another process has this pid now"
    finally:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its parent took no note yet
        assert not RunningProcess(process.pid, started).alive
        process.wait()
    assert not RunningProcess(process.pid, started).alive


def test_state_file_that_makes_no_sense_is_an_error_not_a_crash(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    (tmp_path / STATE_FILE).write_text('{"owner": 7}')
    with pytest.raises(LocalClusterError):
        load_state(tmp_path)


def test_a_password_in_zookeeper_is_made_up_once_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "a"):
        make_digest(folder)
    first, other = read_digest(tmp_path / "a" / DIGEST_FILE), read_digest(tmp_path / "b" / DIGEST_FILE)
    assert first != other
    make_digest(tmp_path / "a")
    assert read_digest(tmp_path / "a" / DIGEST_FILE) == first, "the znodes of an earlier run are that user's"
    assert (tmp_path / "a" / DIGEST_FILE).stat().st_mode & 0o777 == 0o600
    assert zookeeper_rights(tmp_path / "a")["zookeeper.digest.file"] == str(tmp_path / "a" / DIGEST_FILE)


def test_zookeeper_gets_no_port_of_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    avoided: list[int] = []

    def stop_here(*_: object, avoid: list[int], **__: object) -> None:
        avoided.extend(avoid)
        raise LocalClusterError("enough")

    monkeypatch.setattr("ottla.local.zookeeper.plan_ensemble", stop_here)
    cluster = LocalCluster(brokers=2, port=9092, folder=tmp_path)
    monkeypatch.setattr("ottla.local.cluster._check_free", lambda ports: None)
    with pytest.raises(LocalClusterError, match="enough"):
        cluster.start()
    assert sorted(avoided) == [8092, 8093, 9092, 9093]
