"""Straight to a broker: where it is, who leads, and a batch to send."""

import time
import urllib.request

from ottla.broker.peers import NONCE_BYTES, Encounter, Side
from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.control import BrokerHandshakeRequest, BrokerHandshakeResponse
from ottla.wire.records import encode_batch
from ottla.wire.requests import ApiVersionsRequest, ApiVersionsResponse
from tests.support.machine import scaled
from tests.support.raw_client import RawClient

WAIT_S = scaled(30.0)


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


def shake_hands(client: RawClient, secret: str, broker_id: int, broker_epoch: int) -> BrokerHandshakeResponse:
    """Prove to a broker, with the cluster's secret, to be another one."""
    return client.ask(handshake(client, secret, broker_id, broker_epoch), BrokerHandshakeResponse)


def handshake(client: RawClient, secret: str, broker_id: int, broker_epoch: int) -> BrokerHandshakeRequest:
    """What proves that, on this connection."""
    called = client.ask(ApiVersionsRequest("test"), ApiVersionsResponse)
    nonce = bytes(NONCE_BYTES)
    encounter = Encounter((broker_id, broker_epoch), (called.broker_id, called.broker_epoch), nonce, called.nonce)
    return BrokerHandshakeRequest(*encounter.caller, *encounter.called, nonce, encounter.proof(secret, Side.CALLING))
