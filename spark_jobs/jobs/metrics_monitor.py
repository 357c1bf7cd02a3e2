"""Metrics, watched: aggregates of each window of time, and an alert where one is out of bounds, both written back to topics.

A record is JSON as ``{"host": "web-1", "metric": "cpu", "value": 93, "at": 1700000000000}``; without ``at`` (milliseconds) its
time is the record's own. A window is told once, when nothing as old can come any more (``--late``): aggregates and alerts go
out in one write, exactly once.
"""

import argparse
import re
from typing import TYPE_CHECKING

from ottla.spark_jobs.jobs.arguments import Given, add_streaming, positive
from ottla.spark_jobs.jobs.streams import NOT_UNDERSTOOD, Talk, read_stream, run_query, write_topics
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORD = "host string, metric string, value double, at bigint"
_RULE = re.compile(r"([\w.-]+)\s*([<>])\s*(-?\d+(?:\.\d+)?)")

Rule = tuple[str, str, float]
"""A metric, < or >, and the bound of its average."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_streaming(parser)
    parser.add_argument("--windows", metavar="TOPIC", help="write the aggregates of every window there")
    parser.add_argument("--alerts", metavar="TOPIC", help="write alerts there")
    parser.add_argument(
        "--alert", metavar="RULE", type=rule, action="append", default=[],
        help="such as 'cpu>90': alert when the average of a window is out of it; may come again",
    )  # fmt: skip
    parser.add_argument(
        "--window", metavar="SECONDS", type=positive, default=60.0, help="how long one is (default: %(default)g)"
    )
    parser.add_argument(
        "--late", metavar="SECONDS", type=positive, default=10.0, help="how late a metric may come (default: %(default)g)"
    )  # fmt: skip


def rule(text: str) -> Rule:
    """``cpu>90`` as its parts."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rule; give one such as 'cpu>90' or 'free<10.5'")
    return found[1], found[2], float(found[3])


def run(spark: "SparkSession", given: Given, talk: Talk) -> None:
    if not given.windows and not given.alerts:
        raise ConfigError("nothing is to be written", hint="give --windows TOPIC, or --alerts TOPIC with --alert RULE")
    if bool(given.alerts) != bool(given.alert):
        raise ConfigError("--alerts and --alert belong together", hint="as in --alerts alerts --alert 'cpu>90'")
    windows = aggregates(read_stream(spark, given, "value binary, timestamp timestamp"), given.window, given.late)
    run_query(write_topics(outgoing(windows, given), given), given, talk)


def aggregates(records: "DataFrame", window_s: float, late_s: float) -> "DataFrame":
    """What each host's metrics were in each window."""
    from pyspark.sql import functions as f

    parsed = records.select("timestamp", f.from_json(f.col("value").cast("string"), RECORD).alias("m"))
    usable = f.col("m.metric").isNotNull() & f.col("m.value").isNotNull()
    metrics = (
        parsed.observe(NOT_UNDERSTOOD, f.count_if(~f.coalesce(usable, f.lit(False))))
        .where(usable)
        .select(
            f.coalesce("m.host", f.lit("")).alias("host"),
            "m.metric",
            "m.value",
            f.coalesce(f.timestamp_millis("m.at"), "timestamp").alias("at"),
        )
    )
    return (
        metrics.withWatermark("at", f"{int(late_s * 1000)} milliseconds")
        .groupBy(f.window("at", f"{int(window_s * 1000)} milliseconds"), "host", "metric")
        .agg(
            f.count("*").alias("count"), f.avg("value").alias("avg"), f.min("value").alias("min"), f.max("value").alias("max")
        )
    )  # fmt: skip


def outgoing(windows: "DataFrame", given: Given) -> "DataFrame":
    """A row for each record to be written; both kinds of them out of one aggregation, which is kept once."""
    from pyspark.sql import functions as f

    told: list[Column | str] = [
        "host", "metric", f.unix_millis("window.start").alias("start"), f.unix_millis("window.end").alias("end"),
        "count", "avg", "min", "max",
    ]  # fmt: skip
    records = []
    if given.windows:
        records.append(_record(given.windows, f.to_json(f.struct(*told))))
    for metric, side, bound in given.alert:
        average = f.col("avg")
        broken = (f.col("metric") == metric) & (average > bound if side == ">" else average < bound)
        value = f.to_json(f.struct(f.lit(f"{metric}{side}{bound:g}").alias("alert"), *told))
        records.append(f.when(broken, _record(given.alerts, value)))
    rows = windows.select(f.explode(f.filter(f.array(*records), lambda record: record.isNotNull())).alias("r"))
    return rows.select("r.*")


def _record(topic: str, value: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.struct(f.lit(topic).alias("topic"), f.col("host").alias("key"), value.alias("value"))
