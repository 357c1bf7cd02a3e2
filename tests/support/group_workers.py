"""Members of a group in processes of their own, a load for them to read, and the rules they are judged by."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from ottla.chaos.checker.groups import committed_back
from ottla.chaos.history import GroupCommit, History
from ottla.client import Producer
from ottla.local import LocalCluster
from tests.support.cluster import wait_until
from tests.support.machine import scaled

PARTITIONS = 12
WORKER = Path(__file__).with_name("group_worker.py")


class Load:
    """Writes to a topic until it is stopped; ``acked`` has every offset that was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acked: dict[int, set[int]] = defaultdict(set)
        self._stopping = threading.Event()
        self._bootstrap, self._topic = bootstrap, topic
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._stopping.is_set():
                sent = [producer.send(self._topic, b"%d" % number) for number in range(50)]
                for one in sent:
                    found = one.result(timeout=scaled(60))
                    self.acked[found.partition].add(found.offset)
                time.sleep(0.01)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class Worker:
    """A member in a process of its own."""

    def __init__(self, cluster: LocalCluster, group: str, topic: str, path: Path, strategy: str, instance: str) -> None:
        self.path = path
        arguments = [cluster.bootstrap, group, topic, str(path), strategy, instance]
        self.process = subprocess.Popen([sys.executable, str(WORKER), *arguments])

    def lines(self) -> list[list[str]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines() if line]

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
        self.process.wait(scaled(30))


def owned(worker: Worker) -> list[int]:
    """What a member says that it has."""
    last = [line for line in worker.lines() if line[1] in ("own", "revoked", "lost")]
    return (
        [int(number) for number in last[-1][3].split(",")]
        if last and last[-1][1] == "own" and last[-1][3] != "-"
        else []
    )


def all_share(workers: list[Worker]) -> bool:
    """Whether each has some, and all together have everything once."""
    parts = [owned(one) for one in workers]
    return all(parts) and sorted(chain.from_iterable(parts)) == list(range(PARTITIONS))


def wait_shared(workers: list[Worker], timeout_s: float = 60.0) -> None:
    try:
        wait_until(lambda: all_share(workers), timeout_s)
    except AssertionError:
        notes = [[line for line in one.lines() if line[1] not in ("read", "commit")][-6:] for one in workers]
        raise AssertionError(f"not shared after {timeout_s:g} s: {notes}") from None


def check_owners(workers: list[Worker]) -> None:
    """No partition has two owners in one generation."""
    owners: dict[tuple[int, int], set[int]] = defaultdict(set)
    for number, one in enumerate(workers):
        for line in one.lines():
            if line[1] == "own" and line[3] != "-":
                for partition in line[3].split(","):
                    owners[(int(line[2]), int(partition))].add(number)
    doubled = {place: who for place, who in owners.items() if len(who) > 1}
    assert not doubled, doubled


def committed(lines: list[list[str]]) -> dict[int, int]:
    last: dict[int, int] = {}
    for line in lines:
        if line[1] == "commit":
            for part in line[2].split(","):
                partition, offset = map(int, part.split(":"))
                last[partition] = offset
    return last


def check_reads(workers: list[Worker], acked: dict[int, set[int]]) -> None:
    """Everything was read at least once, and no commit that was acknowledged was for less than one before it."""
    read: dict[int, set[int]] = defaultdict(set)
    commits: list[GroupCommit] = []
    for number, one in enumerate(workers):
        for line in one.lines():
            if line[1] == "read":
                read[int(line[2])].update(range(int(line[3]), int(line[4])))
            elif line[1] == "commit":
                for part in line[2].split(","):
                    partition, offset = map(int, part.split(":"))
                    commits.append(
                        GroupCommit(f"worker {number}", 0, float(line[3]), float(line[0]), partition, offset)
                    )
    missing = {partition: sorted(offsets - read[partition])[:5] for partition, offsets in acked.items()}
    assert not {partition: some for partition, some in missing.items() if some}
    assert list(committed_back(History([], {}, group_commits=commits))) == []


def read_all(workers: list[Worker], acked: dict[int, set[int]]) -> Callable[[], bool]:
    def done() -> bool:
        last: dict[int, int] = {}
        for one in workers:
            for partition, offset in committed(one.lines()).items():
                last[partition] = max(offset, last.get(partition, 0))
        return all(last.get(partition, 0) > max(offsets) for partition, offsets in acked.items() if offsets)

    return done
