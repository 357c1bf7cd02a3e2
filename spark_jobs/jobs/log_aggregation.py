"""Logs, collected: a topic becomes Parquet in folders by day (or what else is asked for), every record exactly once.

Spark's own file sink does it: the files of a batch count when the batch is done. Read the folder with Spark, which knows that;
or with anything else when the job has ended well.
"""

import argparse
import re
from typing import TYPE_CHECKING

from ottla.spark_jobs.jobs.arguments import Given, add_streaming
from ottla.spark_jobs.jobs.spark_session import for_spark
from ottla.spark_jobs.jobs.streams import Talk, read_stream, run_query
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("timestamp", "topic", "partition", "offset", "key", "value", "date", "hour")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_streaming(parser)
    parser.add_argument("--to", metavar="DIR", required=True, help="where the Parquet files go")
    parser.add_argument(
        "--by", metavar="COLUMN,...", default="date",
        help="folders by these columns: date, hour, topic, partition, or a --field (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--field", metavar="NAME", action="append", default=[], type=field,
        help="values are JSON: make this field of them a column, too; may come again",
    )  # fmt: skip


def field(text: str) -> str:
    if not re.fullmatch(r"\w+", text) or text in COLUMNS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name for a column here; give letters, digits and _, but not {', '.join(COLUMNS)}"
        )
    return text


def run(spark: "SparkSession", given: Given, talk: Talk) -> None:
    folders = [name.strip() for name in given.by.split(",")]
    known = [*COLUMNS[1:3], *COLUMNS[-2:], *given.field]
    for name in folders:
        if name not in known:
            raise ConfigError(f"--by {name!r} is no column to make folders of", hint=f"there are: {', '.join(known)}")
    rows = log_rows(read_stream(spark, given), given.field)
    writer = rows.writeStream.format("parquet").option("path", for_spark(given.to)).partitionBy(*folders)
    run_query(writer, given, talk)


def log_rows(records: "DataFrame", fields: list[str]) -> "DataFrame":
    """Texts, the place of each record in its log, and when it was (UTC)."""
    from pyspark.sql import functions as f

    texts = records.select(
        "timestamp", "topic", "partition", "offset",
        f.col("key").cast("string").alias("key"), f.col("value").cast("string").alias("value"),
        f.to_date("timestamp").alias("date"), f.hour("timestamp").alias("hour"),
    )  # fmt: skip
    return texts.select("*", *(f.get_json_object("value", f"$.{name}").alias(name) for name in fields))
