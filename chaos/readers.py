"""Consumers that read along while a cluster suffers, and the final read of everything by a new one."""

import threading
import time
import uuid
from collections import defaultdict
from typing import Any

from ottla.chaos.history import Poll, Read
from ottla.chaos.schedule import REQUEST_TIMEOUT_S
from ottla.client import Admin, Consumer
from ottla.wire.errors import OttlaError

FINAL_READ_S = 120.0
SESSION_RECORDS = 20_000
"""After so many records a reader closes its consumer and goes on with a new one, as a restarted program does."""


class Reader:
    """One consumer of all partitions, from the beginning, in a thread of its own. Every poll is remembered."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.name = f"reader-{uuid.uuid4().hex[:6]}"
        self.polls: list[Poll] = []
        self.positions = dict.fromkeys(range(partitions), 0)
        self.failures: list[BaseException] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait_until(self, ends: dict[int, int], timeout_s: float) -> bool:
        """Whether it gets to these offsets in time."""
        deadline = time.monotonic() + timeout_s
        while any(self.positions[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline or self.failures:
                return False
            time.sleep(0.05)
        return True

    def _run(self) -> None:
        try:
            session = 0
            while not self._stop.is_set():
                self._one_session(session)
                session += 1
        except BaseException as failure:
            self.failures.append(failure)

    def _one_session(self, session: int) -> None:
        """A new consumer that goes on where the last one ended."""
        read = 0
        with open_consumer(self._bootstrap) as consumer:
            for partition, position in self.positions.items():  # before they are assigned: nobody must guess
                consumer.seek(self._topic, partition, position)
            consumer.assign([(self._topic, partition) for partition in self.positions])
            while not self._stop.is_set() and read < SESSION_RECORDS:
                try:
                    batches = consumer.poll_batches(timeout=0.5)
                except OttlaError as error:
                    if not error.retriable:
                        raise
                    continue
                for batch in batches:
                    now = time.monotonic()
                    reads = [
                        Read(offset, value or b"")
                        for offset, value in zip(batch.offsets(), batch.values(), strict=True)
                    ]
                    self.polls.append(Poll(self.name, session, now, batch.partition, reads))
                    self.positions[batch.partition] = batch.next_offset
                    read += len(reads)


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
                reads = zip(batch.offsets(), batch.values(), strict=True)
                found[batch.partition] += [Read(offset, value or b"") for offset, value in reads]
                positions[batch.partition] = batch.next_offset
    return dict(found)


def open_consumer(bootstrap: str, **options: Any) -> Consumer:
    """A consumer that never jumps: without a position it fails."""
    return Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="none",
        request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        **options,
    )
