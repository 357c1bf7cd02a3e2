"""Live ZooKeeper servers for tests."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.local.processes import Process, Reaper
from ottla.zk.ensemble.servers import ZooKeeperServer, connect_string, plan_ensemble, wait_until_serving
from tests.support.machine import scaled

START_TIMEOUT_S = scaled(60.0)


@dataclass(frozen=True)
class RunningServer:
    """A server and the process that runs it, to be killed, paused and started again."""

    server: ZooKeeperServer
    process: Process

    async def start_again(self) -> None:
        """Start it after it was killed, with the data and the port it had, and wait until it serves."""
        self.process.start()
        await wait_until_serving([self.server], START_TIMEOUT_S)


@dataclass(frozen=True)
class RunningEnsemble:
    """One or more live servers."""

    servers: list[RunningServer]

    @property
    def connect(self) -> str:
        return connect_string([running.server for running in self.servers])


@contextlib.contextmanager
def running_ensemble(count: int) -> Iterator[RunningEnsemble]:
    """Start servers that do not sync their disks (tests kill processes, not machines); all are gone afterwards.

    Not to be entered inside a running event loop: let a fixture do it.
    """
    folder = Path(tempfile.mkdtemp(prefix="ottla-zookeeper-"))
    reaper = Reaper()
    try:
        servers = []
        for server in plan_ensemble(folder, count, force_sync=False):
            server.write_config()
            log_path = server.folder / "zookeeper.log"
            process = Process(server.name, server.command, log_path=log_path, reaper=reaper)
            process.start()
            servers.append(RunningServer(server, process))
        asyncio.run(wait_until_serving([running.server for running in servers], START_TIMEOUT_S))
        yield RunningEnsemble(servers)
    finally:
        reaper.close()
        shutil.rmtree(folder, ignore_errors=True)
