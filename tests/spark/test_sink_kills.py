"""Exactly once, whatever dies: drivers, Python workers and brokers are killed while a topic is copied (``make spark-test``)."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from tests.support.machine import scaled

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]

RECORDS = 300_000
DRIVERS_KILLED = 3
WHOLE_S = scaled(300.0)


def make_topics(cluster: LocalCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for name, partitions in (("from", 3), ("to", 4)):
            admin.create_topic(name, partitions=partitions, replication_factor=3, config={"min.insync.replicas": "2"})


def fill(cluster: LocalCluster) -> Counter[bytes | None]:
    values = [b"%080d" % number for number in range(RECORDS)]
    keys = [b"key %d" % (number % 1_000) if number % 3 else None for number in range(RECORDS)]
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send_many("from", values, keys=keys).result(timeout=scaled(60))
    return Counter(values)


def copied(cluster: LocalCluster) -> Counter[bytes | None]:
    with Consumer(
        "to", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=2_000
    ) as consumer:
        return Counter(record.value for record in consumer)


class Copying:
    """The copying job in processes of its own, as a driver's machine would have them."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.spark.copying_job", bootstrap, "from", "to", str(folder / "checkpoint")]
        self._log = (folder / "copying.log").open("ab")
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)

    def workers(self) -> list[int]:
        """The Python workers below it."""
        found = subprocess.run(["ps", "-eo", "pid,sid,args"], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in found.splitlines()[1:]]
        return [int(pid) for pid, sid, args in rows if int(sid) == self.process.pid and "pyspark.daemon" in args]

    def kill_a_worker(self, random_: random.Random) -> None:
        workers = self.workers()
        if workers:
            try:
                os.kill(random_.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """All of it at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._log.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_is_copied_once_though_drivers_workers_and_brokers_are_killed(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    with LocalCluster(brokers=3) as cluster:
        make_topics(cluster)
        expected = fill(cluster)
        for life in range(DRIVERS_KILLED + 1):
            job = Copying(cluster.bootstrap, tmp_path)
            try:
                last = life == DRIVERS_KILLED
                run_with_faults(
                    cluster, job, random_, WHOLE_S if last else random_.uniform(9, 14), brokers_too=not last
                )
                if job.process.poll() == 0:
                    break
                if job.process.poll() is None:
                    job.kill()
                    continue
                # Spark itself gives a query up whose daemon died before it had said where it listens: that is a death, too.
                told = (tmp_path / "copying.log").read_text()[-5000:]
                assert not last, told
                assert "pyspark.daemon's stdout and terminated with code: 137" in told, told
            finally:
                job.close()
        else:
            pytest.fail(f"the job did not end within {WHOLE_S:g} s")
        found = copied(cluster)
        assert (expected - found, found - expected) == (Counter(), Counter())


def run_with_faults(
    cluster: LocalCluster, job: Copying, random_: random.Random, seconds: float, *, brokers_too: bool
) -> None:
    """Until the job ends, or its time is over."""
    deadline = time.monotonic() + seconds
    while job.process.poll() is None and time.monotonic() < deadline:
        time.sleep(random_.uniform(0.2, 0.8))
        if brokers_too and random_.random() < 0.2:
            job.kill_a_worker(random_)
        if brokers_too and random_.random() < 0.15:
            broker = random_.randrange(3)
            cluster.kill(broker)
            cluster.start(broker)
