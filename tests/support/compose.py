"""The cluster of docker-compose.yml as a project of its own, on free ports: it never meets a user's cluster."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from ottla.client import Producer
from ottla.local.broker import child_environment, why_not_ready
from ottla.zk.ensemble.ports import free_ports
from tests.support.cluster import wait_until
from tests.support.machine import scaled

ROOT = Path(__file__).parents[2]
BROKERS = 5
WAIT_S = scaled(60.0)


def docker(*arguments: str, timeout_s: float = WAIT_S, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done


def why_no_docker() -> str | None:
    """Why containers cannot be started here; None if they can."""
    try:
        done = docker("version", "--format", "{{.Server.Version}}", check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"THERE IS NO DOCKER HERE: {error}"
    return None if done.returncode == 0 else f"NO DOCKER ENGINE ANSWERS: {done.stderr.strip()}"


class ComposeCluster:
    """Containers by the names of their services: broker0, zookeeper2."""

    def __init__(self) -> None:
        self.project = f"ottla-test-{os.getpid()}"
        ports = free_ports(2 * BROKERS)
        self._ports, self._admin_ports = ports[:BROKERS], ports[BROKERS:]

    def up(self, profiles: str = "", **environment: str) -> None:
        """Start what is not running, and wait until all is healthy."""
        self._compose("up", profiles=profiles, **environment)

    def down(self, *arguments: str) -> None:
        self._compose("down", *arguments)

    def _compose(self, *arguments: str, profiles: str = "", **more: str) -> None:
        environment = child_environment() | {"COMPOSE_PROJECT_NAME": self.project, "COMPOSE_PROFILES": profiles} | more
        for broker in range(BROKERS):
            environment[f"OTTLA_PORT{broker}"] = str(self._ports[broker])
            environment[f"OTTLA_ADMIN_PORT{broker}"] = str(self._admin_ports[broker])
        done = subprocess.run(
            [ROOT / "docker" / "compose.sh", *arguments],
            capture_output=True, text=True, timeout=scaled(300), env=environment, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def network(self) -> str:
        return f"{self.project}_default"

    def bootstrap(self, brokers: int = 3) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports[:brokers])

    def port(self, broker: int) -> int:
        return self._ports[broker]

    def admin_url(self, broker: int) -> str:
        return f"http://127.0.0.1:{self._admin_ports[broker]}"

    def container(self, service: str) -> str:
        labels = [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"]
        filters = [part for label in labels for part in ("--filter", f"label={label}")]
        [found] = docker("ps", "--all", "--quiet", "--no-trunc", *filters).stdout.split()
        return found

    def inspect(self, service: str) -> Any:
        return json.loads(docker("inspect", self.container(service)).stdout)[0]

    def start(self, broker: int) -> float:
        """Start a container and wait until its broker serves; gives the seconds that took since its process began."""
        service = f"broker{broker}"
        docker("start", self.container(service))
        wait_until(lambda: why_not_ready(self.admin_url(broker)) is None, WAIT_S)
        ready = time.time()
        began = datetime.fromisoformat(self.inspect(service)["State"]["StartedAt"][:26] + "+00:00")
        return ready - began.timestamp()


def write_meanwhile(
    producer: Producer, topic: str, seconds: float, begin: Callable[[], object]
) -> tuple[float, list[bytes]]:
    """Write one record after the other while something happens; the longest wait for an ack, and what was acked."""
    acked: list[bytes] = []

    def write() -> None:
        value = b"%d-%d" % (time.monotonic_ns(), len(acked))
        producer.send(topic, value).result(timeout=WAIT_S)
        acked.append(value)

    for _ in range(50):
        write()
    begin()
    longest, deadline = 0.0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        asked = time.monotonic()
        write()
        longest = max(longest, time.monotonic() - asked)
    return longest, acked
