"""Real ZooKeeper servers for this machine: their configuration, the command that starts one, and whether it serves.

Nothing is started here: a process starter runs ``command``. One server runs alone, three or more as an ensemble.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.wire.errors import ConfigError
from ottla.zk.ensemble.java import find_jars, find_java
from ottla.zk.ensemble.ports import free_ports
from ottla.zk.errors import ZkUnavailable

_PROBE_TIMEOUT_S = 2.0

# Sessions last from 2 ticks to the maximum: short ticks allow sessions of one second, which keeps tests quick.
_CONFIG = """\
tickTime=500
initLimit=40
syncLimit=20
maxSessionTimeout=60000
dataDir={folder}/data
clientPort={client_port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
snapCount=50000
preAllocSize=4096
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
forceSync={force_sync}
"""

_LOGGING = """\
<Configuration status="error">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d %-5p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="warn"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class ZooKeeperServer:
    """One server of an ensemble, as planned; ``peers`` has (peer port, election port) of every server, its own included."""

    name: str
    number: int
    folder: Path
    client_port: int
    peers: tuple[tuple[int, int], ...]
    force_sync: bool

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def command(self) -> list[str]:
        """How to start it; the jars and Java must be there, else EnsembleUnavailable."""
        return [
            str(find_java()),
            "-Xmx256m",
            "-Xss512k",
            # Made for processes that live shortly and share two cores: one thread each to collect garbage and compile.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-XX:-UsePerfData",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}",
            "-Dlog4j2.disableJmx=true",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-cp",
            ":".join(map(str, find_jars())),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]

    def write_config(self) -> None:
        """Write zoo.cfg and what belongs to it; the data of an earlier run is kept."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        (self.folder / "zoo.cfg").write_text(self._config())
        (self.folder / "log4j2.xml").write_text(_LOGGING)
        if len(self.peers) > 1:
            (self.folder / "data" / "myid").write_text(f"{self.number}\n")

    def _config(self) -> str:
        force_sync = "yes" if self.force_sync else "no"
        config = _CONFIG.format(folder=self.folder.resolve(), client_port=self.client_port, force_sync=force_sync)
        if len(self.peers) > 1:
            for number, (peer_port, election_port) in enumerate(self.peers, start=1):
                config += f"server.{number}=127.0.0.1:{peer_port}:{election_port}\n"
        return config

    async def is_serving(self) -> str | None:
        """Its mode (standalone, leader or follower) if it answers requests, else None."""
        try:
            answer = await asyncio.wait_for(self._ask(b"srvr"), _PROBE_TIMEOUT_S)
        except (OSError, TimeoutError):
            return None
        # A server without a quorum answers too, but with a sentence instead of its mode.
        return next((line[6:].strip() for line in answer.splitlines() if line.startswith("Mode: ")), None)

    async def _ask(self, word: bytes) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.client_port)
        try:
            writer.write(word)
            return (await reader.read()).decode(errors="replace")
        finally:
            writer.close()


def plan_ensemble(
    folder: Path,
    count: int,
    *,
    first_client_port: int | None = None,
    force_sync: bool = True,
    avoid: Collection[int] = (),
) -> list[ZooKeeperServer]:
    """Plan ``count`` servers below a folder; client ports count up from the first, or are free ones.

    ``avoid``: ports that others are to have, who do not listen there yet.
    """
    if count < 1 or count == 2:
        raise ConfigError(f"an ensemble of {count} servers makes no sense", hint="take 1, 3 or 5")
    given = [] if first_client_port is None else [first_client_port + i for i in range(count)]
    ports = given + free_ports(3 * count - len(given), avoid=[*avoid, *given])
    client_ports = ports[:count]
    peers = tuple(zip(ports[count : 2 * count], ports[2 * count :], strict=True))
    return [
        ZooKeeperServer(f"zookeeper-{number}", number, folder / f"zookeeper-{number}", client_port, peers, force_sync)
        for number, client_port in enumerate(client_ports, start=1)
    ]


def connect_string(servers: Sequence[ZooKeeperServer], chroot: str = "") -> str:
    """What to write into ``zookeeper.connect`` to reach these servers."""
    return ",".join(server.address for server in servers) + chroot


async def wait_until_serving(servers: Sequence[ZooKeeperServer], timeout_s: float) -> None:
    """Return when every server answers requests; ZkUnavailable, naming those that do not, if that takes too long."""
    deadline = time.monotonic() + timeout_s
    waiting = list(servers)
    while True:
        modes = await asyncio.gather(*(server.is_serving() for server in waiting))
        waiting = [server for server, mode in zip(waiting, modes, strict=True) if mode is None]
        if not waiting:
            return
        if time.monotonic() > deadline:
            late = ", ".join(f"{server.name} ({server.address}, {server.folder})" for server in waiting)
            raise ZkUnavailable(f"not serving after {timeout_s} s: {late}", hint="look into their log files")
        await asyncio.sleep(0.05)
