"""The containers of docker-compose.yml: docker's own commands for processes, iptables in their networks for links."""

import contextlib
import os
import shutil
import time
from types import MappingProxyType

from ottla.chaos.faults import CLIENTS, Kind, NotOffered
from ottla.chaos.scenarios import Shape
from ottla.chaos.targets.docker import Container, containers, docker, docker_bytes, in_network_of
from ottla.chaos.targets.target import EPOCH_FILE_IN_THE_MAKING, Target
from ottla.chaos.targets.zookeeper_mode import zookeeper_mode
from ottla.local.broker import why_not_ready
from ottla.wire.errors import ConfigError

SESSION_S = 6.0
"""What brokers take unless they are told."""

HEAL_TIMEOUT_S = 120.0
CLIENT_PORT, ADMIN_PORT, ZOOKEEPER_PORT = 9092, 8092, 2181
DATA = "/var/lib/ottla"
LOG_LINES = "20"

_LIMIT = """
import os, resource, sys
what = getattr(resource, sys.argv[1])
hard = resource.prlimit(1, what)[1]
limits = {"none": hard, "no more": max(map(int, os.listdir("/proc/1/fd"))) + 1, "one": 1}
resource.prlimit(1, what, (limits[sys.argv[2]], hard))
"""
"""Sets a limit of the container's first process: to 1, to the descriptors in use, or to as much as it may have."""

_FILE_SIZE, _DESCRIPTORS = "RLIMIT_FSIZE", "RLIMIT_NOFILE"

_CUTS = (Kind.CUT, Kind.CUT_FROM, Kind.CUT_TO, Kind.ISOLATE, Kind.LATE_ANSWERS)


