"""A Spark program for a cluster: writes numbered rows to a topic in one go, in another order at every attempt.

python -m tests.spark.cluster_copy BOOTSTRAP TOPIC ROWS MASTER ENVIRONMENT EXACTLY_ONCE
"""

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

TASKS = 4


def main(bootstrap: str, topic: str, rows: str, master: str, environment: str, exactly_once: str) -> None:
    from ottla.spark_jobs.jobs.spark_session import spark_session

    def shuffled(batches: Iterator[Any]) -> Iterator[Any]:  # in here, so that it travels with the job
        import random

        import pyarrow as pa

        table = pa.Table.from_batches(list(batches))
        order = random.SystemRandom().sample(range(table.num_rows), table.num_rows)
        yield from table.take(pa.array(order, pa.int64())).to_batches(max_chunksize=5_000)

    conf = [("spark.executor.memory", "512m"), ("spark.task.maxFailures", "10"), ("spark.driver.host", "127.0.0.1")]
    given = Namespace(topic=topic, master=master, environment=environment, conf=conf)
    with spark_session("copy", given) as spark:
        numbers = spark.range(0, int(rows), 1, TASKS).selectExpr(
            "cast(id % 97 as string) as key", "cast(id as string) as value"
        )
        (
            numbers.mapInArrow(shuffled, "key string, value string")
            .write.format("ottla")
            .mode("append")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("exactlyOnce", exactly_once)
            .option("kafka.batch.size", "2000")
            .save()
        )
    print("written", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
