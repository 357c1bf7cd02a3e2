"""Metrics as hosts send them, made up: days and nights, noise, and one host in trouble. Something to try jobs with.

All numbers are whole, so that sums of them are exact in whatever order they are added up.
"""

import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ottla.client import Admin, Producer
from ottla.wire.errors import TopicAlreadyExists

INTERVAL_MS = 5_000
"""Every host sends each of its metrics as often."""

TROUBLE_EVERY_MS = 180_000
"""The last host is in trouble for the middle third of this time, again and again."""

PARTITIONS = 3
WAIT_S = 60.0


@dataclass(frozen=True)
class Metric:
    """One measurement of one host."""

    host: str
    metric: str
    value: int
    at_ms: int

    def encode(self) -> bytes:
        return json.dumps({"host": self.host, "metric": self.metric, "value": self.value, "at": self.at_ms}).encode()


def sample_metrics(hosts: int, seconds: float, start_ms: int, seed: int) -> Iterator[Metric]:
    """In the order of time, all but the seconds between two sendings. The last host's cpu goes above 90 for a while."""
    chance = random.Random(seed)
    end_ms = start_ms + int(seconds * 1000)
    period_ms = min(TROUBLE_EVERY_MS, end_ms - start_ms)
    for at_ms in range(start_ms, end_ms, INTERVAL_MS):
        load = 40 + 15 * math.sin(at_ms / 300_000)
        for number in range(hosts):
            in_trouble = number == hosts - 1 and 1 / 3 <= (at_ms - start_ms) % period_ms / period_ms < 2 / 3
            cpu = chance.randint(93, 99) if in_trouble else max(1, min(85, round(chance.gauss(load, 8))))
            latency_ms = round(chance.lognormvariate(3 + cpu / 40, 0.3))
            at = at_ms + chance.randrange(INTERVAL_MS)
            host = f"web-{number}"
            yield Metric(host, "cpu", cpu, at)
            yield Metric(host, "latency_ms", latency_ms, at)


def write_metrics(bootstrap: str, topic: str, *, hosts: int, seconds: float, live: bool, seed: int) -> int:
    """Write them, keyed by host; as many as were acknowledged. ``live``: each when it is its time."""
    start_ms = int(time.time() * 1000) if live else int((time.time() - seconds) * 1000)
    with Admin(bootstrap_servers=bootstrap) as admin:
        try:
            admin.create_topic(
                topic, partitions=PARTITIONS, replication_factor=len(admin.describe_cluster().brokers[:3])
            )
        except TopicAlreadyExists:
            pass
    sent = 0
    with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        for metric in sample_metrics(hosts, seconds, start_ms, seed):
            if live:
                time.sleep(max(0.0, (metric.at_ms - INTERVAL_MS) / 1000 - time.time()))
            producer.send(topic, metric.encode(), key=metric.host.encode())
            sent += 1
        failed = producer.flush(WAIT_S)
    return sent - (failed or 0)
