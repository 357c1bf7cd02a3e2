"""LocalCluster: ZooKeeper servers and brokers as processes on this machine, to be used, killed and paused."""

import fcntl
import importlib.util
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from ottla.local.broker import (
    DIGEST_FILE,
    OWN_PROPERTIES,
    BrokerProcess,
    make_digest,
    why_not_ready,
    zookeeper_rights,
)
from ottla.local.errors import LocalClusterError
from ottla.local.processes import ProcessError, Reaper
from ottla.local.zookeeper import ZooKeeperServers
from ottla.wire.errors import ConfigError
from ottla.zk.access import Digest, read_digest
from ottla.zk.ensemble.ports import free_ports

READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_POLL_S = 0.02

ADMIN_PORT_DISTANCE = 1000
"""Where ports are given, a broker at 9092 has its admin port at 8092, as Ottla's defaults have it."""


class LocalCluster:
    """A cluster of real processes.

    with LocalCluster(brokers=3) as cluster:
        Producer(bootstrap_servers=cluster.bootstrap)
        cluster.kill(0)
        cluster.start(0)

    Logs and data are in ``folder``: a temporary one that goes at the end, unless one is given or ``keep`` is set. Brokers
    listen on free ports, or on ``port``, ``port + 1`` and so on. Broker i stands in rack ``rack{1 + i % racks}``.
    ``broker_config`` has more properties for every broker.
    """

    def __init__(
        self,
        brokers: int = 3,
        zookeepers: int = 1,
        racks: int = 1,
        *,
        folder: Path | str | None = None,
        port: int | None = None,
        broker_config: Mapping[str, str] | None = None,
        keep: bool = False,
    ) -> None:
        if brokers < 1 or racks < 1:
            raise ConfigError(f"a cluster of {brokers} brokers in {racks} racks makes no sense", hint="take 1 or more")
        for name in broker_config or {}:
            if name in OWN_PROPERTIES:
                raise ConfigError(f"{name} cannot be set: the cluster itself decides it")
        self._zookeeper_count = zookeepers
        self._racks = racks
        self._broker_config = dict(broker_config or {})
        self._given_folder = Path(folder).resolve() if folder is not None else None
        self._keep = keep or folder is not None
        self._ports = _choose_ports(brokers, port)
        self._ports_given = port is not None
        self._folder: Path | None = None
        self._lock_fd: int | None = None
        self._reaper: Reaper | None = None
        self._brokers: list[BrokerProcess] = []
        self._zookeepers: ZooKeeperServers | None = None

    def __enter__(self) -> "LocalCluster":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where logs and data are."""
        if self._folder is None:
            raise LocalClusterError("the cluster is not started")
        return self._folder

    @property
    def bootstrap(self) -> str:
        """What clients take as ``bootstrap_servers``."""
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports)

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return list(range(len(self._ports)))

    @property
    def zookeeper(self) -> str:
        """The ``zookeeper.connect`` of all brokers."""
        return self.zookeeper_servers.connect

    @property
    def zookeeper_properties(self) -> dict[str, str]:
        """All that one more broker needs to have a place in this cluster's ZooKeeper."""
        return {"zookeeper.connect": self.zookeeper, **zookeeper_rights(self.folder)}

    @property
    def zookeeper_digest(self) -> Digest:
        """Who the brokers are in ZooKeeper, for a session that is to see and do what they may."""
        return read_digest(self.folder / DIGEST_FILE)

    @property
    def zookeeper_servers(self) -> ZooKeeperServers:
        """The ZooKeeper servers, to be killed, paused and started by index."""
        if self._zookeepers is None:
            raise LocalClusterError("the cluster is not started")
        return self._zookeepers

    def address(self, broker_id: int) -> str:
        """host:port of one broker."""
        return self._broker(broker_id).address

    def admin_url(self, broker_id: int) -> str:
        """Where a broker serves /healthz, /readyz and /metrics."""
        return self._broker(broker_id).admin_url

    def rack(self, broker_id: int) -> str:
        return self._broker(broker_id).rack

    def pid(self, broker_id: int) -> int:
        """The process id of a broker's last start."""
        return self._broker(broker_id).process.pid

    def alive(self, broker_id: int) -> bool:
        """Whether a broker's process runs; one that is paused does."""
        return self._broker(broker_id).process.alive

    def is_ready(self, broker_id: int) -> bool:
        """Whether a broker says that it serves requests."""
        return why_not_ready(self._broker(broker_id).admin_url) is None

    def log_path(self, broker_id: int) -> Path:
        """What a broker's process has printed, over all its lives."""
        return self._broker(broker_id).log_path

    def data_path(self, broker_id: int) -> Path:
        """The broker's log.dirs."""
        return self._broker(broker_id).data_path

    # --- the whole ---------------------------------------------------------------------------------------------------

    def start(self, broker_id: int | None = None, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start the cluster, or one broker that has ended; returns when it serves."""
        if broker_id is not None:
            self._start_brokers([self._broker(broker_id)], timeout_s)
            return
        if self._reaper is not None:
            raise LocalClusterError("the cluster is running already")
        _check_installed()
        if self._ports_given:
            _check_free([port for pair in self._ports for port in pair])
        try:
            self._prepare_folder()
            self._reaper = Reaper()
            self._start_all(timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes, in good order if their data is kept; the folder goes unless it was given."""
        reaper, self._reaper = self._reaper, None
        try:
            if reaper is not None and self._keep:
                self._stop_in_order()
        finally:
            if reaper is not None:
                reaper.close()
                self._wait_ended()
            if self._lock_fd is not None:
                os.close(self._lock_fd)
                self._lock_fd = None
            if self._folder is not None and not self._keep:
                shutil.rmtree(self._folder, ignore_errors=True)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every broker that was started, and not ended by us, serves."""
        self._wait_ready([broker for broker in self._brokers if broker.wanted], timeout_s)

    # --- one broker --------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """End a broker as a crash would (SIGKILL); returns when it is gone."""
        broker = self._broker(broker_id)
        broker.wanted = False
        broker.process.kill()
        broker.process.wait(_STOP_TIMEOUT_S)

    def terminate(self, broker_id: int, timeout_s: float = _STOP_TIMEOUT_S) -> int:
        """Ask a broker to end in good order (SIGTERM), wait until it has, and give back its exit code."""
        broker = self._broker(broker_id)
        broker.wanted = False
        broker.process.terminate()
        return broker.process.wait(timeout_s)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker: its sockets stay open and nothing answers (SIGSTOP)."""
        self._broker(broker_id).process.pause()

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._broker(broker_id).process.resume()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _broker(self, broker_id: int) -> BrokerProcess:
        if not self._brokers:
            raise LocalClusterError("the cluster is not started")
        if not 0 <= broker_id < len(self._brokers):
            raise LocalClusterError(f"there is no broker {broker_id}", hint=f"brokers are {self.brokers}")
        return self._brokers[broker_id]

    def _prepare_folder(self) -> None:
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ottla-"))
            return
        self._folder = self._given_folder
        self._folder.mkdir(parents=True, exist_ok=True)
        # The lock ends with this process, however that ends.
        self._lock_fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalClusterError(
                f"another cluster runs in {self._folder}", hint="stop it with `ottla down`, or take another folder"
            ) from None

    def _start_all(self, timeout_s: float) -> None:
        assert self._reaper is not None
        assert self._folder is not None
        ports = [port for pair in self._ports for port in pair]
        # A cluster whose folder goes anyway need not survive a power cut.
        self._zookeepers = ZooKeeperServers(
            self._folder, self._zookeeper_count, self._reaper, force_sync=self._keep, avoid=ports
        )
        self._brokers = []
        make_digest(self._folder)
        for broker_id, (port, admin_port) in enumerate(self._ports):
            rack = f"rack{1 + broker_id % self._racks}"
            broker = BrokerProcess(broker_id, self._folder, port=port, admin_port=admin_port, rack=rack)
            broker.prepare(self._zookeepers.connect, self._broker_config, self._reaper)
            self._brokers.append(broker)
        self._zookeepers.start_all(timeout_s)
        self._start_brokers(self._brokers, timeout_s)

    def _start_brokers(self, brokers: list[BrokerProcess], timeout_s: float) -> None:
        for broker in brokers:
            broker.process.start()
            broker.wanted = True
        self._wait_ready(brokers, timeout_s)

    def _wait_ready(self, brokers: list[BrokerProcess], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        waiting = list(brokers)
        while waiting:
            for broker in list(waiting):
                if not broker.process.alive:
                    raise broker.not_ready(f"ended with code {broker.process.returncode} before it was ready")
                missing = why_not_ready(broker.admin_url)
                if missing is None:
                    waiting.remove(broker)
                elif time.monotonic() > deadline:
                    raise broker.not_ready(f"was not ready after {timeout_s:g} s ({missing})")
            if waiting:
                time.sleep(_POLL_S)

    def _wait_ended(self) -> None:
        for broker in self._brokers:
            broker.wanted = False
            if broker.process.alive:
                broker.process.wait(_STOP_TIMEOUT_S)
        if self._zookeepers is not None:
            self._zookeepers.wait_ended()

    def _stop_in_order(self) -> None:
        running = [broker for broker in self._brokers if broker.process.alive]
        for broker in running:
            broker.process.resume()
            broker.process.terminate()
        for broker in running:
            try:
                broker.process.wait(_STOP_TIMEOUT_S)
            except ProcessError:
                broker.process.kill()
        if self._zookeepers is not None:
            self._zookeepers.stop_all()


def _choose_ports(brokers: int, port: int | None) -> list[tuple[int, int]]:
    """(port, admin port) of each broker."""
    if port is None:
        ports = free_ports(2 * brokers)
        return list(zip(ports[:brokers], ports[brokers:], strict=True))
    if not ADMIN_PORT_DISTANCE < port <= 65536 - brokers or brokers > ADMIN_PORT_DISTANCE:
        raise ConfigError(f"port {port} leaves no room for {brokers} brokers and their admin ports, 1000 below")
    return [(port + i, port + i - ADMIN_PORT_DISTANCE) for i in range(brokers)]


def _check_installed() -> None:
    """What the brokers' processes will need: told here rather than in their logs."""
    missing = [name for name in ("aiohttp", "kazoo", "prometheus_client") if importlib.util.find_spec(name) is None]
    if missing:
        raise LocalClusterError(
            f"a local cluster needs {', '.join(missing)} installed", hint="pip install 'ottla[local]'"
        )


def _check_free(ports: list[int]) -> None:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise LocalClusterError(
                    f"port {port} cannot be used: {error.strerror}", hint="take others with --port"
                ) from None
