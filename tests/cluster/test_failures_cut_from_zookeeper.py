"""A broker that is cut off from ZooKeeper alone: who reads from it goes on with the next leader, and new clients may ask it."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

from ottla.chaos.links import LinkedCluster, running_linked_cluster
from ottla.chaos.proxy import from_broker
from ottla.client import Admin, Consumer, Producer
from ottla.wire.errors import OttlaError
from tests.support.client_topics import write
from tests.support.cluster import complete, wait_until
from tests.support.machine import scaled
from tests.support.workload import HASTY, WAIT_S, Workload, all_in_sync, controller_of, make_topic
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MORE_THAN_PRODUCERS_S = scaled(0.4)
"""How much longer than producers readers may wait."""
NEW_CLIENT_S = scaled(3.0)


@pytest.fixture(scope="module")
def net() -> Iterator[LinkedCluster]:
    with running_linked_cluster(3, HASTY) as running:
        yield running


@pytest.fixture
def admin(net: LinkedCluster) -> Iterator[Admin]:
    complete(net.cluster)
    with Admin(bootstrap_servers=net.cluster.bootstrap, request_timeout_ms=2000) as running:
        yield running
    net.heal()


class Reader:
    """Reads a topic to its end, all the time, and notes when records came."""

    def __init__(self, poll: Callable[[], int]) -> None:
        self.arrivals: list[float] = []
        self._poll = poll
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._poll():
                    self.arrivals.append(time.monotonic())
            except OttlaError:
                pass

    def came_since(self, moment: float) -> bool:
        return bool(self.arrivals) and self.arrivals[-1] > moment


def longest_gap(times: list[float], since: float) -> float:
    times = sorted(time for time in times if time > since)
    return max(after - before for before, after in zip([since, *times], times, strict=False))


def ours(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([(topic, 0)])
    return consumer


def confluent(bootstrap: str, topic: str) -> Any:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return consumer


def records_of(consumer: Any) -> int:
    return sum(message.error() is None for message in consumer.consume(100, timeout=0.1))


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[list[Reader]]:
    """Our client and confluent's, which have read something already."""
    began = time.monotonic()
    foreign = confluent(bootstrap, topic)
    with (
        ours(bootstrap, topic) as consumer,
        Reader(lambda: len(consumer.poll(timeout=0.1))) as our_reader,
        Reader(lambda: records_of(foreign)) as foreign_reader,
    ):
        wait_until(lambda: our_reader.came_since(began) and foreign_reader.came_since(began), WAIT_S)
        yield [our_reader, foreign_reader]
    foreign.close()


def send_with_ours(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"new").result(timeout=WAIT_S)


def send_with_confluent(bootstrap: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"new")
    assert producer.flush(WAIT_S) == 0


def cut_leader(net: LinkedCluster, admin: Admin) -> tuple[int, str]:
    """A broker that is not the controller, and a topic that it leads."""
    controller = controller_of(admin)
    leader, follower = (broker for broker in net.cluster.brokers if broker != controller)
    return leader, make_topic(net.cluster, assignment=[[leader, follower, controller]])


def cut_first(net: LinkedCluster, cut: int) -> str:
    return ",".join([net.to[cut].address, *(proxy.address for proxy in net.to if proxy is not net.to[cut])])


def test_readers_of_a_leader_cut_from_zookeeper_wait_no_longer_than_producers(net: LinkedCluster, admin: Admin) -> None:
    """Before: until the cut ended. And new clients that asked the broker first had to wait as long."""
    cut, topic = cut_leader(net, admin)
    with Workload(net.cluster, topic) as load:
        load.wait_for_acks(100)
        began = time.monotonic()
        with reading(cut_first(net, cut), topic) as readers:
            net.zookeeper_of[cut][0].cut()
            wait_until(lambda: partition_state(net.cluster, topic).state.leader != cut, WAIT_S)
            elected = time.monotonic()
            for send in (send_with_ours, send_with_confluent):
                asked = time.monotonic()
                send(net.to[cut].address, topic)
                assert time.monotonic() - asked < NEW_CLIENT_S
            load.wait_for_acks(300)
            wait_until(lambda: all(reader.came_since(elected + 1) for reader in readers), WAIT_S)
        net.heal()
        wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
    producers = longest_gap([send.ended for send in load.sends if send.ended < float("inf")], began)
    gaps = [longest_gap(reader.arrivals, began) for reader in readers]
    print(f"longest wait: producers {producers:.2f} s, our reader {gaps[0]:.2f} s, confluent's {gaps[1]:.2f} s")
    assert max(gaps) <= producers + MORE_THAN_PRODUCERS_S


def test_our_readers_of_a_leader_cut_from_all_others_look_for_the_next_leader(net: LinkedCluster, admin: Admin) -> None:
    """It cannot learn who leads now, so it says to those who have read everything that it may not be the leader."""
    cut, topic = cut_leader(net, admin)
    others = [broker for broker in net.cluster.brokers if broker != cut]
    write(net.cluster.bootstrap, topic, range(10))
    with reading(cut_first(net, cut), topic) as readers:
        for broker in others:
            net.to[broker].cut(from_broker(cut))
        net.to[cut].cut(lambda greeting: any(from_broker(broker)(greeting) for broker in others))
        net.zookeeper_of[cut][0].cut()
        wait_until(lambda: partition_state(net.cluster, topic).state.leader != cut, WAIT_S)
        elected = time.monotonic()
        with Producer(bootstrap_servers=net.to[others[0]].address) as producer:
            producer.send(topic, b"after").result(timeout=WAIT_S)
        wait_until(lambda: readers[0].came_since(elected), WAIT_S)
        net.heal()
        wait_until(lambda: readers[1].came_since(elected), WAIT_S)
    wait_until(lambda: all_in_sync(admin, topic), WAIT_S)
