"""How long a partition cannot acknowledge after ``kill -9`` or SIGSTOP of its leader."""

import time
from collections.abc import Callable
from pathlib import Path

from ottla.bench.rows import at_most, save, show
from ottla.bench.workloads import percentile
from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from ottla.wire.requests import PartitionMetadata

TOPIC = "failover"


def run(scale: float, out: Path) -> None:
    kills, pauses = max(2, int(50 * scale)), max(1, int(3 * scale))
    with (
        LocalCluster(brokers=3, zookeepers=3) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
    ):
        admin.create_topic(TOPIC, partitions=3, replication_factor=3, config={"min.insync.replicas": "2"})
        failovers = Failovers(cluster, admin, producer)
        taken = {
            "kill -9 of the leader": [failovers.kill(failovers.leader()) for _ in range(kills)],
            "kill -9 of the controller": [failovers.kill_controller() for _ in range(max(1, kills // 5))],
            "SIGSTOP of the leader": [failovers.pause(failovers.leader()) for _ in range(pauses)],
        }
    rows = []
    for name, times in taken.items():
        paused = name.startswith("SIGSTOP")
        for share, most in ((0.5, 7.0),) if paused else ((0.5, 0.15), (0.99, 0.5)):
            others = "session timeout 6 s + 1 s" if paused else "Kafka 3.9: 18 s"
            title = f"{name} to the next ack, p{share * 100:.0f} of {len(times)}"
            rows.append(at_most(title, percentile(times, share), "s", most, others))
    save(show(rows), out / "failover.json")


class Failovers:
    """Each run ends with all three replicas in sync again."""

    def __init__(self, cluster: LocalCluster, admin: Admin, producer: Producer) -> None:
        self._cluster = cluster
        self._admin = admin
        self._producer = producer
        self._epoch = -1

    def leader(self) -> int:
        return self._admin.describe_topic(TOPIC).partitions[0].leader

    def kill(self, broker: int) -> float:
        taken = self._time_to_ack(lambda: self._cluster.kill(broker))
        self._cluster.start(broker)
        self._wait_in_sync()
        return taken

    def kill_controller(self) -> float:
        """Of a partition that the controller leads, so that both must be replaced."""
        controller = self._admin.describe_cluster().controller
        deadline = time.monotonic() + 30
        while self.leader() != controller and time.monotonic() < deadline:
            self.kill(self.leader())
            controller = self._admin.describe_cluster().controller
        return self.kill(controller)

    def pause(self, broker: int) -> float:
        taken = self._time_to_ack(lambda: self._cluster.pause(broker))
        self._cluster.resume(broker)
        self._wait_in_sync()
        return taken

    def _time_to_ack(self, harm: Callable[[], None]) -> float:
        self._producer.send(TOPIC, b"before", partition=0).result(timeout=30)
        self._epoch = self._admin.describe_topic(TOPIC).partitions[0].leader_epoch
        began = time.monotonic()
        harm()
        self._producer.send(TOPIC, b"after", partition=0).result(timeout=60)
        return time.monotonic() - began

    def _wait_in_sync(self) -> None:
        """Until all are back, by the word of somebody who knows of the new leader: one that slept may not."""
        deadline = time.monotonic() + 60
        while not self._is_over(self._admin.describe_topic(TOPIC).partitions):
            if time.monotonic() > deadline:
                raise TimeoutError("the replicas did not get in sync again")
            time.sleep(0.05)

    def _is_over(self, partitions: list[PartitionMetadata]) -> bool:
        return partitions[0].leader_epoch > self._epoch and all(len(partition.isr) == 3 for partition in partitions)
