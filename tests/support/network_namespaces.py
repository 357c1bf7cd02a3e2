"""A local cluster whose brokers have network namespaces of their own, so that packets between any two of them can be dropped.

A dropped packet is not a closed connection: nobody is told anything, as when a switch fails. ZooKeeper and the tests are
outside of the namespaces and always reached. Needs root and the programs ``ip`` and ``iptables``.
"""

import contextlib
import functools
import itertools
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from ottla.local import LocalCluster
from ottla.local.broker import BrokerProcess
from ottla.zk.ensemble import servers

_numbers = itertools.count()
_prepare = BrokerProcess.prepare


class Network:
    """One switch, and a namespace for each broker. Only what was made here is removed by ``close``."""

    def __init__(self, brokers: int) -> None:
        self.brokers = range(brokers)
        self._number = next(_numbers)
        self._name = f"ottla-test-{os.getpid()}-{self._number}"
        self._subnet = _free_subnet()
        self._namespaces: list[str] = []

    def open(self) -> None:
        _remove_left_behind()
        switch, outside = f"{self._name}-sw", f"ot{os.getpid():x}.{self._number}"
        self._add_namespace(switch)
        _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "switch", "up")
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", "outside", "netns", switch)
        _run("ip", "address", "add", f"{self.outside}/24", "dev", outside)
        _run("ip", "link", "set", outside, "up")
        self._plug_in("outside")
        for broker in self.brokers:
            namespace = self.namespace(broker)
            self._add_namespace(namespace)
            _run(
                "ip",
                "-n",
                namespace,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"b{broker}",
                "netns",
                switch,
            )
            _run("ip", "-n", namespace, "address", "add", f"{self.address(broker)}/24", "dev", "eth0")
            _run("ip", "-n", namespace, "link", "set", "eth0", "up")
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
            self._plug_in(f"b{broker}")

    def close(self) -> None:
        """Remove the namespaces, and with them all of their devices."""
        for namespace in self._namespaces:
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)
        self._namespaces.clear()

    @property
    def outside(self) -> str:
        """The address of ZooKeeper and of clients."""
        return f"{self._subnet}.1"

    def address(self, broker: int) -> str:
        return f"{self._subnet}.{10 + broker}"

    def namespace(self, broker: int) -> str:
        return f"{self._name}-{broker}"

    def cut(self, one: int, *others: int) -> None:
        """Drop all packets between one broker and others."""
        for other in others:
            self.cut_one_way(one, other)
            self.cut_one_way(other, one)

    def cut_one_way(self, source: int, sink: int) -> None:
        """Drop what one broker sends to another."""
        self._iptables(sink, "-A", "INPUT", "-s", self.address(source), "-j", "DROP")

    def heal(self) -> None:
        for broker in self.brokers:
            self._iptables(broker, "-F", "INPUT")

    def _iptables(self, broker: int, *rule: str) -> None:
        _run("ip", "netns", "exec", self.namespace(broker), "iptables", "-w", *rule)

    def _add_namespace(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._namespaces.append(name)

    def _plug_in(self, device: str) -> None:
        _run("ip", "-n", self._namespaces[0], "link", "set", device, "master", "switch", "up")


class NamespacedCluster(LocalCluster):
    """A local cluster whose brokers are not at 127.0.0.1."""

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(broker) for broker in self.brokers)


@functools.cache
def why_impossible() -> str | None:
    """Why this machine lets us make no namespaces; None if it does."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [program for program in ("ip", "iptables") if shutil.which(program) is None]
    if missing:
        return f"network namespaces need {', '.join(missing)} (Debian: apt install iproute2 iptables)"
    network = Network(1)
    try:
        network.open()
        network.cut_one_way(0, 0)
    except NetworkUnavailable as error:
        return str(error)
    finally:
        network.close()
    return None


class NetworkUnavailable(Exception):
    """A command that makes or changes namespaces failed."""


@contextlib.contextmanager
def running_namespaced_cluster(brokers: int, config: Mapping[str, str]) -> Iterator[tuple[NamespacedCluster, Network]]:
    """A cluster and its network; both are gone at the end, whatever happens."""
    network = Network(brokers)

    def prepare_inside(self: BrokerProcess, zookeeper: str, *arguments: Any) -> None:
        _prepare(self, zookeeper.replace("127.0.0.1", network.outside), *arguments)
        # ip changes the namespace and becomes the broker: its process id is the one that was started.
        self.process.command[:0] = ["ip", "netns", "exec", network.namespace(self.id)]

    def address(self: BrokerProcess) -> str:
        return f"{network.address(self.id)}:{self.port}"

    def admin_url(self: BrokerProcess) -> str:
        return f"http://{network.address(self.id)}:{self.admin_port}"

    zookeeper_config = servers._CONFIG.replace("clientPortAddress=127.0.0.1", "clientPortAddress=0.0.0.0")
    with (
        mock.patch.object(BrokerProcess, "prepare", prepare_inside),
        mock.patch.object(BrokerProcess, "address", property(address)),
        mock.patch.object(BrokerProcess, "admin_url", property(admin_url)),
        mock.patch.object(servers, "_CONFIG", zookeeper_config),
    ):
        try:
            network.open()
            cluster = NamespacedCluster(brokers, broker_config=config)
            with cluster:
                yield cluster, network
        finally:
            network.close()


def _remove_left_behind() -> None:
    """Remove the namespaces of test runs that were killed."""
    for line in _run("ip", "netns", "list").splitlines():
        match = re.match(r"(ottla-test-(\d+)-\S+)", line)
        if match and not Path(f"/proc/{match[2]}").exists():
            subprocess.run(["ip", "netns", "delete", match[1]], capture_output=True, check=False)


def _free_subnet() -> str:
    """Three numbers of a subnet that this machine has no route to; at random, for other test runs choose at the same time."""
    routes = _run("ip", "route", "show") if shutil.which("ip") else ""
    subnets = [f"10.{random.randrange(200, 250)}.{random.randrange(250)}" for _ in range(100)]
    return next(subnet for subnet in subnets if f"{subnet}." not in routes)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkUnavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
