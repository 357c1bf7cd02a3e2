"""The client library: Producer, Consumer and Admin, and their asyncio twins.

    from ottla.client import Producer

    with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        producer.send("orders", b"a value", key=b"a key").result(timeout=10)

Clients reach the cluster through brokers only; nothing here knows ZooKeeper.

- ``producing``  the way of a record out, and ``AsyncProducer``.
- ``consuming``  the way of a record in, and ``AsyncConsumer``.
- ``groups``     what a group's member does: the coordinator, assignors, heartbeats, commits. It fetches nothing.
- ``blocking``   the same three clients for code without an event loop, on top of all the others.
- here           what they share: the cluster's metadata, connections, options, records; and ``AsyncAdmin``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import AsyncAdmin
    from ottla.client.admin_requests import NewTopic
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.blocking.producer import Producer
    from ottla.client.consuming.consumer import AsyncConsumer
    from ottla.client.groups.commits import OffsetAndMetadata
    from ottla.client.offsets import Lag
    from ottla.client.producing.producer import AsyncProducer
    from ottla.client.records import Receipt, Record, RecordMetadata
    from ottla.wire.names import TopicPartition

# Loaded on first use: importing the package for one class must not cost the time of all.
_HOMES = {
    "Admin": "ottla.client.blocking.admin",
    "AsyncAdmin": "ottla.client.admin",
    "AsyncConsumer": "ottla.client.consuming.consumer",
    "AsyncProducer": "ottla.client.producing.producer",
    "Consumer": "ottla.client.blocking.consumer",
    "Lag": "ottla.client.offsets",
    "NewTopic": "ottla.client.admin_requests",
    "OffsetAndMetadata": "ottla.client.groups.commits",
    "Producer": "ottla.client.blocking.producer",
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
    "Lag",
    "NewTopic",
    "OffsetAndMetadata",
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
