"""Producers that write while a cluster suffers, and the final phase: heal it, read everything, compare the replicas."""

import time
import uuid
from typing import Any

from ottla.chaos import workload as chaos_workload
from ottla.chaos.checker import Violation, check, report
from ottla.chaos.history import History
from ottla.chaos.readers import read_everything
from ottla.chaos.replicas import as_replica
from ottla.client import Admin
from ottla.local import LocalCluster
from tests.support.cluster import complete, wait_until
from tests.support.machine import scaled

WAIT_S = scaled(60.0)

SESSION_S = 2.0
HASTY = {
    "zookeeper.session.timeout.ms": f"{SESSION_S * 1000:.0f}",
    "replica.lag.time.max.ms": "4000",
    "group.min.session.timeout.ms": "1000",
}
"""Settings of a cluster in which what is silent is soon given up."""


RATE = 400
"""Records per second of one producer: enough that a fault always meets some, and tests beside this one keep their CPU time."""


class Workload(chaos_workload.Workload):
    """Idempotent producers with acks=all on one topic of a local cluster.

    with Workload(cluster, topic) as load:
        load.wait_for_acks(500)
        cluster.kill(0)
        load.wait_for_acks(500)
    load.check()
    """

    def __init__(
        self, cluster: LocalCluster, topic: str, producers: int = 3, rate: float | None = RATE, **options: Any
    ) -> None:
        # Every request is waited for: a test that wants another patience says so.
        super().__init__(cluster.bootstrap, topic, producers, rate, **{"request_timeout_ms": 30_000, **options})
        self.cluster = cluster

    def violations(self) -> list[Violation]:
        """Everything that must not be, after all brokers have come back and are in sync."""
        heal(self.cluster, self.topic)
        return check(History(self.sends, read_everything(self.cluster.bootstrap, self.topic)))

    def check(self) -> None:
        """Nothing lost, nothing twice, everything in order, and all replicas the same bytes."""
        found = self.violations()
        assert not found, f"{len(self.sends)} sent, {self.acked} acknowledged\n{report(found)}"
        assert self.acked > 0, "a history without a single ack proves nothing"
        check_replicas(self.cluster, self.topic)


# --- the cluster, seen from outside --------------------------------------------------------------------------------------


def make_topic(cluster: LocalCluster, partitions: int = 3, assignment: list[list[int]] | None = None) -> str:
    """A topic with three replicas, two of which must have every record."""
    name = f"failures-{uuid.uuid4().hex[:8]}"
    count, factor = (partitions, 3) if assignment is None else (-1, -1)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: len(admin.describe_cluster(timeout=WAIT_S).brokers) == len(cluster.brokers), WAIT_S)
        settings = {"min.insync.replicas": "2"}
        admin.create_topic(name, count, factor, settings, assignment=assignment, timeout=WAIT_S)
    return name


def leader_of(admin: Admin, topic: str, partition: int = 0) -> int:
    """The broker that leads now; waits until one does."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        leader = admin.describe_topic(topic, timeout=WAIT_S).partitions[partition].leader
        if leader >= 0:
            return leader
        time.sleep(0.05)
    raise AssertionError(f"{topic} partition {partition} has no leader after {WAIT_S:g} s")


def controller_of(admin: Admin) -> int:
    """The broker that is the controller now; waits until one is."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        controller = admin.describe_cluster(timeout=WAIT_S).controller
        if controller >= 0:
            return controller
        time.sleep(0.05)
    raise AssertionError(f"no controller after {WAIT_S:g} s")


def in_sync(admin: Admin, topic: str) -> list[list[int]]:
    """The ISR of each partition, sorted."""
    return [sorted(partition.isr) for partition in admin.describe_topic(topic, timeout=WAIT_S).partitions]


def all_in_sync(admin: Admin, topic: str, count: int = 3) -> bool:
    return all(len(isr) == count for isr in in_sync(admin, topic))


def heal(cluster: LocalCluster, topic: str) -> None:
    """Every broker runs, and every replica is in sync."""
    complete(cluster)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)


def replica_bytes(cluster: LocalCluster, broker: int, topic: str, partition: int) -> bytes:
    """A replica's whole log, as it stands on disk."""
    folder = cluster.data_path(broker) / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def check_replicas(cluster: LocalCluster, topic: str) -> None:
    """All replicas have the same bytes, offsets and leader epochs included. Nobody may be writing."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        partitions = [
            (part.partition, part.replicas) for part in admin.describe_topic(topic, timeout=WAIT_S).partitions
        ]
    for partition, replicas in partitions:

        def logs(partition: int = partition, replicas: list[int] = replicas) -> dict[int, bytes]:
            return {broker: replica_bytes(cluster, broker, topic, partition) for broker in replicas}

        deadline = time.monotonic() + 15
        while len(set((found := logs()).values())) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)  # the last fetches are under way
        differing = check(History([], {}, replicas=[as_replica(partition, *one) for one in found.items()]))
        assert not differing, f"{topic}: {report(differing)}"
