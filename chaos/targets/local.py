"""A LocalCluster behind proxies: signals for processes, proxies for links, resource limits and small file systems for disks."""

import contextlib
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.chaos.faults import Kind, NotOffered
from ottla.chaos.links import LinkedCluster, broker_name, running_linked_cluster, zookeeper_name
from ottla.chaos.proxy import from_clients
from ottla.chaos.scenarios import Shape
from ottla.chaos.targets.damage import DAMAGES
from ottla.chaos.targets.small_disks import SmallDisk, why_not_offered
from ottla.chaos.targets.target import EPOCH_FILE_IN_THE_MAKING, Target, broker_id
from ottla.chaos.targets.zookeeper_mode import zookeeper_mode
from ottla.chaos.targets.zookeeper_states import ZooKeeperStates
from ottla.local import LocalCluster
from ottla.local.errors import last_lines
from ottla.local.processes import ProcessError

SESSION_S = 2.0
HEAL_TIMEOUT_S = 90.0
SEGMENT_BYTES = 1 << 17
"""Small, so that segments are rolled and read again while faults last."""

NO_CLOCK = "processes of one machine share its clock"


class LocalTarget(Target):
    """Starts its own cluster, in a folder that goes at the end unless one is given."""

    name = "local"
    session_s = SESSION_S

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._links: LinkedCluster | None = None
        self._disks: dict[str, SmallDisk] = {}
        self._limited: dict[tuple[str, int], Callable[[], None]] = {}
        self._spoilt: dict[tuple[str, str, int], Path] = {}
        self._starters: ThreadPoolExecutor | None = None
        reason = why_not_offered()
        self.missing: Mapping[Kind, str] = {Kind.CLOCK: NO_CLOCK} | ({Kind.DISK_FULL: reason} if reason else {})

    def open(self, shape: Shape) -> None:
        self.session_s = shape.session_s or SESSION_S
        folder = self._folder or Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-chaos-")))
        if shape.small_disks:
            for broker in range(shape.brokers):
                disk = SmallDisk(folder / f"broker-{broker}" / "data")
                self._disks[broker_name(broker)] = self._stack.enter_context(disk)
        else:
            self.missing = {**self.missing, Kind.DISK_FULL: "only the scenario disk-full has disks of limited size"}
        running = running_linked_cluster(shape.brokers, self._config(), zookeepers=3, racks=shape.racks, folder=folder)
        self._links = self._stack.enter_context(running)
        self.bootstrap = self._links.bootstrap
        self._starters = self._stack.enter_context(ThreadPoolExecutor(8))

    def _config(self) -> dict[str, str]:
        return {
            "zookeeper.session.timeout.ms": f"{self.session_s * 1000:.0f}",
            "replica.lag.time.max.ms": f"{self.session_s * 2000:.0f}",
            "log.segment.bytes": str(SEGMENT_BYTES),
        }

    def close(self) -> None:
        if self._links is not None:
            self._links.heal()
        self._stack.close()

    @property
    def links(self) -> LinkedCluster:
        assert self._links is not None
        return self._links

    @property
    def _cluster(self) -> LocalCluster:
        return self.links.cluster

    # --- who there is ----------------------------------------------------------------------------------------------------

    def brokers(self) -> list[str]:
        return [broker_name(broker) for broker in self._cluster.brokers]

    def zookeepers(self) -> list[str]:
        return [zookeeper_name(index) for index in range(len(self._cluster.zookeeper_servers))]

    def racks(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for broker in self._cluster.brokers:
            found.setdefault(self._cluster.rack(broker), []).append(broker_name(broker))
        return found

    def zookeeper_leader(self) -> str | None:
        servers = self._cluster.zookeeper_servers
        for index in range(len(servers)):
            host, _, port = servers.address(index).partition(":")
            if servers.alive(index) and zookeeper_mode(host, int(port)) == "leader":
                return zookeeper_name(index)
        return None

    def running(self, node: str) -> bool:
        if node.startswith("zookeeper"):
            return self._cluster.zookeeper_servers.alive(_index(node))
        return self._cluster.alive(broker_id(node))

    # --- processes -------------------------------------------------------------------------------------------------------

    def kill(self, node: str) -> None:
        if node.startswith("zookeeper"):
            self._cluster.zookeeper_servers.kill(_index(node))
        else:
            self.links.to[broker_id(node)].refuse()  # nobody listens on a dead broker's port, and others go by that
            self._cluster.kill(broker_id(node))

    def kill_together(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            self.pause(node)
        super().kill_together(nodes)

    def stop(self, node: str) -> None:
        try:
            self._cluster.terminate(broker_id(node))
        except ProcessError:
            self._cluster.kill(broker_id(node))  # as any supervisor does with one that does not end in time
        self.links.to[broker_id(node)].refuse()

    def start(self, node: str) -> None:
        assert self._starters is not None
        # Both wait until the node serves, which may need another that is down for now.
        if node.startswith("zookeeper"):
            self._starters.submit(self._cluster.zookeeper_servers.start, _index(node))
        else:
            self.links.to[broker_id(node)].listen_again()
            self._starters.submit(self._cluster.start, broker_id(node))
        deadline = time.monotonic() + HEAL_TIMEOUT_S
        while not self.running(node) and time.monotonic() < deadline:
            time.sleep(0.01)

    def pause(self, node: str) -> None:
        if node.startswith("zookeeper"):
            self._cluster.zookeeper_servers.pause(_index(node))
        else:
            self._cluster.pause(broker_id(node))

    def resume(self, node: str) -> None:
        if node.startswith("zookeeper"):
            self._cluster.zookeeper_servers.resume(_index(node))
        else:
            self._cluster.resume(broker_id(node))

    # --- links and disks -------------------------------------------------------------------------------------------------

    def block(self, source: str, sink: str) -> None:
        if source.startswith("zookeeper") and sink.startswith("zookeeper"):
            raise NotOffered("ZooKeeper servers of a local cluster talk to each other directly")
        self.links.block(source, sink)

    def unblock(self, source: str, sink: str) -> None:
        self.links.unblock(source, sink)

    def answer_again(self, node: str) -> None:
        self.links.to[broker_id(node)].reset(from_clients)
        super().answer_again(node)

    def slow(self, node: str, delay_s: float) -> None:
        self.links.to[broker_id(node)].delay(delay_s)
        # A follower is slow in what it asks, too.
        asks = f"broker-{broker_id(node)}".encode()
        for other, proxy in enumerate(self.links.to):
            if other != broker_id(node):
                proxy.delay(delay_s, lambda greeting: asks in greeting)

    def fill_disk(self, node: str) -> None:
        self._disks[node].fill()

    def free_disk(self, node: str) -> None:
        self._disks[node].free()

    def fail_writes(self, node: str) -> None:
        """No file of the broker may grow any more. Python ignores the signal that comes with it; a write fails (EFBIG)."""
        self._limit(node, resource.RLIMIT_FSIZE, 1)

    def mend_writes(self, node: str) -> None:
        self._lift_limit(node, resource.RLIMIT_FSIZE)

    def exhaust_descriptors(self, node: str) -> None:
        in_use = max(int(fd.name) for fd in Path(f"/proc/{self._cluster.pid(broker_id(node))}/fd").iterdir())
        self._limit(node, resource.RLIMIT_NOFILE, in_use + 1)

    def free_descriptors(self, node: str) -> None:
        self._lift_limit(node, resource.RLIMIT_NOFILE)

    def _limit(self, node: str, what: int, to: int) -> None:
        pid = self._cluster.pid(broker_id(node))
        before = resource.prlimit(pid, what)
        resource.prlimit(pid, what, (to, before[1]))

        def lift() -> None:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, what, before)

        self._limited[node, what] = lift

    def _lift_limit(self, node: str, what: int) -> None:
        self._limited.pop((node, what))()

    def damage(self, node: str, topic: str, partition: int, how: str) -> None:
        DAMAGES[how](self._cluster.data_path(broker_id(node)) / f"{topic}-{partition}")

    def wipe(self, node: str) -> None:
        data = self._cluster.data_path(broker_id(node))
        if node in self._disks:
            self._disks[node].erase()
        else:
            shutil.rmtree(data)

    def spoil_epochs(self, node: str, topic: str, partition: int) -> None:
        place = self._cluster.data_path(broker_id(node)) / f"{topic}-{partition}" / EPOCH_FILE_IN_THE_MAKING
        place.mkdir()
        self._spoilt[node, topic, partition] = place

    def mend_epochs(self, node: str, topic: str, partition: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._spoilt.pop((node, topic, partition)).rmdir()

    # --- what ZooKeeper has ----------------------------------------------------------------------------------------------

    def serving(self, node: str) -> bool:
        return self._cluster.is_ready(broker_id(node))

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return self._states.isr(topic, partition)

    def broker_epoch(self, node: str) -> int:
        return self._states.broker_epoch(broker_id(node))

    def remove_isr_notifications(self) -> None:
        self._states.remove_isr_notifications()

    @property
    def _states(self) -> ZooKeeperStates:
        return ZooKeeperStates(self._cluster.zookeeper, self._cluster.zookeeper_digest)

    # --- the end ---------------------------------------------------------------------------------------------------------

    def heal_all(self) -> None:
        self.links.heal()
        for disk in self._disks.values():
            disk.free()
        for limited in list(self._limited):
            self._lift_limit(*limited)
        for spoilt in list(self._spoilt):
            self.mend_epochs(*spoilt)
        for node in (*self.zookeepers(), *self.brokers()):
            self.resume(node)
            if not self.running(node):
                self.start(node)
        self._cluster.wait_ready(HEAL_TIMEOUT_S)

    def replica_log(self, node: str, topic: str, partition: int) -> bytes:
        folder = self._cluster.data_path(broker_id(node)) / f"{topic}-{partition}"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))

    def log_tail(self, node: str) -> str:
        if node.startswith("zookeeper"):
            return last_lines(self._cluster.zookeeper_servers.log_path(_index(node)))
        return last_lines(self._cluster.log_path(broker_id(node)))


def _index(node: str) -> int:
    return int(node.removeprefix("zookeeper"))
