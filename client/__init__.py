"""The client library: Producer, Consumer and Admin, and their asyncio twins.

    from ottla.client import Producer

    with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        producer.send("orders", b"a value", key=b"a key").result(timeout=10)

Clients reach the cluster through brokers only; nothing here knows ZooKeeper.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import AsyncAdmin
    from ottla.client.blocking import Admin, Consumer, Producer
    from ottla.client.consumer import AsyncConsumer
    from ottla.client.producer import AsyncProducer
    from ottla.client.records import Receipt, Record, RecordMetadata
    from ottla.wire.names import TopicPartition

# Loaded on first use: importing the package for one class must not cost the time of all.
_HOMES = {
    "Admin": "ottla.client.blocking",
    "AsyncAdmin": "ottla.client.admin",
    "AsyncConsumer": "ottla.client.consumer",
    "AsyncProducer": "ottla.client.producer",
    "Consumer": "ottla.client.blocking",
    "Producer": "ottla.client.blocking",
    "Receipt": "ottla.client.records",
    "Record": "ottla.client.records",
    "RecordMetadata": "ottla.client.records",
    "TopicPartition": "ottla.wire.names",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "Producer",
    "Receipt",
    "Record",
    "RecordMetadata",
    "TopicPartition",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.client' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
