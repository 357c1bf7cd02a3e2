"""docs/checklist.md, section A: membership and discovery. Four brokers, as in the seed's picture."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.zk.ensemble.ports import free_ports
from tests.support.cluster import wait_until
from tests.support.observer import SHORT, WAIT_S, Observer

pytestmark = pytest.mark.cluster

BROKERS = 4


def broker_command(folder: Path, cluster: LocalCluster, **properties: str) -> list[str]:
    """A broker that is started by hand, as a user does it, with the ZooKeeper of a cluster."""
    ports = free_ports(2)
    own = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]}",
        "admin.listener": f"http://127.0.0.1:{ports[1]}",
        "log.dirs": str(folder / "data"),
        **SHORT,
        **cluster.zookeeper_properties,
        **{key.replace("_", "."): value for key, value in properties.items()},
    }
    (folder / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in own.items()))
    return [sys.executable, "-m", "ottla.broker", "--config", str(folder / "server.properties")]


# --- registration ---


def test_s01_broker_list_in_zookeeper_is_the_live_brokers(seen: Observer) -> None:
    assert seen.broker_ids() == [0, 1, 2, 3]
    seen.cluster.terminate(3)
    wait_until(lambda: seen.broker_ids() == [0, 1, 2], WAIT_S)
    seen.cluster.start(3)
    wait_until(lambda: seen.broker_ids() == [0, 1, 2, 3], WAIT_S)


def test_s02_broker_id_names_a_broker_and_must_be_given(seen: Observer, tmp_path: Path) -> None:
    for broker in seen.cluster.brokers:
        properties = (seen.cluster.data_path(broker).parent / "server.properties").read_text()
        assert f"broker.id={broker}\n" in properties
        told = seen.metadata(broker).brokers
        assert [found.id for found in told if found.port == port_of(seen, broker)] == [broker]
    nameless = subprocess.run(
        broker_command(tmp_path, seen.cluster),
        capture_output=True, text=True, timeout=WAIT_S, env=child_environment(), check=False,
    )  # fmt: skip
    assert nameless.returncode == 1
    assert "broker.id" in nameless.stderr


def test_s03_s09_registration_is_ephemeral_and_says_host_and_port(seen: Observer) -> None:
    owners = set()
    for broker in seen.cluster.brokers:
        registered = seen.read(f"/brokers/ids/{broker}")
        assert (registered["host"], registered["port"]) == ("127.0.0.1", port_of(seen, broker))
        owners.add(seen.owner(f"/brokers/ids/{broker}"))
    assert len(owners) == 4, "every broker has a session of its own"
    assert 0 not in owners
    assert len({port_of(seen, broker) for broker in seen.cluster.brokers}) == 4


def port_of(seen: Observer, broker: int) -> int:
    return int(seen.cluster.address(broker).rpartition(":")[2])


def test_s04_properties_file_with_a_chroot_per_host_is_honoured(seen: Observer, tmp_path: Path) -> None:
    server = seen.cluster.zookeeper_servers.address(0)
    chroot = f"kafka-{uuid.uuid4().hex[:8]}"
    command = broker_command(
        tmp_path, seen.cluster, broker_id="7", zookeeper_connect=f"{server}/{chroot}/,{server}/{chroot}"
    )
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(command, env=child_environment(), stdout=log, stderr=log)
    try:
        wait_until(lambda: seen.zk.exists(f"/{chroot}/brokers/ids/7") is not None, WAIT_S)
        wait_until(lambda: seen.zk.exists(f"/{chroot}/controller") is not None, WAIT_S)
        assert seen.broker_ids() == [0, 1, 2, 3], "the cluster without a chroot has nothing to do with it"
        assert seen.zk.exists("/brokers/ids/7") is None
    finally:
        broker.terminate()
        assert broker.wait(WAIT_S) == 0


def test_s05_registration_goes_when_a_broker_is_killed(seen: Observer) -> None:
    seen.cluster.kill(2)
    wait_until(lambda: seen.broker_ids() == [0, 1, 3], WAIT_S)


def test_s05_registration_goes_when_a_broker_is_cut_off_and_comes_back_with_it(seen: Observer) -> None:
    before = seen.owner("/brokers/ids/2")
    seen.cluster.pause(2)  # ZooKeeper hears nothing of it any more, though its process and its sockets are there
    wait_until(lambda: seen.broker_ids() == [0, 1, 3], WAIT_S)
    assert seen.cluster.alive(2)
    seen.cluster.resume(2)
    wait_until(lambda: seen.broker_ids() == [0, 1, 2, 3], WAIT_S)
    assert seen.owner("/brokers/ids/2") != before


def test_s06_second_broker_with_the_same_id_is_refused_and_the_first_stays(seen: Observer, tmp_path: Path) -> None:
    owner = seen.owner("/brokers/ids/1")
    command = broker_command(tmp_path, seen.cluster, broker_id="1")
    second = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, env=child_environment(), check=False
    )
    assert second.returncode != 0
    assert "broker.id 1 is taken" in second.stderr
    assert "is lost" not in second.stderr, "nothing was: it is the other one's data that this folder does not have"
    assert "Traceback" not in second.stderr
    assert seen.owner("/brokers/ids/1") == owner
    assert seen.cluster.is_ready(1)


def test_s07_watchers_of_the_broker_list_are_notified(seen: Observer) -> None:
    def change(stop_or_start: object) -> None:
        told = threading.Event()
        assert seen.zk.get_children("/brokers/ids", watch=lambda _: told.set())
        assert callable(stop_or_start)
        stop_or_start(3)
        assert told.wait(WAIT_S)

    change(seen.cluster.kill)
    wait_until(lambda: seen.broker_ids() == [0, 1, 2], WAIT_S)
    change(seen.cluster.start)
    # Not only we: the controller watches, and every broker has heard of it.
    wait_until(lambda: all(len(seen.metadata(i).brokers) == 4 for i in seen.cluster.brokers), WAIT_S)


def test_s08_registration_ends_with_its_session_and_the_broker_registers_anew(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=[[1, 0, 2], [0, 1, 3]], timeout=WAIT_S)
    seen.produce(name, [b"before"] * 10)
    path = "/brokers/ids/1"
    before, pid = seen.owner(path), seen.cluster.pid(1)
    gone = threading.Event()
    assert seen.zk.exists(path, watch=lambda event: gone.set() if event.type == "DELETED" else None)
    seen.expire(before)
    assert gone.wait(WAIT_S)
    wait_until(lambda: seen.zk.exists(path) is not None, WAIT_S)
    assert seen.owner(path) != before
    assert seen.cluster.pid(1) == pid, "the process is the same: it needed no restart"
    seen.wait_in_sync(name)
    seen.produce(name, [b"after"] * 10)
    assert sum(map(len, seen.consume(name, 20).values())) == 20


# --- discovery ---


def test_s10_s13_four_brokers_find_each_other_by_zookeeper_alone(seen: Observer, name: str) -> None:
    ports = {str(port_of(seen, broker)) for broker in seen.cluster.brokers}
    for broker in seen.cluster.brokers:
        properties = (seen.cluster.data_path(broker).parent / "server.properties").read_text()
        assert {port for port in ports if port in properties} == {str(port_of(seen, broker))}
    # One broker's address is enough for a client; that the replicas are in sync shows that brokers reach each other.
    with Admin(bootstrap_servers=seen.cluster.address(2)) as admin:
        admin.create_topic(name, partitions=4, replication_factor=4, timeout=WAIT_S)
        assert sorted(broker.id for broker in admin.describe_cluster().brokers) == [0, 1, 2, 3]
    seen.produce(name, [b"%d" % n for n in range(40)])
    seen.wait_in_sync(name)
    assert sorted(seen.leader(name, partition) for partition in range(4)) == [0, 1, 2, 3]


def test_s11_every_broker_learns_of_brokers_and_topics_that_come_and_go(seen: Observer, name: str) -> None:
    def all_tell(brokers: list[int], topic: bool) -> bool:
        told = [seen.metadata(broker) for broker in brokers]
        return all(
            sorted(found.id for found in one.brokers) == brokers and (name in {t.name for t in one.topics}) == topic
            for one in told
        )

    seen.admin.create_topic(name, partitions=2, timeout=WAIT_S)
    wait_until(lambda: all_tell([0, 1, 2, 3], topic=True), WAIT_S)
    seen.cluster.kill(3)
    wait_until(lambda: all_tell([0, 1, 2], topic=True), WAIT_S)
    seen.cluster.start(3)
    wait_until(lambda: all_tell([0, 1, 2, 3], topic=True), WAIT_S)
    seen.admin.delete_topic(name, timeout=WAIT_S)
    wait_until(lambda: all_tell([0, 1, 2, 3], topic=False), WAIT_S)


def test_s12_any_broker_can_be_controller_and_leader(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=[[i, (i + 1) % 4, (i + 2) % 4] for i in range(4)], timeout=WAIT_S)
    assert [seen.leader(name, partition) for partition in range(4)] == [0, 1, 2, 3]
    seen.produce(name, [b"v"] * 40)
    for chosen in seen.cluster.brokers:
        others = [broker for broker in seen.cluster.brokers if broker != chosen]
        for other in others:
            os.kill(seen.cluster.pid(other), signal.SIGTERM)
        for other in others:
            seen.cluster.terminate(other)
        wait_until(lambda chosen=chosen: seen.controller() == chosen, WAIT_S)  # type: ignore[misc]
        assert seen.wait_controller() == chosen
        for other in others:
            seen.cluster.start(other)
    seen.wait_in_sync(name)
    assert sum(map(len, seen.consume(name, 40).values())) == 40
