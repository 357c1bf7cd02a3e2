"""The ZooKeeper servers of a local cluster, as processes."""

import asyncio
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.local.broker import child_environment
from ottla.local.errors import LocalClusterError, last_lines
from ottla.local.processes import Process, ProcessError, Reaper
from ottla.zk.ensemble.servers import ZooKeeperServer, connect_string, plan_ensemble, wait_until_serving
from ottla.zk.errors import ZkUnavailable

START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


class ZooKeeperServers:
    """Real servers, counted from 0; each keeps its port and its data over restarts."""

    def __init__(
        self, folder: Path, count: int, reaper: Reaper, *, force_sync: bool, avoid: Collection[int] = ()
    ) -> None:
        """``avoid``: ports that others are to have."""
        self._servers = plan_ensemble(folder, count, force_sync=force_sync, avoid=avoid)
        self._processes: list[Process] = []
        for server in self._servers:
            server.write_config()
            log_path = server.folder / "zookeeper.log"
            self._processes.append(
                Process(server.name, server.command, log_path=log_path, reaper=reaper, env=child_environment())
            )

    def __len__(self) -> int:
        return len(self._servers)

    @property
    def connect(self) -> str:
        """What stands in ``zookeeper.connect``."""
        return connect_string(self._servers)

    def name(self, index: int) -> str:
        return self._servers[index].name

    def address(self, index: int) -> str:
        return self._servers[index].address

    def pid(self, index: int) -> int:
        return self._processes[index].pid

    def alive(self, index: int) -> bool:
        return self._processes[index].alive

    def log_path(self, index: int) -> Path:
        return self._processes[index].log_path

    def start(self, index: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start one that has ended, and wait until it serves."""
        self._processes[index].start()
        self._wait([self._servers[index]], timeout_s)

    def kill(self, index: int) -> None:
        """End it as a crash would (SIGKILL); returns when it is gone."""
        self._processes[index].kill()
        self._processes[index].wait(_STOP_TIMEOUT_S)

    def pause(self, index: int) -> None:
        """Freeze it: its sockets stay open and nothing answers (SIGSTOP)."""
        self._processes[index].pause()

    def resume(self, index: int) -> None:
        self._processes[index].resume()

    def start_all(self, timeout_s: float = START_TIMEOUT_S) -> None:
        for process in self._processes:
            process.start()
        self._wait(self._servers, timeout_s)

    def stop_all(self) -> None:
        """In good order; what does not end in time is killed."""
        for process in self._processes:
            process.resume()
            process.terminate()
        for process in self._processes:
            if process.alive:
                try:
                    process.wait(_STOP_TIMEOUT_S)
                except ProcessError:
                    process.kill()

    def wait_ended(self) -> None:
        """Take note of the end of servers that were killed, so that no zombie stays."""
        for process in self._processes:
            if process.alive:
                process.wait(_STOP_TIMEOUT_S)

    def _wait(self, servers: list[ZooKeeperServer], timeout_s: float) -> None:
        # In a thread of its own: the caller may have an event loop, and a loop cannot run inside another.
        with ThreadPoolExecutor(1) as thread:
            try:
                thread.submit(asyncio.run, wait_until_serving(servers, timeout_s)).result()
            except ZkUnavailable as error:
                tails = [f"{server.name}:\n{last_lines(server.folder / 'zookeeper.log')}" for server in servers]
                raise LocalClusterError(f"{error}\n" + "\n".join(tails)) from None
