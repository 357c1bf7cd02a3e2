"""Sessions: what each key did in one go, until it was silent for a while. Written back to a topic, each session once.

The key of a record says whose it is; its time is the record's own, or a field of its JSON (``--time-field``, milliseconds).
"""

import argparse
from typing import TYPE_CHECKING

from ottla.spark_jobs.jobs.arguments import Given, add_streaming, positive
from ottla.spark_jobs.jobs.streams import NOT_UNDERSTOOD, Talk, read_stream, run_query, write_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_streaming(parser)
    parser.add_argument("--to", metavar="TOPIC", required=True, help="where sessions are written")
    parser.add_argument(
        "--gap", metavar="SECONDS", type=positive, default=1800.0,
        help="a session ends when nothing came for so long (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--late", metavar="SECONDS", type=positive, default=10.0, help="how late a record may come (default: %(default)g)"
    )  # fmt: skip
    parser.add_argument(
        "--time-field", metavar="NAME", help="a field of the JSON values with the time, in milliseconds"
    )


def run(spark: "SparkSession", given: Given, talk: Talk) -> None:
    records = read_stream(spark, given, "key binary, value binary, timestamp timestamp")
    rows = sessions(records, given.gap, given.late, given.time_field)
    run_query(write_topics(rows, given).option("topic", given.to), given, talk)


def sessions(records: "DataFrame", gap_s: float, late_s: float, time_field: str | None = None) -> "DataFrame":
    """One row for each session: its key, and as JSON when it began and ended, how long it was and how many records it had."""
    from pyspark.sql import functions as f

    at = f.col("timestamp")
    if time_field is not None:
        told = f.get_json_object(f.col("value").cast("string"), f"$.{time_field}")
        at = f.coalesce(f.timestamp_millis(f.try_to_number(told, f.lit("9" * 18)).cast("bigint")), at)
    events = records.select(f.col("key").cast("string").alias("key"), at.alias("at"))
    grouped = (
        events.observe(NOT_UNDERSTOOD, f.count_if(f.col("key").isNull()))
        .where("key is not null")
        .withWatermark("at", f"{int(late_s * 1000)} milliseconds")
        .groupBy("key", f.session_window("at", f"{int(gap_s * 1000)} milliseconds"))
        .agg(f.count("*").alias("records"), f.min("at").alias("first"), f.max("at").alias("last"))
    )
    begun, ended = f.unix_millis("first"), f.unix_millis("last")
    told_as = f.struct(
        "key", begun.alias("start"), ended.alias("end"), ((ended - begun) / 1000).alias("seconds"), "records"
    )
    return grouped.select("key", f.to_json(told_as).alias("value"))
