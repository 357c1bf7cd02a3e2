"""The demo's last chapter: hosts send metrics, a Spark stream aggregates them, a leader is killed, and the table is exact.

Spark is a process of its own, started as people start it (``ottla spark run``). Where it cannot start the chapter is left out,
and says why.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ottla.client import Admin, Consumer, Producer
from ottla.local.cluster import LocalCluster
from ottla.local.processes import Reaper
from ottla.local.sample_metrics import Metric, sample_metrics
from ottla.local.story import Story

HOSTS = 40
SECONDS = 1_800
"""How long they have sent metrics, by their own clocks."""

START_MS = 1_700_000_000_000 // 60_000 * 60_000
WINDOW_MS = 60_000
PARTITIONS = 3
START_S, WAIT_S = 60.0, 90.0
BLOCK = 2_000

Windows = dict[tuple[str, str, int], tuple[int, float, float, float]]
"""By host, metric and begin: count, average, least and most."""


def watch_metrics(story: Story, cluster: LocalCluster) -> None:
    """See the module."""
    story.chapter("Spark aggregates metrics, and a leader is killed in the middle")
    replicas = len(cluster.brokers)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for topic in ("metrics", "windows", "alerts"):
            admin.create_topic(topic, PARTITIONS, replication_factor=replicas, config={"min.insync.replicas": "2"})
    metrics = list(sample_metrics(HOSTS, SECONDS, START_MS, seed=1))
    began = time.monotonic()
    with SparkJob(cluster.bootstrap) as job:
        half = len(metrics) // 2
        send(cluster.bootstrap, metrics[:half], lambda: None)
        story.say(f"{HOSTS} hosts sent {half:,} metrics; meanwhile Spark starts, which takes a while")
        if (why_not := job.wait_started()) is not None:
            story.say(f"Spark cannot start here, so this chapter is left out: {why_not}")
            return
        running = job.wait_batch()
        story.claim(
            running, f"a stream of Spark has read the first of them, {time.monotonic() - began:.1f} s after its start"
        )
        leader, successor = kill_a_leader_meanwhile(cluster, metrics[half:])
        story.claim(successor != leader, f"killed broker {leader} while the others came: broker {successor} leads now")
        expected = windows_of(metrics)
        found, told = job.wait_windows(expected)
        story.claim(
            found == expected,
            f"{len(expected):,} windows of a minute, and every count, average, least and most is exact",
        )
        story.claim(told == len(found), "no window is there twice")
    show(story, expected, [host for host, _ in read_alerts(cluster.bootstrap)])
    cluster.start(leader)


def kill_a_leader_meanwhile(cluster: LocalCluster, metrics: Sequence[Metric]) -> tuple[int, int]:
    """Who led a partition of the metrics, and who does when all are written. The last one says that a later time has come."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        leader = admin.describe_topic("metrics").partitions[0].leader
        send(cluster.bootstrap, metrics, lambda: cluster.kill(leader))
        send(cluster.bootstrap, [Metric("clock", "later", 1, START_MS + 10 * SECONDS * 1000)], lambda: None)
        return leader, admin.describe_topic("metrics").partitions[0].leader


def send(bootstrap: str, metrics: Sequence[Metric], in_the_middle: Callable[[], None]) -> None:
    """All of them, acknowledged."""
    with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        for start in range(0, len(metrics), BLOCK):
            if start <= len(metrics) // 2 < start + BLOCK:
                in_the_middle()
            sent = [
                producer.send("metrics", one.encode(), key=one.host.encode()) for one in metrics[start : start + BLOCK]
            ]
            for delivery in sent:
                delivery.result(WAIT_S)


def windows_of(metrics: Sequence[Metric]) -> Windows:
    """What the table must be, by plain Python."""
    values = defaultdict(list)
    for one in metrics:
        values[one.host, one.metric, one.at_ms // WINDOW_MS * WINDOW_MS].append(one.value)
    return {key: (len(v), sum(v) / len(v), min(v), max(v)) for key, v in values.items()}


def show(story: Story, windows: Mapping[Any, Any], alerted: Sequence[str]) -> None:
    """Some of the table, and who was in trouble."""
    troubled = f"web-{HOSTS - 1}"
    story.claim(
        set(alerted) == {troubled}, f"{len(alerted)} alerts cpu>90, all of them about {troubled}, the host in trouble"
    )
    rows = sorted(
        (start, values) for (host, metric, start), values in windows.items() if (host, metric) == (troubled, "cpu")
    )
    story.say(f"   {troubled}, cpu      count    avg  least   most")
    for start, (count, average, least, most) in rows[:6]:
        minute = time.strftime("%H:%M", time.gmtime(start / 1000))
        story.say(
            f"   {minute}            {count:>5}  {average:>5.1f}  {least:>5}  {most:>5}{'   alert' if average > 90 else ''}"
        )


def read_alerts(bootstrap: str) -> list[tuple[str, int]]:
    return [(one["host"], one["start"]) for one in read_json(bootstrap, "alerts")]


def read_json(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """All that a topic holds now."""
    found: list[dict[str, Any]] = []
    with Admin(bootstrap_servers=bootstrap) as admin:
        stored = sum(admin.latest_offsets(topic).values())
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while len(found) < stored and (records := consumer.poll(timeout=5.0, max_records=5_000)):
            found += [json.loads(record.value or b"null") for record in records]
    return found


class SparkJob:
    """``ottla spark run metrics-monitor``, running beside."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._reaper = Reaper()
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-demo-spark-")
        self._log = Path(self._folder.name) / "log"
        job = ["metrics-monitor", "metrics", "-b", bootstrap, "--windows", "windows", "--alerts", "alerts"]
        how = ["--alert", "cpu>90", "--checkpoint", str(Path(self._folder.name) / "checkpoint"), "--every", "0.5"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli", "spark", "run", *job, *how],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._reaper.watch(self._process.pid)  # it ends with the demo, however that ends

    def __enter__(self) -> "SparkJob":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing of it is left, its JVM included; what it has written is acknowledged."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(10)
        self._reaper.close()
        self._folder.cleanup()

    def wait_started(self) -> str | None:
        """None when there is a session; else why there is none."""
        if self._wait(lambda: "Spark " in self._told(), START_S):
            return None
        errors = [line for line in self._told().splitlines() if line.startswith("error: ")]
        return errors[0] if errors else f"there is no session after {START_S:.0f} s"

    def wait_batch(self) -> bool:
        return self._wait(lambda: "batch 0: " in self._told(), WAIT_S)

    def wait_windows(self, expected: Windows) -> tuple[Windows, int]:
        """What it has written when there is as much as there must be, or when no more has come in time; and how many rows."""
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            self._wait(lambda: sum(admin.latest_offsets("windows").values()) >= len(expected), WAIT_S)
        found = read_json(self._bootstrap, "windows")
        by_key = {(w["host"], w["metric"], w["start"]): (w["count"], w["avg"], w["min"], w["max"]) for w in found}
        return by_key, len(found)

    def _told(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if line.startswith(("Spark ", "batch ", "error: ")))

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self._process.poll() is not None:
                return condition()
            time.sleep(0.1)
        return True
