"""A real broker whose replication can be turned off and slowed down while it runs, its ZooKeeper session untouched.

A file, the tap, says ``open``, ``slow``, ``shut`` or ``stale``. A broker that is paused instead loses its session, so the
controller takes it out of the ISR before the leader does; with a tap, only the leader can notice. A broker can also be given
a bad habit for its whole life, to show what a rule of the protocol is good for.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path

from ottla.broker.__main__ import main
from ottla.broker.replication import followed
from ottla.broker.replication.followed import FollowedPartitions
from ottla.broker.replication.partition import Partition
from ottla.local import LocalCluster
from ottla.local.broker import child_environment, why_not_ready
from ottla.local.processes import Process, Reaper
from ottla.net.channel import Channel
from ottla.wire.control import PartitionState
from ottla.wire.names import NO_EPOCH
from ottla.wire.requests import FetchPart, FetchPartResult
from ottla.zk.ensemble.ports import free_ports
from tests.support.cluster import wait_until
from tests.support.machine import scaled

ROOT = Path(__file__).parents[2]

SLOW_S = 0.3
"""A slow follower takes one batch in this time."""


class Habit(StrEnum):
    """What a follower does instead of cutting its log where its epochs leave the leader's [I4]."""

    NONE = "none"
    CUTS_TO_HIGH_WATERMARK = "cuts-to-high-watermark"
    COMPARES_LENGTHS = "compares-lengths"


class TappedBroker:
    """One more broker of a local cluster."""

    def __init__(
        self,
        cluster: LocalCluster,
        broker_id: int,
        config: Mapping[str, str],
        folder: Path,
        reaper: Reaper,
        habit: Habit = Habit.NONE,
    ) -> None:
        port, admin_port = free_ports(2)
        self.id = broker_id
        self.address = f"127.0.0.1:{port}"
        self._admin_url = f"http://127.0.0.1:{admin_port}"
        self.data_path = folder / "data"
        self._tap = folder / "tap"
        properties = {
            "broker.id": str(broker_id),
            **cluster.zookeeper_properties,
            "listeners": f"PLAINTEXT://{self.address}",
            "admin.listener": self._admin_url,
            "log.dirs": str(self.data_path),
            **config,
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [sys.executable, "-m", "tests.support.tapped_broker", str(self._tap), habit, "--config", str(file)]
        self.log_path = folder / "broker.log"
        self.process = Process(
            f"broker-{broker_id}", command, log_path=self.log_path, reaper=reaper,
            env={**child_environment(), "OTTLA_PURE": "1"},  # compiled code would not see what is put in its place
            folder=ROOT,
        )  # fmt: skip
        self.open()

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.process.start()
        wait_until(lambda: why_not_ready(self._admin_url) is None, scaled(60))

    def open(self) -> None:
        self._turn("open")

    def slow(self) -> None:
        self._turn("slow")

    def shut(self) -> None:
        """Fetch no more from now on, and take nothing of what is on its way."""
        self._turn("shut")

    def stale(self) -> None:
        """Take records, and hear no more of what is committed: as if that news were always on its way."""
        self._turn("stale")

    def _turn(self, how: str) -> None:
        new = self._tap.with_suffix(".new")
        new.write_text(how)
        new.replace(self._tap)


@contextmanager
def tapped_brokers(
    cluster: LocalCluster, ids: list[int], config: Mapping[str, str], folder: Path, habit: Habit = Habit.NONE
) -> Iterator[dict[int, TappedBroker]]:
    """Start more brokers; they are gone afterwards."""
    reaper = Reaper()
    brokers: dict[int, TappedBroker] = {}
    try:
        for broker_id in ids:
            own = folder / f"broker-{broker_id}"
            own.mkdir()
            brokers[broker_id] = TappedBroker(cluster, broker_id, config, own, reaper, habit)
            brokers[broker_id].start()
        yield brokers
    finally:
        reaper.close()
        for broker in brokers.values():
            if broker.process.alive:
                broker.process.wait(scaled(15))


def install(tap: Path) -> None:
    """Put the tap into this process's replication."""
    ask, take = FollowedPartitions.ask, FollowedPartitions._take
    usual_bytes = followed.PARTITION_BYTES

    def turned() -> str:
        return tap.read_text()

    def tapped_ask(
        self: FollowedPartitions, channel: Channel, pause: "asyncio.Future[list[Partition]]", *, rested: bool = False
    ) -> None:
        if pause.done():
            return
        how = turned()
        self.asked_at = time.monotonic()
        if how == "shut":
            asyncio.get_running_loop().call_later(0.02, tapped_ask, self, channel, pause)
        elif how == "slow" and not rested:
            asyncio.get_running_loop().call_later(SLOW_S, partial(tapped_ask, self, channel, pause, rested=True))
        else:
            followed.PARTITION_BYTES = 1 if how == "slow" else usual_bytes
            ask(self, channel, pause)

    def tapped_take(
        self: FollowedPartitions, partition: Partition, part: FetchPart, result: FetchPartResult, records: memoryview
    ) -> None:
        how = turned()
        if how == "stale":
            result.high_watermark = partition.high_watermark
        if how != "shut":
            take(self, partition, part, result, records)

    FollowedPartitions.ask = tapped_ask  # type: ignore[method-assign]
    FollowedPartitions._take = tapped_take  # type: ignore[method-assign]


def take_up(habit: Habit) -> None:
    """Put a habit into this process's replication."""
    apply, next_fetch = Partition.apply, Partition.next_fetch

    def apply_and_cut(self: Partition, state: PartitionState, now: float, broker_epoch: int = NO_EPOCH) -> bool:
        taken = apply(self, state, now, broker_epoch)
        if taken and not self.is_leader:
            self.log.truncate_to(min(self.high_watermark, self.log.log_end_offset))
        return taken

    def fetch_without_epoch(self: Partition, max_bytes: int) -> FetchPart:
        part = next_fetch(self, max_bytes)
        part.last_fetched_epoch = NO_EPOCH
        return part

    if habit is Habit.CUTS_TO_HIGH_WATERMARK:
        Partition.apply = apply_and_cut  # type: ignore[method-assign]
    if habit is Habit.COMPARES_LENGTHS:
        Partition.next_fetch = fetch_without_epoch  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Path(sys.argv[1]))
    take_up(Habit(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
