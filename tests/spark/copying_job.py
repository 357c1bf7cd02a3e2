"""A Spark program of its own, to be killed: copies a topic into another one, its rows shuffled anew at every attempt.

python -m tests.spark.copying_job BOOTSTRAP FROM TO CHECKPOINT
"""

import os
import random
import sys
from collections.abc import Iterator

import pyarrow as pa


def shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a partition in an order that no two attempts have in common."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if tables:
        rows = pa.concat_tables(tables)
        order = random.SystemRandom().sample(range(rows.num_rows), rows.num_rows)
        yield from rows.take(pa.array(order, pa.int64())).to_batches(max_chunksize=1_000)


def main(bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    import ottla.spark_jobs

    spark = (
        SparkSession.builder.master("local[2,20]")
        .config("spark.ui.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "50ms")
        .config("spark.speculation.multiplier", "1.01")
        .config("spark.speculation.quantile", "0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    ottla.spark_jobs.register(spark)
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20000")
        .load()
        .select("key", "value")
        .mapInArrow(shuffled, "key binary, value binary")
    )
    query = (
        rows.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("kafka.batch.size", "4000")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("copied", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
