"""Straight to a broker: where it is, who leads, and a batch to send."""

import time
import urllib.request

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.records import encode_batch
from tests.support.raw_client import RawClient

WAIT_S = 30.0


def address(cluster: LocalCluster, broker: int) -> tuple[str, int]:
    host, _, port = cluster.address(broker).rpartition(":")
    return host, int(port)


def leader_of(cluster: LocalCluster, admin: Admin, topic: str, partition: int = 0) -> RawClient:
    return RawClient(address(cluster, admin.describe_topic(topic).partitions[partition].leader))


def batch(*values: bytes, timestamp_ms: int | None = None) -> bytearray:
    return encode_batch(values, timestamps=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        assert answer.status == 200
        return str(answer.read().decode())
