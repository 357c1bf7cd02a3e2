"""Replicas at the end: their bytes, batch by batch, once they have stopped changing."""

import hashlib
import time
from collections.abc import Mapping, Sequence

from ottla.chaos.history import Batch, Replica
from ottla.chaos.targets.target import Target
from ottla.wire.batch import read_header
from ottla.wire.errors import CorruptMessage

SETTLE_S = 15.0


def settled_replicas(target: Target, topic: str, assignment: Mapping[int, Sequence[int]]) -> list[Replica]:
    """All replicas of a topic that nobody writes to; waits a while for the last fetches to arrive."""
    found: list[Replica] = []
    deadline = time.monotonic() + SETTLE_S
    for partition, brokers in sorted(assignment.items()):
        while True:
            logs = {broker: target.replica_log(f"broker{broker}", topic, partition) for broker in brokers}
            if len(set(logs.values())) == 1 or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        found += [as_replica(partition, broker, log) for broker, log in logs.items()]
    return found


def as_replica(partition: int, broker: int, log: bytes) -> Replica:
    return Replica(partition, broker, len(log), hashlib.sha256(log).digest(), batches_of(log))


def batches_of(log: bytes) -> list[Batch]:
    """The whole batches of a log, up to the first that is not whole."""
    batches = []
    position = 0
    while position < len(log):
        try:
            header = read_header(log, position)
        except CorruptMessage:
            break
        digest = hashlib.sha256(log[position : position + header.size]).digest()[:8]
        batches.append(Batch(header.base_offset, header.next_offset, header.leader_epoch, digest))
        position += header.size
    return batches
