"""A process that is a member of a group and writes down all it does, a line each: what the tests judge it by.

    python group_worker.py <bootstrap> <group> <topic> <file> <strategy> <instance or ->

Lines: ``own <generation> <partition,..>``, ``read <partition> <first> <next>``, ``commit <partition>:<next>``
and so on. What it read it commits by itself, before it polls again.
"""

import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import IO

from ottla.client import Consumer, TopicPartition
from ottla.wire.errors import OttlaError


class Notes:
    def __init__(self, file: IO[str], consumer: Consumer) -> None:
        self._file = file
        self._consumer = consumer

    def write(self, *words: object) -> None:
        self._file.write(" ".join([f"{time.time():.6f}", *map(str, words)]) + "\n")
        self._file.flush()

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        owned = sorted(where.partition for where in self._consumer.assignment())
        self.write("own", self._consumer.generation, ",".join(map(str, owned)) or "-")

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self.write("revoked", ",".join(str(where.partition) for where in sorted(partitions)))

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.write("lost", ",".join(str(where.partition) for where in sorted(partitions)))


def main(bootstrap: str, group: str, topic: str, path: str, strategy: str, instance: str) -> None:
    logging.basicConfig(filename=f"{path}.log", level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    consumer = Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", client_id=f"w{os.getpid()}",
        session_timeout_ms=2000 if instance == "-" else 20_000, heartbeat_interval_ms=300, enable_auto_commit=False,
        partition_assignment_strategy=strategy, group_instance_id=None if instance == "-" else instance,
    )  # fmt: skip
    with Path(path).open("a") as file, consumer:
        notes = Notes(file, consumer)
        consumer.subscribe([topic], listener=notes)
        while not stopping:
            read: dict[int, list[int]] = {}
            for record in consumer.poll(0.2, max_records=200):
                read.setdefault(record.partition, []).append(record.offset)
            for partition, offsets in read.items():
                notes.write("read", partition, offsets[0], offsets[-1] + 1)
            if read:
                offsets_now = {TopicPartition(topic, partition): offsets[-1] + 1 for partition, offsets in read.items()}
                began = time.time()
                try:
                    consumer.commit(offsets_now, timeout=10)
                    ends = ",".join(f"{where.partition}:{end}" for where, end in offsets_now.items())
                    notes.write("commit", ends, f"{began:.6f}")
                except OttlaError as error:
                    notes.write("refused", error.wire_name(), ",".join(f"{p}" for p in read))


if __name__ == "__main__":
    main(*sys.argv[1:])
