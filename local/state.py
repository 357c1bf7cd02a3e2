"""What a running local cluster tells other programs about itself: a file in its folder, written when it is ready.

``ottla status`` and ``ottla down`` find the cluster by it. A pid alone may belong to somebody else by now, so each stands
beside the start time of its process.
"""

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ottla.local.errors import LocalClusterError
from ottla.local.processes import start_time

if TYPE_CHECKING:
    from ottla.local.cluster import LocalCluster

STATE_FILE = "cluster.json"
_POLL_S = 0.02


class RunningProcess(msgspec.Struct, frozen=True):
    """A process by its pid and the time it started."""

    pid: int
    started: str | None

    @property
    def alive(self) -> bool:
        return self.started is not None and start_time(self.pid) == self.started and not _has_ended(self.pid)


class Member(msgspec.Struct, frozen=True):
    """One server or broker of the cluster."""

    name: str
    address: str
    process: RunningProcess
    log_path: str
    admin_url: str | None = None
    rack: str | None = None


class ClusterState(msgspec.Struct, frozen=True):
    """A local cluster and the process that keeps it."""

    owner: RunningProcess
    bootstrap: str
    zookeeper: str
    zookeepers: list[Member]
    brokers: list[Member]


def save_state(cluster: "LocalCluster") -> None:
    """Write the state of a cluster that this process runs; readers see the old file or the new one, never half."""
    servers = cluster.zookeeper_servers
    state = ClusterState(
        owner=_running(os.getpid()),
        bootstrap=cluster.bootstrap,
        zookeeper=cluster.zookeeper,
        zookeepers=[
            Member(servers.name(i), servers.address(i), _running(servers.pid(i)), str(servers.log_path(i)))
            for i in range(len(servers))
        ],
        brokers=[
            Member(
                f"broker-{i}", cluster.address(i), _running(cluster.pid(i)), str(cluster.log_path(i)),
                cluster.admin_url(i), cluster.rack(i),
            )
            for i in cluster.brokers
        ],
    )  # fmt: skip
    unfinished = cluster.folder / f"{STATE_FILE}.tmp"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
    unfinished.replace(cluster.folder / STATE_FILE)


def load_state(folder: Path) -> ClusterState | None:
    """The cluster that runs in a folder; None if none does, or if the one that did has ended."""
    try:
        state = msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=ClusterState)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise LocalClusterError(f"{folder / STATE_FILE} cannot be read: {error}") from None
    return state if state.owner.alive else None


def remove_state(folder: Path) -> None:
    (folder / STATE_FILE).unlink(missing_ok=True)


def stop_owner(state: ClusterState, timeout_s: float) -> None:
    """Ask the process that keeps a cluster to end, and wait until it and all members have."""
    if state.owner.alive:
        os.kill(state.owner.pid, signal.SIGTERM)
    everyone = [state.owner, *(member.process for member in (*state.brokers, *state.zookeepers))]
    deadline = time.monotonic() + timeout_s
    while left := [process.pid for process in everyone if process.alive]:
        if time.monotonic() > deadline:
            raise LocalClusterError(f"processes {left} still run after {timeout_s:g} s")
        time.sleep(_POLL_S)


def _has_ended(pid: int) -> bool:
    """Whether a process only waits for its parent to take note; in a container that parent may be one that never does."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def _running(pid: int) -> RunningProcess:
    return RunningProcess(pid, start_time(pid))
