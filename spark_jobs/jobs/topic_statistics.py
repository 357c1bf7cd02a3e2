"""What a topic holds: records, bytes, keys and sizes of each partition, their course over time, and how far readers are behind.

A table, and with --report a page with charts. Counts of different keys and percentiles are approximate (about 5 % and 1 %);
all else is exact. Lag is told in seconds: how old the first record is that a group has yet to read.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark_jobs.jobs.arguments import Given
from ottla.spark_jobs.jobs.statistics_page import page
from ottla.spark_jobs.jobs.streams import Talk
from ottla.spark_jobs.jobs.tables import table
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS_MAX = 120
"""Points of time on a chart."""

STEPS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 7 * 24 * 3600)


@dataclass(frozen=True)
class PartitionStatistics:
    """One partition. Sizes are those of values; times are milliseconds."""

    partition: int
    records: int
    bytes: int
    keys: int
    smallest: int
    median: int
    p99: int
    largest: int
    oldest_ms: int
    newest_ms: int


@dataclass
class Statistics:
    """What was found."""

    topic: str
    at_ms: int
    partitions: list[PartitionStatistics]
    step_s: int = 1
    course: list[tuple[int, int, int]] = field(default_factory=list)
    """For each step of time: when it began, in milliseconds, records, bytes."""
    lags: list[tuple[str, int, int, float]] = field(default_factory=list)
    """Group, partition, records behind, seconds behind."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-g", "--group", action="append", default=[], help="tell the lag of this group; may come again")
    parser.add_argument("--report", metavar="DIR", help="write index.html and statistics.json there")


def run(spark: "SparkSession", given: Given, talk: Talk) -> None:
    folder = Path(given.report) if given.report else None
    if folder is not None:
        _check_folder(folder)
    records = spark.read.schema("key binary, value binary, partition int, timestamp timestamp").format("ottla")
    frame = records.options(**{"kafka.bootstrap.servers": given.bootstrap, "subscribe": given.topic}).load()
    found = collect(frame, given.topic)
    for group in given.group:
        found.lags += lags_of(given.bootstrap, group, given.topic)
    talk.write(told(found))
    if folder is not None:
        (folder / "index.html").write_text(page(found), encoding="utf-8")
        (folder / "statistics.json").write_text(json.dumps(asdict(found), indent=2), encoding="utf-8")
        talk.note(f"the report is {folder / 'index.html'}")


def collect(records: "DataFrame", topic: str) -> Statistics:
    """Two passes: one for the partitions, and, when it is known how long ago it all began, one for the course of time."""
    found = Statistics(topic, int(time.time() * 1000), _by_partition(records))
    if found.partitions:
        oldest = min(one.oldest_ms for one in found.partitions)
        newest = max(one.newest_ms for one in found.partitions)
        found.step_s = step_for((newest - oldest) / 1000)
        found.course = _over_time(records, found.step_s)
    return found


def step_for(seconds: float) -> int:
    """The shortest step with which so long a time fits on a chart."""
    return next((step for step in STEPS_S if seconds / step < BUCKETS_MAX), int(seconds / BUCKETS_MAX) + 1)


def _by_partition(records: "DataFrame") -> list[PartitionStatistics]:
    from pyspark.sql import functions as f

    size = f.coalesce(f.length("value"), f.lit(0))
    rows = (
        records.groupBy("partition")
        .agg(
            f.count("*"), f.sum(size + f.coalesce(f.length("key"), f.lit(0))), f.approx_count_distinct("key"),
            f.min(size), f.percentile_approx(size, [0.5, 0.99], 100), f.max(size),
            f.unix_millis(f.min("timestamp")), f.unix_millis(f.max("timestamp")),
        )
        .orderBy("partition")
        .collect()
    )  # fmt: skip
    return [
        PartitionStatistics(partition, count, total, keys, smallest, median, p99, largest, oldest, newest)
        for partition, count, total, keys, smallest, (median, p99), largest, oldest, newest in rows
    ]


def _over_time(records: "DataFrame", step_s: int) -> list[tuple[int, int, int]]:
    from pyspark.sql import functions as f

    size = f.coalesce(f.length("value"), f.lit(0)) + f.coalesce(f.length("key"), f.lit(0))
    step_ms = step_s * 1000
    begin = (f.floor(f.unix_millis("timestamp") / step_ms) * step_ms).alias("begin")
    rows: list[Any] = records.groupBy(begin).agg(f.count("*"), f.sum(size)).orderBy("begin").collect()
    return [(int(at), int(count), int(total)) for at, count, total in rows]


def lags_of(bootstrap: str, group: str, topic: str) -> list[tuple[str, int, int, float]]:
    """How far a group is behind in this topic."""
    from ottla.client import Admin

    with Admin(bootstrap_servers=bootstrap) as admin:
        lags = admin.group_lag(group)
    found = [(group, w.partition, lag.lag, round(lag.lag_seconds, 3)) for w, lag in lags.items() if w.topic == topic]
    if not found:
        raise ConfigError(f"--group {group!r} has committed nothing of topic {topic!r}", hint="see `ottla group list`")
    return sorted(found)


def told(found: Statistics) -> str:
    """As tables."""
    columns = ("partition", "records", "bytes", "keys~", "smallest", "median~", "p99~", "largest", "newest, s ago")
    rows: list[list[object]] = [
        [
            one.partition, one.records, one.bytes, one.keys, one.smallest, one.median, one.p99, one.largest,
            max(0, found.at_ms - one.newest_ms) / 1000,
        ]
        for one in found.partitions
    ]  # fmt: skip
    total = sum(one.records for one in found.partitions), sum(one.bytes for one in found.partitions)
    texts = [
        f"{found.topic}: {total[0]:,} records, {total[1]:,} bytes",
        table(columns, rows) if rows else "it is empty",
    ]
    if found.lags:
        texts.append(table(("group", "partition", "records behind", "seconds behind"), found.lags))
    return "\n\n".join(texts)


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--report {folder} cannot be used: {error.strerror}", hint="give a folder") from None
