"""Topics of one partition on named brokers: made, written record by record, read from the beginning."""

import uuid

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from tests.support.machine import scaled
from tests.support.workload import WAIT_S


def make_topic(admin: Admin, replicas: list[int], min_insync: int = 2) -> str:
    name = f"small-{uuid.uuid4().hex[:8]}"
    settings = {"min.insync.replicas": str(min_insync)}
    admin.create_topic(name, assignment=[replicas], config=settings, timeout=WAIT_S)
    return name


def write(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    """Have them acknowledged by all that are in sync."""
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.result(WAIT_S)


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    """The first records of the topic; fewer if no more come."""
    found: list[bytes] = []
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        while len(found) < count and (records := consumer.poll(timeout=scaled(10))):
            found += [record.value for record in records]
    return found
