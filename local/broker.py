"""One broker process of a local cluster: its properties file, and whether it serves."""

import http.client
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.local.errors import LocalClusterError, last_lines
from ottla.local.processes import Process, Reaper

_PROBE_TIMEOUT_S = 2.0

DIGEST_FILE = "zookeeper-digest"
"""In the cluster's folder: who its brokers are in ZooKeeper."""

OWN_PROPERTIES = ("broker.id", "listeners", "admin.listener", "log.dirs", "zookeeper.connect")
"""What only the cluster may decide, because others rely on it."""


class BrokerProcess:
    """A broker that keeps its ports and its data over restarts."""

    def __init__(self, broker_id: int, folder: Path, *, port: int, admin_port: int, rack: str) -> None:
        self.id = broker_id
        self.name = f"broker-{broker_id}"
        self.folder = folder / self.name
        self.port = port
        self.admin_port = admin_port
        self.rack = rack
        self.wanted = False
        """Whether it should be running: it was started, and nobody has ended it since."""
        self._process: Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def config_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data_path(self) -> Path:
        return self.folder / "data"

    @property
    def log_path(self) -> Path:
        return self.folder / "broker.log"

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def prepare(self, zookeeper: str, more: Mapping[str, str], reaper: Reaper) -> None:
        """Write server.properties; the data of an earlier run is kept."""
        own = {
            "broker.id": str(self.id),
            "zookeeper.connect": zookeeper,
            **zookeeper_rights(self.folder.parent),
            "listeners": f"PLAINTEXT://{self.address}",
            "admin.listener": self.admin_url,
            "log.dirs": str(self.data_path),
            "broker.rack": self.rack,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in {**own, **more}.items()]
        self.config_path.write_text("".join(lines))
        command = [sys.executable, "-m", "ottla.broker", "--config", str(self.config_path)]
        self._process = Process(
            self.name, command, log_path=self.log_path, reaper=reaper, env=child_environment(), folder=self.folder
        )

    def not_ready(self, why: str) -> LocalClusterError:
        return LocalClusterError(
            f"broker {self.id} {why}; the end of {self.log_path}:\n{last_lines(self.log_path)}",
        )


def zookeeper_rights(folder: Path) -> dict[str, str]:
    """What makes a broker one of the cluster in this folder: its znodes are closed to others."""
    return {"zookeeper.digest.file": str(folder / DIGEST_FILE), "zookeeper.set.acl": "true"}


def make_digest(folder: Path) -> None:
    """Make up the cluster's user and password in ZooKeeper; those of an earlier run are kept, for its znodes are theirs."""
    path = folder / DIGEST_FILE
    if path.exists():
        return
    unfinished = path.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"ottla:{secrets.token_hex(32)}\n")
    unfinished.replace(path)


def why_not_ready(admin_url: str) -> str | None:
    """What a broker says is missing before it serves requests; None if nothing is."""
    connection = http.client.HTTPConnection(admin_url.removeprefix("http://"), timeout=_PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return None if answer.status == 200 else answer.read(1024).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"{admin_url}/readyz does not answer: {error}"
    finally:
        connection.close()


def child_environment() -> dict[str, str]:
    """Our environment without OTTLA_ variables: what stands in a developer's shell must not change a broker's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_") or name == "OTTLA_PURE"}
