"""A consumer group that reads along while a cluster suffers. Its members come and go, and commit what they have read."""

import threading
import time
import uuid
from collections.abc import Mapping

from ottla.chaos.history import GroupCommit, GroupPoll
from ottla.chaos.schedule import REQUEST_TIMEOUT_S
from ottla.chaos.threads import WatchedThread
from ottla.client import Consumer, TopicPartition
from ottla.wire.errors import OttlaError

MEMBERS = 3
STAYS_RECORDS = (15_000, 6_000, 25_000)
"""After so many records, in turn, a member leaves, and comes back as another one."""

COMMIT_S = 30.0


class GroupReaders:
    """Three members of one group, each in a thread of its own. Every poll and every commit is remembered."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.group = f"chaos-{uuid.uuid4().hex[:8]}"
        self.polls: list[GroupPoll] = []
        self.commits: list[GroupCommit] = []
        self.committed = dict.fromkeys(range(partitions), 0)
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self.threads = [
            WatchedThread(f"member-{number}", lambda number=number: self._run(number))  # type: ignore[misc]
            for number in range(MEMBERS)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    def wait_until(self, ends: Mapping[int, int], timeout_s: float) -> bool:
        """Whether the group has committed everything in time."""
        deadline = time.monotonic() + timeout_s
        while any(self.committed[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline or not all(thread.is_alive() for thread in self.threads):
                return False
            time.sleep(0.05)
        return True

    def _run(self, number: int) -> None:
        times = 0
        while not self._stop.is_set():
            self._one_membership(f"member-{number}-{times}", STAYS_RECORDS[(number + times) % len(STAYS_RECORDS)])
            times += 1

    def _one_membership(self, name: str, most: int) -> None:
        read = 0
        with Consumer(
            bootstrap_servers=self._bootstrap,
            client_id=name,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        ) as consumer:
            consumer.subscribe([self._topic])
            while not self._stop.is_set() and read < most:
                try:
                    batches = consumer.poll_batches(timeout=0.5)
                except OttlaError as error:
                    if not error.retriable:
                        raise
                    continue
                generation, now = consumer.generation, time.monotonic()
                ends: dict[int, int] = {}
                for batch in batches:
                    offsets = batch.offsets()
                    if offsets:
                        first = offsets[0]
                        self.polls.append(GroupPoll(name, generation, now, batch.partition, first, batch.next_offset))
                        ends[batch.partition] = batch.next_offset
                        read += len(offsets)
                if ends:
                    self._commit(consumer, name, generation, ends)

    def _commit(self, consumer: Consumer, name: str, generation: int, ends: Mapping[int, int]) -> None:
        began = time.monotonic()
        try:
            consumer.commit(
                {TopicPartition(self._topic, partition): end for partition, end in ends.items()}, timeout=COMMIT_S
            )
        except OttlaError:
            return  # refused, or nobody knows: then others read it again
        ended = time.monotonic()
        for partition, end in ends.items():
            self.commits.append(GroupCommit(name, generation, began, ended, partition, end))
            self.committed[partition] = max(end, self.committed[partition])
