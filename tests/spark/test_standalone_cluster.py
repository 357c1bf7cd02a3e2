"""Jobs on a Spark cluster whose executors have nothing but what the job ships: ``make spark-test``."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer
from ottla.local import LocalCluster
from ottla.local.sample_metrics import write_metrics
from ottla.spark_jobs.jobs.packing import pack
from tests.support.machine import scaled
from tests.support.spark import eventually
from tests.support.spark_cluster import SPARK_HOME, WORKERS, SparkCluster

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]

ROWS = 400_000
JOB_S = scaled(240)
EXACTLY_ONCE = os.environ.get("OTTLA_TEST_EXACTLY_ONCE", "true")
"""false: to see that the test notices."""

CONF = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    pack(file)
    return file


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


def values(broker: LocalCluster, topic: str) -> Counter[bytes | None]:
    found: Counter[bytes | None] = Counter()
    with Consumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        while batches := consumer.poll_batches(timeout=2.0):
            for batch in batches:
                found.update(batch.values())
    return found


def run(*command: object, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=JOB_S, check=False,
    )  # fmt: skip


def test_executors_have_nothing_by_themselves(standalone, broker, make_topic, tmp_path):
    topic = make_topic()
    write_metrics(broker.bootstrap, topic, hosts=1, seconds=10, live=False, seed=1)
    ottla = [sys.executable, "-m", "ottla.cli", "spark", "run", "topic-statistics", topic, "-b", broker.bootstrap]
    done = run(*ottla, "--master", standalone.url, *CONF, cwd=tmp_path, PYSPARK_PYTHON="python3.11")
    assert done.returncode == 1
    assert "error: ModuleNotFoundError: No module named 'ottla'" in done.stderr
    assert "ottla spark pack" in done.stderr


def test_a_job_runs_unchanged_with_what_it_ships(standalone, broker, environment, make_topic, tmp_path):
    topic, windows = make_topic(3), make_topic()
    count = write_metrics(broker.bootstrap, topic, hosts=5, seconds=600, live=False, seed=3)
    ottla = [sys.executable, "-m", "ottla.cli", "spark", "run", "metrics-monitor", topic, "-b", broker.bootstrap, "-e"]
    where = [
        "--master",
        standalone.url,
        "--environment",
        environment,
        *CONF,
        "--conf",
        "spark.sql.shuffle.partitions=2",
    ]
    done = run(*ottla, "--windows", windows, "--checkpoint", tmp_path / "checkpoint", *where, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"batch 0: {count:,} records" in done.stderr
    found = [json.loads(value or b"") for value in values(broker, windows)]
    assert {(one["host"], one["metric"]) for one in found} == {
        (f"web-{host}", metric) for host in range(5) for metric in ("cpu", "latency_ms")
    }


def test_spark_submit_runs_what_was_packed(standalone, broker, environment, make_topic, tmp_path):
    """As docs/spark.md says it: the environment is unpacked where the driver starts."""
    topic = make_topic(2)
    count = write_metrics(broker.bootstrap, topic, hosts=3, seconds=60, live=False, seed=3)
    (tmp_path / "environment").mkdir()
    subprocess.run(["tar", "-xzf", environment, "-C", tmp_path / "environment"], check=True, timeout=60)
    done = run(
        SPARK_HOME / "bin" / "spark-submit", "--master", standalone.url, *CONF,
        "--archives", f"{environment}#environment", "--conf", "spark.pyspark.python=./environment/bin/python",
        "environment/run.py", "topic-statistics", topic, "-b", broker.bootstrap,
        cwd=tmp_path, PYSPARK_PYTHON="./environment/bin/python",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{topic}: {count:,} records" in done.stdout


def test_rows_are_stored_once_though_executors_are_killed_while_they_write(
    standalone, broker, environment, make_topic, tmp_path
):
    topic = make_topic(3)
    arguments = [broker.bootstrap, topic, str(ROWS), standalone.url, str(environment), EXACTLY_ONCE]
    killed = []
    with (
        Admin(bootstrap_servers=broker.bootstrap) as admin,
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-m", "tests.spark.cluster_copy", *arguments], stdout=log, stderr=log) as job,
    ):
        try:
            for share in (0.1, 0.6):
                eventually(
                    lambda least=share * ROWS: (
                        sum(admin.latest_offsets(topic).values()) > least or job.poll() is not None
                    ),
                    120,
                )
                assert sum(admin.latest_offsets(topic).values()) < ROWS, "it was not in the middle"
                killed.append(standalone.kill_executor())
                eventually(
                    lambda: len(standalone.executors()) == WORKERS and not set(killed) & set(standalone.executors()), 60
                )
            assert job.wait(JOB_S) == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            job.kill()
    assert len(killed) == 2
    found = values(broker, topic)
    missing = ROWS - len(found)
    doubled = sum(count - 1 for count in found.values())
    assert (missing, doubled) == (0, 0)
