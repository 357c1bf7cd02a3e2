"""A Spark standalone cluster of processes on this machine, whose executors find a bare Python and nothing else."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import pyspark

from ottla.zk.ensemble.java import find_java
from ottla.zk.ensemble.ports import free_ports
from tests.support.machine import scaled

START_S = scaled(60.0)
WORKERS = 2
SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """A master and two workers, of one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True, timeout=60)
        [port] = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        self._master_port = port

    def __enter__(self) -> "SparkCluster":
        try:
            master = ["master.Master", "--host", "127.0.0.1", "--port", str(self._master_port), "--webui-port", "0"]
            self._start("master", master)
            self._wait_told("I have been elected leader", 1)
            for number in range(WORKERS):
                self._start(f"worker{number}", ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", self.url])
            self._wait_told("Registering worker", WORKERS)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, name: str, what: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            command: list[Path | str] = [
                SPARK_HOME / "bin" / "spark-class",
                f"org.apache.spark.deploy.{what[0]}",
                *what[1:],
            ]
            self._processes.append(
                subprocess.Popen(
                    command, env=self._bare_environment(name), stdout=log, stderr=log, start_new_session=True
                )
            )

    def _bare_environment(self, name: str) -> dict[str, str]:
        """Nothing of the environment that the tests run in but Java."""
        return {
            "PATH": f"{self._folder / 'bare' / 'bin'}:/usr/bin:/bin",
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_WORKER_CORES": "1",
            "SPARK_WORKER_MEMORY": "1g",
            "SPARK_WORKER_DIR": str(self._folder / f"{name}-work"),
        }

    def _wait_told(self, text: str, times: int) -> None:
        log = self._folder / "master.log"
        deadline = time.monotonic() + START_S
        while log.read_text(errors="replace").count(text) < times:
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            assert all(process.poll() is None for process in self._processes)
            time.sleep(0.05)

    def executors(self) -> list[int]:
        """The pids of all executors that run now."""
        workers = {process.pid for process in self._processes}
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                if parent in workers and EXECUTOR.encode() in (stat.parent / "cmdline").read_bytes():
                    found.append(int(stat.parent.name))
            except OSError:
                continue  # it has just ended
        return sorted(found)

    def kill_executor(self) -> int:
        """-9; Spark starts another one."""
        victim = self.executors()[0]
        os.kill(victim, signal.SIGKILL)
        return victim

    def _stop(self) -> None:
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(scaled(10))
