"""What the streaming jobs share: a topic as a stream, rows back to a topic, and a line for every batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark_jobs.jobs.arguments import Given
from ottla.spark_jobs.jobs.spark_session import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOK_S = 0.2
"""How often it is looked whether a batch is done."""

NOT_UNDERSTOOD = "not_understood"
"""The name under which a job has Spark count the records that it passes over."""


@dataclass(frozen=True)
class Talk:
    """How a job speaks: ``note`` to whoever watches, ``write`` for what it found."""

    note: Callable[[str], None]
    write: Callable[[str], None]


def read_stream(spark: "SparkSession", given: Given, schema: str | None = None) -> "DataFrame":
    """The records of the job's topic; of fewer columns where ``schema`` says so."""
    reader = spark.readStream.format("ottla") if schema is None else spark.readStream.schema(schema).format("ottla")
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "subscribe": given.topic,
        "startingOffsets": given.offset,
        "maxOffsetsPerTrigger": str(given.most),
        **({"groupId": given.group} if given.group else {}),
    }
    return reader.options(**options).load()


def write_topics(rows: "DataFrame", given: Given) -> "DataStreamWriter":
    """Rows with topic, key and value, each stored exactly once."""
    return rows.writeStream.format("ottla").outputMode("append").option("kafka.bootstrap.servers", given.bootstrap)


def run_query(writer: "DataStreamWriter", given: Given, talk: Talk) -> None:
    """Start it, tell of every batch, and end when all was read or somebody interrupts."""
    writer = writer.option("checkpointLocation", for_spark(given.checkpoint))
    trigger = {"availableNow": True} if given.exit else {"processingTime": f"{int(given.every * 1000)} milliseconds"}
    query = writer.trigger(**trigger).start()
    try:
        follow(query, talk)
    except KeyboardInterrupt:
        talk.note("stopping: what this batch has begun comes again when the job is started anew, and is stored once")
    finally:
        query.stop()


def follow(query: "StreamingQuery", talk: Talk) -> None:
    """Until the query ends; raises what ended it."""
    seen = -1
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(LOOK_S))  # type: ignore[arg-type]  # it takes fractions
        for progress in query.recentProgress:
            if progress["batchId"] > seen and progress["numInputRows"]:
                seen = progress["batchId"]
                talk.note(progress_line(progress))


def progress_line(progress: Any) -> str:
    """One batch for people: how much, how fast, and how much is left."""
    rows, seconds = progress["numInputRows"], progress["durationMs"].get("triggerExecution", 0) / 1000
    speed = f" ({rows / seconds:,.0f}/s)" if seconds else ""
    line = f"batch {progress['batchId']}: {rows:,} records in {seconds:.1f} s{speed}"
    source = progress["sources"][0]
    left = records_left(_offsets(source["endOffset"]), _offsets(source["latestOffset"]))
    if left is not None:
        line += f", {left:,} behind"
    strange = (progress["observedMetrics"] or {}).get(NOT_UNDERSTOOD)
    if strange is not None and strange[0]:
        line += f", {strange[0]:,} not understood and passed over"
    return line


def records_left(done: Any, latest: Any) -> int | None:
    """How many records were there and not read yet; None where that is not known."""
    if not isinstance(done, dict) or not isinstance(latest, dict):
        return None
    left: int = sum(
        max(0, end - done.get(topic, {}).get(partition, 0))
        for topic, ends in latest.items()
        if not topic.startswith("@")  # notes of the source
        for partition, end in ends.items()
    )
    return left


def _offsets(told: Any) -> Any:
    import json

    return json.loads(told) if isinstance(told, str) else told
