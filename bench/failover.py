"""``python -m ottla.bench.failover``: how long a partition cannot acknowledge after ``kill -9`` or SIGSTOP of its leader."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from ottla.bench.workloads import percentile
from ottla.client import Admin, Producer
from ottla.local import LocalCluster

TOPIC = "failover"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pauses", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    options = parser.parse_args()
    with (
        LocalCluster(brokers=3, zookeepers=3) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
    ):
        admin.create_topic(TOPIC, partitions=3, replication_factor=3, config={"min.insync.replicas": "2"})
        run = Failovers(cluster, admin, producer)
        rows = {
            "kill -9 of the leader": [run.kill(run.leader()) for _ in range(options.kills)],
            "kill -9 of the controller that leads": [run.kill_controller() for _ in range(max(1, options.kills // 5))],
            "SIGSTOP of the leader": [run.pause(run.leader()) for _ in range(options.pauses)],
        }
    print(f"{'time to the next acks=all ack, in ms':40}{'runs':>6}{'p50':>8}{'p99':>8}{'max':>8}   goal")
    goals = ["p50 < 150, p99 < 500 (Kafka 3.9: 18 s)", "likewise", "<= session timeout (6 s) + 1 s"]
    for (name, taken), goal in zip(rows.items(), goals, strict=True):
        p50, p99, longest = (percentile(taken, share) * 1000 for share in (0.5, 0.99, 1.0))
        print(f"{name:40}{len(taken):>6}{p50:>8.0f}{p99:>8.0f}{longest:>8.0f}   {goal}")
    options.out.mkdir(exist_ok=True)
    (options.out / "failover.json").write_text(json.dumps(rows, indent=2))


class Failovers:
    """Each run ends with all three replicas in sync again."""

    def __init__(self, cluster: LocalCluster, admin: Admin, producer: Producer) -> None:
        self._cluster = cluster
        self._admin = admin
        self._producer = producer

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
        began = time.monotonic()
        harm()
        self._producer.send(TOPIC, b"after", partition=0).result(timeout=60)
        return time.monotonic() - began

    def _wait_in_sync(self) -> None:
        deadline = time.monotonic() + 60
        while any(len(partition.isr) < 3 for partition in self._admin.describe_topic(TOPIC).partitions):
            if time.monotonic() > deadline:
                raise TimeoutError("the replicas did not get in sync again")
            time.sleep(0.05)


if __name__ == "__main__":
    main()
