"""The jobs, each on a live broker, and what they make compared with what was produced."""

import json
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.errors.exceptions.base import PySparkException

from ottla.client import Consumer, Producer
from ottla.local.sample_metrics import Metric, sample_metrics
from ottla.spark_jobs.jobs.program import parsed, sentence
from ottla.spark_jobs.jobs.streams import Talk
from ottla.wire.errors import ConfigError
from tests.support.machine import scaled
from tests.support.spark import WAIT_S, Spark, eventually, produce

START_MS = 1_700_000_040_000
"""A whole minute."""

LATER_MS = START_MS + 3_600_000


class Job:
    """Runs jobs in the session that all tests share, and keeps what they say."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self.notes: list[str] = []
        self.output: list[str] = []

    def run(self, name: str, *arguments: object) -> None:
        told = [str(argument) for argument in (*arguments, "-b", self._spark.bootstrap)]
        module, given = parsed(name, told, "job")
        module.run(self._spark.session, given, Talk(self.notes.append, self.output.append))


@pytest.fixture
def job(spark) -> Job:
    return Job(spark)


def read_json(spark: Spark, topic: str) -> list[dict[str, Any]]:
    with Consumer(
        topic, bootstrap_servers=spark.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=1_000
    ) as consumer:
        return [json.loads(record.value) for record in consumer]


def send(spark: Spark, topic: str, metrics: list[Metric]) -> None:
    with Producer(bootstrap_servers=spark.bootstrap) as producer:
        for metric in metrics:
            producer.send(topic, metric.encode(), key=metric.host.encode())
        assert producer.flush(WAIT_S) == 0


def expected_windows(metrics: list[Metric], window_ms: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    groups = defaultdict(list)
    for one in metrics:
        groups[one.host, one.metric, one.at_ms // window_ms * window_ms].append(one.value)
    return {key: (len(v), sum(v) / len(v), min(v), max(v)) for key, v in groups.items()}


def as_windows(found: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {(w["host"], w["metric"], w["start"]): (w["count"], w["avg"], w["min"], w["max"]) for w in found}


def test_s93_windows_of_metrics_are_exact_and_told_once_and_the_host_in_trouble_is_alerted(
    spark, job, make_topic, tmp_path
):
    topic, windows, alerts = make_topic(3), make_topic(2), make_topic()
    metrics = list(sample_metrics(hosts=4, seconds=600, start_ms=START_MS, seed=7))
    arguments = [topic, "--windows", windows, "--alerts", alerts, "--alert", "cpu>90", "--checkpoint", tmp_path, "-e"]
    half = len(metrics) // 2
    send(spark, topic, metrics[:half])
    job.run("metrics-monitor", *arguments)
    send(spark, topic, metrics[half:])
    produce(spark.bootstrap, topic, [b"no json", b'{"metric": "cpu"}'])
    send(spark, topic, [Metric("end", "cpu", 1, LATER_MS)])  # now everything before is as late as may be
    job.run("metrics-monitor", *arguments)
    found = read_json(spark, windows)
    expected = expected_windows(metrics, 60_000)
    assert as_windows(found) == expected
    assert len(found) == len(expected), "none twice"
    told = {(alert["host"], alert["start"]) for alert in read_json(spark, alerts)}
    assert told == {(host, at) for (host, name, at), (_, avg, _, _) in expected.items() if name == "cpu" and avg > 90}
    assert {host for host, _ in told} == {"web-3"}
    assert job.notes[0].startswith("batch 0: ")
    assert job.notes[0].endswith(" 0 behind")
    assert "2 not understood and passed over" in "".join(job.notes)


def test_s93_a_topic_becomes_parquet_by_folders_every_record_once(spark, job, make_topic, tmp_path):
    topic = make_topic(2)
    lines = [json.dumps({"level": ("info", "error")[n % 2], "n": n}).encode() for n in range(900)]
    arguments = [topic, "--to", tmp_path / "out", "--checkpoint", tmp_path / "checkpoint", "-e"]
    for start in range(0, 900, 300):
        produce(spark.bootstrap, topic, lines[start : start + 300])
        job.run("log-aggregation", *arguments, "--field", "level", "--by", "date,level", "--most", "100")
    rows = spark.session.read.parquet(str(tmp_path / "out")).select("partition", "offset", "value", "level").collect()
    assert Counter(row["value"].encode() for row in rows) == Counter(lines)
    assert len({(row["partition"], row["offset"]) for row in rows}) == 900
    assert all(json.loads(row["value"])["level"] == row["level"] for row in rows)
    assert list((tmp_path / "out").glob("date=*/level=error/*.parquet"))
    assert len(job.notes) == 9


def test_s93_sessions_end_where_a_key_was_silent_and_are_written_once(spark, job, make_topic, tmp_path):
    topic, target = make_topic(2), make_topic()
    visits = {"ada": [0, 10, 25, 200, 210], "bob": [5], "eve": [0, 59, 118]}
    with Producer(bootstrap_servers=spark.bootstrap) as producer:
        for who, seconds in visits.items():
            for second in seconds:
                producer.send(topic, b'{"at": %d}' % (START_MS + second * 1000), key=who.encode())
        producer.send(topic, b'{"at": %d}' % LATER_MS, key=b"end")
        producer.send(topic, b"of nobody")
        assert producer.flush(WAIT_S) == 0
    for _ in range(2):
        job.run("sessions", topic, "--to", target, "--gap", "60", "--time-field", "at", "--checkpoint", tmp_path, "-e")
    found = sorted(
        (s["key"], (s["start"] - START_MS) // 1000, s["seconds"], s["records"]) for s in read_json(spark, target)
    )
    assert found == [("ada", 0, 25.0, 3), ("ada", 200, 10.0, 2), ("bob", 5, 0.0, 1), ("eve", 0, 118.0, 3)]


def test_statistics_tell_what_the_topic_holds_and_draw_it(spark, job, make_topic, tmp_path):
    topic, group = make_topic(2), f"readers-of-{tmp_path.name}"
    with Producer(bootstrap_servers=spark.bootstrap) as producer:
        for number in range(100):
            producer.send(
                topic, b"x" * (10 + number % 5), key=b"k%d" % (number % 10), partition=number % 2,
            )  # fmt: skip
        producer.send(topic, None, key=b"gone", partition=1)
        assert producer.flush(WAIT_S) == 0
    spark.drain(spark.stream(topic, groupId=group), tmp_path)
    produce(spark.bootstrap, topic, [b"unread"] * 4)
    job.run("topic-statistics", topic, "-g", group, "--report", tmp_path / "report")
    (output,) = job.output
    size = sum(10 + number % 5 + 2 for number in range(100)) + 4 + 4 * 6
    assert output.startswith(f"{topic}: 105 records, {size:,} bytes")
    told = json.loads((tmp_path / "report" / "statistics.json").read_text())
    first = told["partitions"][0]
    assert [one["records"] for one in told["partitions"]] in ([50, 55], [54, 51], [52, 53], [53, 52], [51, 54])
    assert (first["keys"], first["largest"]) == (5, 14)
    assert sum(count for _, count, _ in told["course"]) == 105
    assert sum(records for _, _, records, _ in told["lags"]) == 4
    assert max(seconds for *_, seconds in told["lags"]) > 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("<svg") == 4
    assert "seconds behind" in page


def test_an_empty_topic_has_no_statistics(job, make_topic, tmp_path):
    topic = make_topic()
    job.run("topic-statistics", topic, "--report", tmp_path)
    assert job.output == [f"{topic}: 0 records, 0 bytes\n\nit is empty"]
    assert "<svg" not in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("metric-monitor", [], "there is no job 'metric-monitor'"),
        ("metrics-monitor", ["t"], "the following arguments are required: --checkpoint"),
        ("metrics-monitor", ["t", "--checkpoint", "c"], "nothing is to be written"),
        ("metrics-monitor", ["t", "--checkpoint", "c", "--alert", "cpu=9"], "'cpu=9' is not a rule"),
        ("metrics-monitor", ["t", "--checkpoint", "c", "--windows", "w", "--alerts", "a"], "belong together"),
        ("log-aggregation", ["t", "--checkpoint", "c", "--to", "d", "--by", "level"], "--by 'level' is no column"),
        ("log-aggregation", ["t", "--checkpoint", "c", "--to", "d", "--field", "hour"], "'hour' is no name"),
        ("sessions", ["t", "--checkpoint", "c", "--to", "s", "--gap", "0"], "'0' is not a number above 0"),
        ("sessions", ["t", "--checkpoint", "c", "--to", "s", "--most", "few"], "'few' is not a whole number"),
        ("topic-statistics", ["t", "--conf", "x"], "'x' is not KEY=VALUE"),
        ("topic-statistics", ["t", "--report", "/proc/no"], "--report /proc/no cannot be used"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(job, name, arguments, told):
    with pytest.raises(ConfigError) as raised:
        job.run(name, *arguments)
    assert told in str(raised.value)


def test_a_failure_in_spark_is_told_in_a_sentence(job, make_topic, tmp_path):
    topic = make_topic()
    with pytest.raises(PySparkException) as raised:
        job.run("log-aggregation", topic + "x", "--to", tmp_path / "out", "--checkpoint", tmp_path / "c", "-e")
    told = sentence(str(raised.value))
    assert told.startswith(f"option subscribe='{topic}x': topic '{topic}x' does not exist; did you mean '{topic}'?")


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_interrupted_ends_well_and_goes_on_from_there(spark, make_topic, tmp_path, how):
    topic = make_topic(2)
    lines = [b"%d" % number for number in range(1_000)]
    produce(spark.bootstrap, topic, lines[:500])
    job = [sys.executable, "-m", "ottla.cli", "spark", "run", "log-aggregation", topic, "-b", spark.bootstrap]
    command = [*job, "--to", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "checkpoint")]
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(command, stderr=output, start_new_session=True) as running:
        try:
            eventually(lambda: "batch 0: 500 records" in log.read_text() or running.poll() is not None, scaled(120))
            running.send_signal(how)
            assert running.wait(scaled(60)) == 0, log.read_text()
        finally:
            running.kill()
    assert "stopping: " in log.read_text()
    produce(spark.bootstrap, topic, lines[500:])
    subprocess.run([*command, "-e"], check=True, timeout=120, capture_output=True)
    rows = spark.session.read.parquet(str(tmp_path / "out")).select("value").collect()
    assert Counter(row["value"].encode() for row in rows) == Counter(lines)
