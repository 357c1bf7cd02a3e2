"""Producers that write while a cluster suffers, and the final phase: heal it, read everything, compare the replicas."""

import itertools
import threading
import time
import uuid
from collections import defaultdict
from types import TracebackType
from typing import Any

from ottla.client import Admin, Consumer, Producer
from ottla.client.delivery import RecordDelivery
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError
from tests.support.cluster import wait_until
from tests.support.history import Read, Send, Violation, check, report

WAIT_S = 60.0
IN_FLIGHT = 200
"""Records that each producer has under way: enough for full pipelines, few enough to be checked afterwards."""

KEYS = 20


class Workload:
    """Idempotent producers with acks=all on one topic, each a thread with keys and a counter of its own.

    with Workload(cluster, topic) as load:
        load.wait_for_acks(500)
        cluster.kill(0)
        load.wait_for_acks(500)
    load.check()
    """

    def __init__(self, cluster: LocalCluster, topic: str, producers: int = 3, **options: Any) -> None:
        self.cluster = cluster
        self.topic = topic
        self.sends: list[Send] = []
        self._options = {"delivery_timeout_ms": 90_000, **options}
        self._acks = itertools.count()
        self._acked = 0
        self._stop = threading.Event()
        self._patience_s: float | None = None
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(uuid.uuid4().hex[:6],), name=f"producer {number}")
            for number in range(producers)
        ]

    def __enter__(self) -> "Workload":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:  # the test has failed: what is under way does not matter any more
            self._patience_s = 0.5
            self._join()

    def stop(self) -> None:
        """Send nothing more, and hear about everything that was sent."""
        self._join()
        if self._failures:
            raise self._failures[0]

    def _join(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def acked(self) -> int:
        return self._acked

    def wait_for_acks(self, more: int = 100, timeout_s: float = WAIT_S) -> None:
        """Progress: so many records are acknowledged from now on."""
        wanted = self._acked + more
        wait_until(lambda: self._acked >= wanted or bool(self._failures), timeout_s)
        assert not self._failures, self._failures

    def violations(self) -> list[Violation]:
        """Everything that must not be, after all brokers have come back and are in sync."""
        heal(self.cluster, self.topic)
        return check(self.sends, read_everything(self.cluster, self.topic))

    def check(self) -> None:
        """Nothing lost, nothing twice, everything in order, and all replicas the same bytes."""
        found = self.violations()
        assert not found, f"{len(self.sends)} sent, {self._acked} acknowledged\n{report(found)}"
        assert self._acked > 0, "a history without a single ack proves nothing"
        check_replicas(self.cluster, self.topic)

    def _run(self, name: str) -> None:
        room = threading.Semaphore(IN_FLIGHT)
        numbers = itertools.count()
        try:
            producer = Producer(bootstrap_servers=self.cluster.bootstrap, acks="all", **self._options)
            try:
                while not self._stop.is_set():
                    if room.acquire(timeout=0.1):
                        self._send(producer, Send(name, next(numbers), time.monotonic()), room)
            finally:
                producer.close(self._patience_s)
        except BaseException as failure:
            self._failures.append(failure)

    def _send(self, producer: Producer, send: Send, room: threading.Semaphore) -> None:
        self.sends.append(send)
        key = b"key-%d" % (send.number // 10 % KEYS)
        try:
            delivery = producer.send(self.topic, send.value, key=key)
        except OttlaError:
            send.refused(time.monotonic())  # it was not even queued
            room.release()
            return

        def told(delivered: RecordDelivery) -> None:
            error = delivered.exception()
            if error is None:
                where = delivered.result()
                send.acknowledged(where.partition, where.offset if where.offset >= 0 else None, time.monotonic())
                self._acked = next(self._acks) + 1
            room.release()

        delivery.add_callback(told)


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


def revive(cluster: LocalCluster) -> None:
    """Every broker runs, whatever the last test left behind."""
    for broker in cluster.brokers:
        if not cluster.alive(broker):
            cluster.start(broker)
        cluster.resume(broker)
    cluster.wait_ready()


def heal(cluster: LocalCluster, topic: str) -> None:
    """Every broker runs, and every replica is in sync."""
    revive(cluster)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)


def read_everything(cluster: LocalCluster, topic: str) -> dict[int, list[Read]]:
    """What a new consumer gets of a topic, from 0 to the end of each partition."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        ends = {where.partition: end for where, end in admin.latest_offsets(topic, timeout=WAIT_S).items()}
    found: dict[int, list[Read]] = defaultdict(list)
    positions = dict.fromkeys(ends, 0)
    deadline = time.monotonic() + WAIT_S
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, partition) for partition in ends])
        for partition in ends:
            consumer.seek(topic, partition, 0)
        while any(positions[partition] < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic}: got to {positions} of {ends}"
            for batch in consumer.poll_batches(timeout=1):
                for offset, value in zip(batch.offsets(), batch.values(), strict=True):
                    assert value is not None
                    found[batch.partition].append(Read(offset, value))
                positions[batch.partition] = batch.next_offset
    return found


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
        sizes = {broker: len(log) for broker, log in found.items()}
        assert len(set(found.values())) == 1, (
            f"{topic}-{partition}: replicas differ, sizes {sizes}, {_first_difference(found)}"
        )


def _first_difference(logs: dict[int, bytes]) -> str:
    (first, one), *others = logs.items()
    for broker, other in others:
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        if one != other:
            return f"broker {first} and broker {broker} part at byte {at}"
    return "no difference"
