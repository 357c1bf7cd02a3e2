"""A consumer that somebody watches: who asks for its lag must not keep it from hearing of a new leader."""

import threading
import time
from collections.abc import Callable

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError
from tests.support.machine import scaled
from tests.support.workload import WAIT_S

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

KILLS = 3
SILENCE_MAX_S = scaled(15.0)
"""Far below the five minutes of metadata.max.age.ms, after which it would have looked by itself."""


def repeat(work: Callable[[], object], pause_s: float, stop: threading.Event) -> threading.Thread:
    def run() -> None:
        while not stop.wait(pause_s):
            try:
                work()
            except OttlaError:
                pass  # while a broker is down

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_consumer_goes_on_after_a_failover_that_another_call_hears_of_first() -> None:
    """The look-up's refresh learns of the new leader while the fetcher of the old one waits before it tries again."""
    with (
        LocalCluster(brokers=3) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        admin.create_topic("watched", 1, 3, timeout=WAIT_S)
        consumer = Consumer("watched", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        stop = threading.Event()
        threads = [
            repeat(lambda: producer.send("watched", b"x").result(WAIT_S), 0.02, stop),
            repeat(lambda: consumer.end_offsets([("watched", 0)], timeout=5), 0.01, stop),
        ]
        try:
            for _ in range(KILLS):
                assert consumer.poll(timeout=SILENCE_MAX_S)
                victim = admin.describe_topic("watched", timeout=WAIT_S).partitions[0].leader
                cluster.kill(victim)
                killed_at = time.monotonic()
                while time.monotonic() < killed_at + 3:
                    assert consumer.poll(timeout=SILENCE_MAX_S), f"deaf since broker {victim} was killed"
                cluster.start(victim)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            consumer.close()