class ComposeTarget(Target):
    """A project that runs already (`make compose-up`); it is healed and left running."""

    name = "compose"

    def __init__(self, project: str = "ottla") -> None:
        self._project = project
        self._containers: dict[str, Container] = {}
        self._limited: set[tuple[str, str]] = set()
        self._spoilt: dict[tuple[str, str, int], str] = {}
        self._rules: dict[tuple[str, str], tuple[Container, list[str]]] = {}
        self.missing = MappingProxyType(_missing())
        self.session_s = SESSION_S

    def open(self, shape: Shape) -> None:
        self._look()
        if not self.brokers():
            raise ConfigError(
                f"no containers of the compose project {self._project!r}", hint="`make compose-up` starts them"
            )
        if len(self.brokers()) < shape.brokers:
            raise NotOffered(
                f"it needs {shape.brokers} brokers, project {self._project!r} has {len(self.brokers())}: "
                "PROFILES=racks make compose-up"
            )
        told = self._containers["broker0"].environment.get("OTTLA_ZOOKEEPER_SESSION_TIMEOUT_MS")
        self.session_s = int(told) / 1000 if told else SESSION_S
        ports = [self._containers[broker].ports[CLIENT_PORT] for broker in self.brokers()]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.heal_all()

    def close(self) -> None:
        if self._containers:
            self.heal_all()

    def _look(self) -> None:
        self._containers = containers(self._project)

    def _now(self, node: str) -> Container:
        """A node as it is now: another process, and another address, after each start."""
        self._look()
        return self._containers[node]

    # --- who there is ----------------------------------------------------------------------------------------------------

    def brokers(self) -> list[str]:
        return sorted(name for name in self._containers if name.startswith("broker"))

    def zookeepers(self) -> list[str]:
        return sorted(name for name in self._containers if name.startswith("zookeeper"))

    def racks(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for broker in self.brokers():
            found.setdefault(self._containers[broker].environment.get("OTTLA_BROKER_RACK", ""), []).append(broker)
        return found

    def zookeeper_leader(self) -> str | None:
        self._look()
        for server in self.zookeepers():
            address = self._containers[server].address
            if address and zookeeper_mode(address, ZOOKEEPER_PORT) == "leader":
                return server
        return None

    def running(self, node: str) -> bool:
        return self._now(node).running

    # --- processes -------------------------------------------------------------------------------------------------------

    def kill(self, node: str) -> None:
        docker("kill", self._containers[node].id)

    def stop(self, node: str) -> None:
        docker("stop", self._containers[node].id)

    def start(self, node: str) -> None:
        docker("start", self._containers[node].id)

    def pause(self, node: str) -> None:
        docker("pause", self._containers[node].id)

    def resume(self, node: str) -> None:
        with contextlib.suppress(NotOffered):  # it does not sleep
            docker("unpause", self._containers[node].id)

    # --- links and disks -------------------------------------------------------------------------------------------------

    def block(self, source: str, sink: str) -> None:
        """A rule in the network of the one end that is a container: what comes from there, or goes there, is dropped."""
        if sink == CLIENTS:
            container = self._now(source)
            rule = ["OUTPUT", "--destination", container.gateway]
        else:
            container = self._now(sink)
            from_ = container.gateway if source == CLIENTS else self._containers[source].address
            rule = ["INPUT", "--source", from_]
        if not container.running or not rule[-1]:
            return  # who is not there needs no cut
        rule += ["--jump", "DROP"]
        if not in_network_of(container, "iptables", "--wait", "--insert", *rule):
            raise NotOffered(f"iptables refused {' '.join(rule)} in the network of {container.service}")
        self._rules[source, sink] = (container, rule)

    def unblock(self, source: str, sink: str) -> None:
        found = self._rules.pop((source, sink), None)
        if found is not None:
            container, rule = found
            in_network_of(
                container, "iptables", "--wait", "--delete", *rule
            )  # fails where the network went with its container

    def fail_writes(self, node: str) -> None:
        """No file of the broker may grow any more: every write fails (EFBIG)."""
        self._limit(node, _FILE_SIZE, "one")

    def mend_writes(self, node: str) -> None:
        self._lift_limit(node, _FILE_SIZE)

    def exhaust_descriptors(self, node: str) -> None:
        self._limit(node, _DESCRIPTORS, "no more")

    def free_descriptors(self, node: str) -> None:
        self._lift_limit(node, _DESCRIPTORS)

    def _limit(self, node: str, what: str, to: str) -> None:
        """The broker's own user may set its limits."""
        docker("exec", self._containers[node].id, "python3", "-c", _LIMIT, what, to)
        self._limited.add((node, what))

    def _lift_limit(self, node: str, what: str) -> None:
        self._limited.discard((node, what))
        with contextlib.suppress(NotOffered):  # it has ended, and its limit with it
            docker("exec", self._containers[node].id, "python3", "-c", _LIMIT, what, "none")

    def damage(self, node: str, topic: str, partition: int, how: str) -> None:
        """By a container of the same image with the same volumes: the broker may be dead."""
        container = self._containers[node]
        command = ("-m", "ottla.chaos.targets.damage", how, f"{DATA}/{topic}-{partition}")
        run = ("run", "--rm", "--network", "none", "--volumes-from", container.id, "--entrypoint", "python3")
        docker(*run, container.image, *command)

    def wipe(self, node: str) -> None:
        """By a container of the same image with the same volumes: nothing runs in one that is dead."""
        container = self._containers[node]
        erase = ("--entrypoint", "find", container.image, DATA, "-mindepth", "1", "-delete")
        docker("run", "--rm", "--network", "none", "--volumes-from", container.id, *erase)

    def spoil_epochs(self, node: str, topic: str, partition: int) -> None:
        place = f"{DATA}/{topic}-{partition}/{EPOCH_FILE_IN_THE_MAKING}"
        docker("exec", self._containers[node].id, "mkdir", place)
        self._spoilt[node, topic, partition] = place

    def mend_epochs(self, node: str, topic: str, partition: int) -> None:
        docker("exec", self._containers[node].id, "rm", "-rf", self._spoilt.pop((node, topic, partition)))

    # --- the end ---------------------------------------------------------------------------------------------------------

    def heal_all(self) -> None:
        for source, sink in list(self._rules):
            self.unblock(source, sink)
        for limited in list(self._limited):
            self._lift_limit(*limited)
        self._look()
        for node in (*self.zookeepers(), *self.brokers()):
            if self._containers[node].running:
                self.resume(node)
            else:
                self.start(node)
        for spoilt in list(self._spoilt):
            self.mend_epochs(*spoilt)
        self._wait_ready()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + HEAL_TIMEOUT_S
        waiting = self.brokers()
        while waiting:
            urls = {broker: f"http://127.0.0.1:{self._containers[broker].ports[ADMIN_PORT]}" for broker in waiting}
            reasons = {broker: why_not_ready(url) for broker, url in urls.items()}
            waiting = [broker for broker in waiting if reasons[broker] is not None]
            if waiting and time.monotonic() > deadline:
                raise ConfigError(f"{waiting[0]} is not ready after {HEAL_TIMEOUT_S:g} s: {reasons[waiting[0]]}")
            time.sleep(0.1)

    def replica_log(self, node: str, topic: str, partition: int) -> bytes:
        return docker_bytes("exec", self._containers[node].id, "sh", "-c", f"cat {DATA}/{topic}-{partition}/*.log")

    def log_tail(self, node: str) -> str:
        return docker("logs", "--tail", LOG_LINES, self._containers[node].id)


def _missing() -> dict[Kind, str]:
    missing = {
        Kind.CLOCK: "containers share the clock of their machine",
        Kind.SLOW: "it takes netem in the kernel, or a proxy in front of each node",
        Kind.LOSE_ANSWERS: "TCP brings the answers later, as long as their connections stand",
        Kind.DISK_FULL: "the volumes of containers share the disk of their machine",
        Kind.RESTART_UNSEEN: "it takes access to ZooKeeper and a long session",
    }
    if os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("iptables") is None:
        missing |= dict.fromkeys(_CUTS, "it takes root, nsenter and iptables")
    return missing
