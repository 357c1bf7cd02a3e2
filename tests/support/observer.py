"""What a live cluster looks like from outside: in ZooKeeper, to a client, on disk and in its metrics."""

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from ottla.client import Admin, Consumer, Producer
from ottla.client.options import Acks
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError
from ottla.wire.requests import MetadataRequest, MetadataResponse, TopicMetadata
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.raw_client import RawClient

WAIT_S = scaled(40.0)

SHORT = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "4000",
    "log.segment.bytes.min": "20000",
}
"""Settings of clusters whose brokers are paused and cut off: nobody should wait for long."""

_SUPER_SECRET = 0xB3415C00
"""ZooKeeper makes the password of a session out of its id and this number (SessionTrackerImpl)."""


class Observer:
    """Looks at one cluster; holds a session of its own with its ZooKeeper. ``zookeeper`` may name a chroot."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.zk = KazooClient(hosts=cluster.zookeeper, auth_data=[("digest", cluster.zookeeper_digest.text)])
        self.zk.start(timeout=WAIT_S)
        self.admin = Admin(bootstrap_servers=cluster.bootstrap)

    def close(self) -> None:
        self.admin.close()
        self.zk.stop()
        self.zk.close()

    # --- ZooKeeper -------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> dict[str, Any]:
        found = json.loads(self.zk.get(path)[0])
        assert isinstance(found, dict)
        return found

    def owner(self, path: str) -> int:
        """The session that an ephemeral znode belongs to."""
        return int(self.zk.get(path)[1].ephemeralOwner)

    def broker_ids(self) -> list[int]:
        return sorted(int(name) for name in self.zk.get_children("/brokers/ids"))

    def controller(self) -> int | None:
        """The broker that /controller names; None while there is none."""
        if self.zk.exists("/controller") is None:
            return None
        return int(self.read("/controller")["brokerid"])

    def controller_epoch(self) -> int:
        return int(self.zk.get("/controller_epoch")[0])

    def wait_controller(self) -> int:
        """The controller, once there is one that is alive and acts as one."""

        def acts() -> bool:
            broker = self.controller()
            return (
                broker is not None
                and self.cluster.alive(broker)
                and self.metric(broker, "ottla_active_controller") == 1
            )

        wait_until(acts, WAIT_S)
        broker = self.controller()
        assert broker is not None
        return broker

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        return self.read(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(self.state(topic, partition)["leader"])

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """The in-sync replicas, sorted."""
        return sorted(self.state(topic, partition)["isr"])

    def assignment(self, topic: str) -> dict[int, list[int]]:
        found = self.read(f"/brokers/topics/{topic}")["partitions"]
        return {int(partition): replicas for partition, replicas in sorted(found.items())}

    def wait_in_sync(self, topic: str, timeout_s: float = WAIT_S) -> None:
        """Wait until every replica of every partition is in sync, and every live broker has heard of it."""
        wait_until(
            lambda: all(self.isr(topic, p) == sorted(replicas) for p, replicas in self.assignment(topic).items()),
            timeout_s,
        )
        wait_until(
            lambda: all(
                sorted(partition.isr) == sorted(partition.replicas)
                for broker in self.cluster.brokers
                if self.cluster.alive(broker)
                for partition in self.described(broker, topic).partitions
            ),
            timeout_s,
        )

    def watchers(self, path: str) -> set[int]:
        """The sessions that watch a path (ZooKeeper's own list, ``wchp``)."""
        host, _, port = self.cluster.zookeeper_servers.address(0).partition(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock:
            sock.sendall(b"wchp")
            answer = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
        found: set[int] = set()
        watched = ""
        for line in answer.splitlines():
            if line.startswith("/"):
                watched = line.strip()
            elif watched == path and line.strip():
                found.add(int(line.strip(), 16))
        return found

    def expire(self, session_id: int) -> None:
        """End somebody else's session as a timeout would."""
        other = KazooClient(
            hosts=self.cluster.zookeeper_servers.address(0), client_id=(session_id, _session_password(session_id))
        )
        other.start(timeout=WAIT_S)
        assert other.client_id[0] == session_id, "the session was not taken over"
        other.stop()
        other.close()

    # --- brokers ---------------------------------------------------------------------------------------------------------

    def connect(self, broker: int) -> RawClient:
        host, _, port = self.cluster.address(broker).rpartition(":")
        return RawClient((host, int(port)), WAIT_S)

    def metadata(self, broker: int, topics: list[str] | None = None) -> MetadataResponse:
        """What one broker tells."""
        with self.connect(broker) as client:
            return client.ask(MetadataRequest(topics), MetadataResponse)

    def described(self, broker: int, topic: str) -> TopicMetadata:
        [found] = self.metadata(broker, [topic]).topics
        return found

    def metric(self, broker: int, wanted: str) -> float:
        """The sum of a metric over its labels; 0 if the broker does not have it."""
        with urllib.request.urlopen(f"{self.cluster.admin_url(broker)}/metrics", timeout=WAIT_S) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match(re.escape(wanted) + r"[ {]", line))

    def log(self, broker: int) -> str:
        return self.cluster.log_path(broker).read_text(errors="replace")

    def start_all(self) -> None:
        """Have all brokers running, whatever a test left."""
        for broker in self.cluster.brokers:
            self.cluster.resume(broker) if self.cluster.alive(broker) else self.cluster.start(broker)
        wait_until(lambda: self.broker_ids() == self.cluster.brokers, WAIT_S)

    # --- records ---------------------------------------------------------------------------------------------------------

    def produce(self, topic: str, values: list[bytes], partition: int | None = None, acks: Acks = "all") -> None:
        """Have values acknowledged."""
        with Producer(bootstrap_servers=self.cluster.bootstrap, acks=acks) as producer:
            producer.send_many(topic, values, partition=partition).result(timeout=WAIT_S)

    def consume(self, topic: str, count: int) -> dict[int, list[bytes]]:
        """The first ``count`` values of a topic, by partition, read from the beginning."""
        found: dict[int, list[bytes]] = {}
        with Consumer(topic, bootstrap_servers=self.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            while sum(map(len, found.values())) < count:
                records = consumer.poll(timeout=WAIT_S)
                assert records, f"only {sum(map(len, found.values()))} of {count} records came"
                for record in records:
                    found.setdefault(record.partition, []).append(record.value)
        return found

    def works(self, topic: str) -> bool:
        """Whether every partition has a leader that is alive and has said so to every live broker."""
        try:
            told = [self.described(i, topic) for i in self.cluster.brokers if self.cluster.alive(i)]
        except (OttlaError, OSError):
            return False
        return all(
            p.leader >= 0 and self.cluster.alive(p.leader) and p == first
            for topic_told in told
            for p, first in zip(topic_told.partitions, told[0].partitions, strict=True)
        )

    def segments(self, broker: int, topic: str, partition: int = 0) -> bytes:
        """The record bytes that a broker has on disk for a partition."""
        return segment_bytes(self.cluster.data_path(broker) / f"{topic}-{partition}")


def segment_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@contextmanager
def observed(cluster: LocalCluster) -> Iterator[Observer]:
    observer = Observer(cluster)
    try:
        yield observer
    finally:
        observer.close()


def _session_password(session_id: int) -> bytes:
    """What java.util.Random, seeded as ZooKeeper does, gives as its first 16 bytes."""
    mask = (1 << 48) - 1
    seed = ((session_id ^ _SUPER_SECRET) ^ 0x5DEECE66D) & mask
    password = b""
    while len(password) < 16:
        seed = (seed * 0x5DEECE66D + 0xB) & mask
        password += (seed >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return password
