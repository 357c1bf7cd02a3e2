"""The profile spark: a job on a Spark cluster in containers, and what it writes compared with what it read."""

import json
from collections import defaultdict
from typing import Any

import pytest

from ottla.client import Admin, Consumer
from tests.support.cluster import wait_until
from tests.support.compose import ComposeCluster, docker
from tests.support.machine import scaled

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

WINDOW_MS = 10_000
LATE_MS = 10_000
JOB_S = scaled(240.0)
HOSTS = 12


def read_json(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    found = []
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while records := consumer.poll(timeout=2.0):
            found += [json.loads(record.value) for record in records]
    return found


def stored(bootstrap: str, topic: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return sum(admin.latest_offsets(topic).values())


def final_windows(metrics: list[dict[str, Any]]) -> dict[tuple[str, str, int], tuple[int, float, int, int]]:
    """What the job must tell: the windows that ended before the newest metric, less what may come late."""
    values = defaultdict(list)
    for one in metrics:
        values[one["host"], one["metric"], one["at"] // WINDOW_MS * WINDOW_MS].append(one["value"])
    over = max(one["at"] for one in metrics) - LATE_MS
    return {k: (len(v), sum(v) / len(v), min(v), max(v)) for k, v in values.items() if k[2] + WINDOW_MS <= over}


def test_a_job_on_two_workers_aggregates_exactly_though_one_is_killed(compose: ComposeCluster) -> None:
    compose.up(profiles="spark", OTTLA_METRICS_SECONDS="90")
    bootstrap = compose.bootstrap()
    wait_until(lambda: stored(bootstrap, "windows") > 0, JOB_S)
    docker("kill", compose.container("spark-worker0"))
    wait_until(lambda: not compose.inspect("spark-metrics")["State"]["Running"], JOB_S)
    expected = final_windows(read_json(bootstrap, "metrics"))
    wait_until(lambda: stored(bootstrap, "windows") >= len(expected), JOB_S)
    windows = read_json(bootstrap, "windows")
    found = {(w["host"], w["metric"], w["start"]): (w["count"], w["avg"], w["min"], w["max"]) for w in windows}
    assert found == expected
    assert len(found) == len(windows), "none is told twice"
    assert len({host for host, _, _ in found}) == HOSTS
    assert {one["host"] for one in read_json(bootstrap, "alerts")} == {f"web-{HOSTS - 1}"}
    another = ["ottla", "spark", "run", "topic-statistics", "metrics", "-b", "broker0:9192"]
    told = docker("run", "--rm", "--network", compose.network, "ottla-spark", *another, timeout_s=JOB_S).stdout
    assert told.startswith(f"metrics: {stored(bootstrap, 'metrics'):,} records")
    assert "batch 0: " in docker("logs", compose.container("spark-job")).stderr
