"""A real broker whose replication can be turned off and slowed down while it runs, its ZooKeeper session untouched.

A file, the tap, says ``open``, ``slow`` or ``shut``. A broker that is paused instead loses its session, so the controller
takes it out of the ISR before the leader does; with a tap, only the leader can notice.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ottla.broker.__main__ import main
from ottla.broker.replication import fetch_loop
from ottla.broker.replication.fetch_loop import ReplicaFetcher
from ottla.broker.replication.partition import Partition
from ottla.local import LocalCluster
from ottla.local.broker import child_environment, why_not_ready
from ottla.local.processes import Process, Reaper
from ottla.wire.requests import FetchPart, FetchPartResult
from ottla.zk.ensemble import free_ports
from tests.support.cluster import wait_until

ROOT = Path(__file__).parents[2]

SLOW_S = 0.3
"""A slow follower takes one batch in this time."""


class TappedBroker:
    """One more broker of a local cluster."""

    def __init__(
        self, cluster: LocalCluster, broker_id: int, config: Mapping[str, str], folder: Path, reaper: Reaper
    ) -> None:
        port, admin_port = free_ports(2)
        self.id = broker_id
        self.address = f"127.0.0.1:{port}"
        self._admin_url = f"http://127.0.0.1:{admin_port}"
        self.data_path = folder / "data"
        self._tap = folder / "tap"
        properties = {
            "broker.id": str(broker_id),
            "zookeeper.connect": cluster.zookeeper,
            "listeners": f"PLAINTEXT://{self.address}",
            "admin.listener": self._admin_url,
            "log.dirs": str(self.data_path),
            **config,
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [sys.executable, "-m", "tests.support.tapped_broker", str(self._tap), "--config", str(file)]
        self.process = Process(
            f"broker-{broker_id}", command, log_path=folder / "broker.log", reaper=reaper,
            env=child_environment(), folder=ROOT,
        )  # fmt: skip
        self.open()

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.process.start()
        wait_until(lambda: why_not_ready(self._admin_url) is None, 60)

    def open(self) -> None:
        self._turn("open")

    def slow(self) -> None:
        self._turn("slow")

    def shut(self) -> None:
        """Fetch no more from now on, and take nothing of what is on its way."""
        self._turn("shut")

    def _turn(self, how: str) -> None:
        new = self._tap.with_suffix(".new")
        new.write_text(how)
        new.replace(self._tap)


@contextmanager
def tapped_brokers(
    cluster: LocalCluster, ids: list[int], config: Mapping[str, str], folder: Path
) -> Iterator[dict[int, TappedBroker]]:
    """Start more brokers; they are gone afterwards."""
    reaper = Reaper()
    brokers: dict[int, TappedBroker] = {}
    try:
        for broker_id in ids:
            own = folder / f"broker-{broker_id}"
            own.mkdir()
            brokers[broker_id] = TappedBroker(cluster, broker_id, config, own, reaper)
            brokers[broker_id].start()
        yield brokers
    finally:
        reaper.close()
        for broker in brokers.values():
            if broker.process.alive:
                broker.process.wait(15)


def install(tap: Path) -> None:
    """Put the tap into this process's replication."""
    fetch, take = ReplicaFetcher._fetch, ReplicaFetcher._take
    usual_bytes = fetch_loop.PARTITION_BYTES

    def turned() -> str:
        return tap.read_text()

    async def tapped_fetch(self: ReplicaFetcher, partitions: list[Partition]) -> None:
        how = turned()
        if how == "shut":
            await asyncio.sleep(0.02)
            return  # the loop calls again
        if how == "slow":
            await asyncio.sleep(SLOW_S)
        fetch_loop.PARTITION_BYTES = 1 if how == "slow" else usual_bytes
        await fetch(self, partitions)

    def tapped_take(
        self: ReplicaFetcher, partition: Partition, part: FetchPart, result: FetchPartResult, records: memoryview
    ) -> None:
        if turned() != "shut":
            take(self, partition, part, result, records)

    ReplicaFetcher._fetch = tapped_fetch  # type: ignore[method-assign]
    ReplicaFetcher._take = tapped_take  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
