"""Brokers with two listeners: they talk to each other inside, clients come in from outside and stay there."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.local.broker import child_environment, why_not_ready
from ottla.local.processes import Process, Reaper
from ottla.zk.ensemble.ports import free_ports
from ottla.zk.session.session import ZkSession
from tests.support.cluster import wait_until
from tests.support.connections import connected_to
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

WAIT_S = scaled(30.0)
INSIDE, OUTSIDE = "127.0.0.2", "127.0.0.3"
"""Two addresses of this machine, as a network of containers and the world around it."""


class TwoDoors:
    """A broker with two listeners."""

    def __init__(self, number: int, zookeeper: Mapping[str, str], folder: Path, reaper: Reaper) -> None:
        inside, outside, admin = free_ports(3)
        self.id = number
        self.inside, self.outside = (INSIDE, inside), (OUTSIDE, outside)
        self._admin_url = f"http://127.0.0.1:{admin}"
        properties = {
            "broker.id": str(number),
            **zookeeper,
            "listeners": f"INSIDE://0.0.0.0:{inside},OUTSIDE://0.0.0.0:{outside}",
            "advertised.listeners": f"INSIDE://{INSIDE}:{inside},OUTSIDE://{OUTSIDE}:{outside}",
            "inter.broker.listener.name": "INSIDE",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "admin.listener": self._admin_url,
            "log.dirs": str(folder / f"data-{number}"),
        }
        options = [part for key, value in properties.items() for part in ("-o", f"{key}={value}")]
        self.process = Process(
            f"broker-{number}", [sys.executable, "-m", "ottla.broker", *options],
            log_path=folder / f"broker-{number}.log", reaper=reaper, env=child_environment(),
        )  # fmt: skip

    def start(self) -> None:
        self.process.start()
        wait_until(lambda: why_not_ready(self._admin_url) is None, WAIT_S)


@pytest.fixture(scope="module")
def zookeeper(cluster1: LocalCluster) -> dict[str, str]:
    return {**cluster1.zookeeper_properties, "zookeeper.connect": f"{cluster1.zookeeper}/two-doors"}


@pytest.fixture(scope="module")
def brokers(zookeeper: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TwoDoors]]:
    folder = tmp_path_factory.mktemp("two-doors")
    reaper = Reaper()
    started = [TwoDoors(number, zookeeper, folder, reaper) for number in range(3)]
    try:
        for broker in started:
            broker.start()
        yield started
    finally:
        reaper.close()
        for broker in started:
            if broker.process.alive:
                broker.process.wait(scaled(15))


def bootstrap(addresses: list[tuple[str, int]]) -> str:
    return ",".join(f"{host}:{port}" for host, port in addresses)


def brokers_seen_from(address: tuple[str, int]) -> dict[int, tuple[str, int]]:
    with Admin(bootstrap_servers=bootstrap([address])) as admin:
        return {broker.id: (broker.host, broker.port) for broker in admin.describe_cluster(timeout=WAIT_S).brokers}


def test_each_door_tells_the_addresses_behind_it(brokers: list[TwoDoors]) -> None:
    wait_until(lambda: len(brokers_seen_from(brokers[0].outside)) == 3, WAIT_S)
    for asked in brokers:
        assert brokers_seen_from(asked.outside) == {broker.id: broker.outside for broker in brokers}
        assert brokers_seen_from(asked.inside) == {broker.id: broker.inside for broker in brokers}


async def test_registration_lists_both_and_leads_brokers_inside(
    brokers: list[TwoDoors], zookeeper: Mapping[str, str]
) -> None:
    session = ZkSession(zookeeper["zookeeper.connect"], timeout_ms=10_000)
    await session.start(WAIT_S)
    try:
        told = json.loads((await session.get("/brokers/ids/1"))[0])
    finally:
        await session.close()
    inside, outside = brokers[1].inside, brokers[1].outside
    assert (told["host"], told["port"]) == inside
    assert told["endpoints"] == [f"INSIDE://{inside[0]}:{inside[1]}", f"OUTSIDE://{outside[0]}:{outside[1]}"]
    assert told["listener_security_protocol_map"] == {"INSIDE": "PLAINTEXT", "OUTSIDE": "PLAINTEXT"}


@pytest.mark.parametrize("side", ["outside", "inside"])
def test_clients_of_one_door_never_go_to_the_other_and_brokers_stay_inside(brokers: list[TwoDoors], side: str) -> None:
    own = {getattr(broker, side) for broker in brokers}
    others = {broker.inside if side == "outside" else broker.outside for broker in brokers}
    topic = f"through-{side}"
    values = [b"%d" % i for i in range(300)]
    with Producer(bootstrap_servers=bootstrap([getattr(brokers[0], side)]), acks="all") as producer:
        with Admin(bootstrap_servers=bootstrap(sorted(own))) as admin:
            admin.create_topic(topic, partitions=3, replication_factor=3, timeout=WAIT_S)
        for value in values:
            producer.send(topic, value, key=value)
        producer.flush(timeout=WAIT_S)
        read: list[bytes] = []
        with Consumer(topic, bootstrap_servers=bootstrap(sorted(own)), auto_offset_reset="earliest") as consumer:
            while len(read) < len(values):
                records = consumer.poll(timeout=WAIT_S)
                assert records, f"{len(read)} of {len(values)} came"
                read += [record.value for record in records]
            met = connected_to(os.getpid())
    assert sorted(read) == sorted(values)
    assert own <= met, "every broker leads a partition, so each is met"
    assert not met & others
    for broker in brokers:
        met = connected_to(broker.process.pid)
        assert met & {other.inside for other in brokers if other is not broker}
        assert not met & {other.outside for other in brokers}


def test_failover_and_return_are_seen_from_outside(brokers: list[TwoDoors]) -> None:
    topic = "moves"
    with Admin(bootstrap_servers=bootstrap([broker.outside for broker in brokers])) as admin:
        admin.create_topic(topic, partitions=1, replication_factor=3, timeout=WAIT_S)
        leader = admin.describe_topic(topic).partitions[0].leader
        with Producer(bootstrap_servers=bootstrap([broker.outside for broker in brokers]), acks="all") as producer:
            producer.send(topic, b"before").result(timeout=WAIT_S)
            brokers[leader].process.kill()
            brokers[leader].process.wait(scaled(15))
            assert producer.send(topic, b"after").result(timeout=WAIT_S).offset == 1
        brokers[leader].start()
        wait_until(lambda: len(admin.describe_topic(topic).partitions[0].isr) == 3, WAIT_S)
        assert brokers_seen_from(brokers[leader].outside)[leader] == brokers[leader].outside


def test_free_ports_are_taken_for_each_listener(zookeeper: Mapping[str, str], tmp_path: Path) -> None:
    [admin_port] = free_ports(1)
    options = {
        "broker.id": "7",
        **zookeeper,
        "zookeeper.connect": f"{zookeeper['zookeeper.connect']}-of-its-own",
        "listeners": "INSIDE://127.0.0.2:0,OUTSIDE://127.0.0.3:0",
        "admin.listener": f"http://127.0.0.1:{admin_port}",
        "log.dirs": str(tmp_path / "data"),
    }
    reaper = Reaper()
    command = [sys.executable, "-m", "ottla.broker"]
    command += [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    broker = Process("broker", command, log_path=tmp_path / "log", reaper=reaper, env=child_environment())
    try:
        broker.start()
        wait_until(lambda: why_not_ready(f"http://127.0.0.1:{admin_port}") is None, WAIT_S)
        log = (tmp_path / "log").read_text()
        ports = dict(pair.split(":") for pair in log.split("ports=")[1].split()[0].split(","))
        assert len(set(ports.values())) == 2
        for name, host in (("INSIDE", INSIDE), ("OUTSIDE", OUTSIDE)):
            assert brokers_seen_from((host, int(ports[name]))) == {7: (host, int(ports[name]))}
    finally:
        reaper.close()
        if broker.alive:
            broker.wait(scaled(15))
