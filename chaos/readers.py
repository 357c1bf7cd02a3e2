"""Consumers that read along while a cluster suffers, and the final read of everything by a new one."""

import threading
import time
import uuid
from collections import defaultdict
from typing import Any

from ottla.chaos.foreign_clients import ConfluentConsumer
from ottla.chaos.history import Poll, Read, Session
from ottla.chaos.schedule import REQUEST_TIMEOUT_S
from ottla.chaos.threads import WatchedThread
from ottla.client import Admin, Consumer
from ottla.client.records import FetchedBatch
from ottla.wire.errors import OttlaError

FINAL_READ_S = 120.0
SESSION_RECORDS = (12_000, 4_000, 20_000)
"""After so many records, in turn, a reader closes its consumer and goes on with a new one, as a restarted program does."""

LOOK_EVERY_MS = 500
"""How often a reader asks who leads, whatever else happens: it reads from a new leader while the old one owes answers."""


class Reader:
    """One consumer of all partitions, from the beginning, in a thread of its own. Every session and every poll is remembered.

    With ``subscribes`` it names the topic and begins at its earliest records; else it names partitions and offsets.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, subscribes: bool = False) -> None:
        self.name = f"reader-{uuid.uuid4().hex[:6]}"
        self.sessions: list[Session] = []
        self.polls: list[Poll] = []
        self.positions = dict.fromkeys(range(partitions), 0)
        self._bootstrap = bootstrap
        self._topic = topic
        self._subscribes = subscribes
        self._stop = threading.Event()
        self.thread = WatchedThread(self.name, self._run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self.thread.ident is not None:
            self.thread.join()

    def wait_until(self, ends: dict[int, int], timeout_s: float) -> bool:
        """Whether it gets to these offsets in time."""
        deadline = time.monotonic() + timeout_s
        while any(self.positions[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline or not self.thread.is_alive():
                return False
            time.sleep(0.05)
        return True

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._one_session(number)
            number += 1

    def _one_session(self, number: int) -> None:
        """A new consumer that goes on where the last one ended."""
        read, most = 0, SESSION_RECORDS[number % len(SESSION_RECORDS)]
        self.sessions.append(Session(self.name, number, time.monotonic(), dict(self.positions)))
        with self._open(number) as consumer:
            while not self._stop.is_set() and read < most:
                try:
                    batches = consumer.poll_batches(timeout=0.5)
                except OttlaError as error:
                    if not error.retriable:
                        raise
                    continue
                for batch in batches:
                    reads = reads_of(batch)
                    self.polls.append(Poll(self.name, number, time.monotonic(), batch.partition, reads))
                    self.positions[batch.partition] = batch.next_offset
                    read += len(reads)

    def _open(self, number: int) -> Consumer:
        if self._subscribes and number == 0:
            return open_consumer(
                self._bootstrap, self._topic, auto_offset_reset="earliest", metadata_max_age_ms=LOOK_EVERY_MS
            )
        consumer = open_consumer(self._bootstrap, metadata_max_age_ms=LOOK_EVERY_MS)
        for partition, position in self.positions.items():  # before they are assigned: nobody must guess
            consumer.seek(self._topic, partition, position)
        if self._subscribes:
            consumer.subscribe([self._topic])
        else:
            consumer.assign([(self._topic, partition) for partition in self.positions])
        return consumer


class ConfluentReader(Reader):
    """The same by confluent-kafka."""

    def _one_session(self, number: int) -> None:
        read, most = 0, SESSION_RECORDS[number % len(SESSION_RECORDS)]
        self.sessions.append(Session(self.name, number, time.monotonic(), dict(self.positions)))
        consumer = ConfluentConsumer(self._bootstrap, self._topic, self.positions)
        try:
            while not self._stop.is_set() and read < most:
                for partition, reads in consumer.poll(0.5):
                    self.polls.append(Poll(self.name, number, time.monotonic(), partition, reads))
                    self.positions[partition] = reads[-1].offset + 1
                    read += len(reads)
        finally:
            consumer.close()


def reads_of(batch: FetchedBatch) -> list[Read]:
    """Whole records, as they came."""
    columns = (batch.offsets(), batch.values(), batch.keys(), batch.headers(), batch.timestamps())
    return [Read(*record) for record in zip(*columns, strict=True)]


def read_everything(bootstrap: str, topic: str, timeout_s: float = FINAL_READ_S) -> dict[int, list[Read]]:
    """What a new consumer gets of a topic, from 0 to the end of each partition; TimeoutError if that takes too long."""
    deadline = time.monotonic() + timeout_s
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = {where.partition: end for where, end in admin.latest_offsets(topic, timeout=timeout_s).items()}
    found: dict[int, list[Read]] = defaultdict(list)
    positions = dict.fromkeys(ends, 0)
    with open_consumer(bootstrap) as consumer:
        for partition in ends:
            found[partition] = []
            consumer.seek(topic, partition, 0)
        consumer.assign([(topic, partition) for partition in ends])
        while any(positions[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: read to {positions} of {ends} in {timeout_s:g} s")
            for batch in consumer.poll_batches(timeout=1):
                found[batch.partition] += reads_of(batch)
                positions[batch.partition] = batch.next_offset
    return dict(found)


def open_consumer(bootstrap: str, *topics: str, **options: Any) -> Consumer:
    """A consumer that never jumps unless it is told to: without a position it fails."""
    settings = {"auto_offset_reset": "none", "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000), **options}
    return Consumer(*topics, bootstrap_servers=bootstrap, **settings)
