"""Spark over a live broker: batch and streaming reads of 100-byte records, beside an Arrow data source that reads nothing.

``python -m ottla.bench spark``. local[2] and a noop sink, warm, everything on the same cores. The ceiling is a data source that
yields one constant Arrow batch again and again: what Spark itself makes of Arrow from Python, in the same run. Medians of
rounds decide; the ratio of the fastest is told beside, for others may compute meanwhile. (On such a machine Spark's own Kafka
source gave 0.40-0.48 M records/s.)
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from ottla.bench.processes_cpu import cpu_seconds
from ottla.bench.rows import Row, save, show
from ottla.bench.spark_sink import sink_rows
from ottla.bench.workloads import new_topic
from ottla.client import Producer
from ottla.local import LocalCluster

ROUNDS = 5
VALUE = 100
CHECKPOINT_S = 1.0
"""How soon a broker says on disk what is committed, for who reads its files."""

SCHEMAS = {"7 columns": None, "value only": "value binary"}
AGGREGATED = "user int, action string, ms int"


def run(scale: float, out: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    records = int(4_000_000 * scale)
    config = {"replica.high.watermark.checkpoint.interval.ms": str(int(CHECKPOINT_S * 1000))}
    with LocalCluster(brokers=1, broker_config=config) as cluster:
        topics = {count: fill(cluster.bootstrap, count, records, random_values) for count in (1, 3, 12)}
        json_topic = fill(cluster.bootstrap, 3, records // 3, json_values)
        time.sleep(2 * CHECKPOINT_S)
        spark = session()
        try:
            rows = Measured(spark, cluster, records).rows(topics, json_topic)
            rows += sink_rows(spark, cluster, records // 4, ROUNDS)
        finally:
            spark.stop()
    save(rows, out / "spark.json")


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else has business with it
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Measured:
    """All rows of the table, each a median of rounds in which the ceiling is measured too."""

    def __init__(self, spark: Any, cluster: LocalCluster, records: int) -> None:
        from ottla.bench.spark_ceiling import CeilingSource

        spark.dataSource.register(CeilingSource)
        self._spark = spark
        self._cluster = cluster
        self._records = records

    def rows(self, topics: dict[int, str], json_topic: str) -> list[Row]:
        rows = []
        for name, schema in SCHEMAS.items():
            for count, topic in topics.items():
                frame = self._brokers(topic, schema)
                rows += show([self._against_ceiling(f"batch, {name}, {count} partition(s)", frame, schema)])
            rows += show(
                [self._against_ceiling(f"files, {name}, 3 partitions", self._files(topics[3], schema), schema)]
            )
            rows += show([self._streaming(f"stream, {name}, 3 partitions", topics[3], schema)])
        return rows + show([self._json(json_topic)])

    def _against_ceiling(self, name: str, frame: Callable[[], Any], schema: str | None) -> Row:
        """In as many tasks as ours: what Spark takes for a task by itself is not the source's."""
        tasks = frame().rdd.getNumPartitions()
        for warm in (frame, lambda: self._ceiling(schema, tasks)):
            noop(warm())
        ours, ceilings = [], []
        for _ in range(ROUNDS):
            ceilings.append(self._records / timed(lambda: noop(self._ceiling(schema, tasks))))
            ours.append(self._records / timed(lambda: noop(frame())))
        bound = self._bound(lambda: noop(frame()), self._records)
        ratio, fastest = median(ours) / median(ceilings), max(ours) / max(ceilings)
        return Row(
            f"{name}, {tasks} tasks", median(ours), "records/s", limit=median(ceilings), goal=">= 0.7 of limit",
            met=ratio >= 0.7, others=f"ratio {ratio:.2f}, fastest {fastest:.2f}; CPU {bound}",
        )  # fmt: skip

    def _bound(self, run: Callable[[], object], records: int) -> str:
        """Who used the cores, in seconds for a million records."""
        broker = {self._cluster.pid(0): "broker"}
        before = cpu_seconds(broker)
        run()
        used = {name: seconds - before.get(name, 0) for name, seconds in cpu_seconds(broker).items()}
        return ", ".join(f"{name} {seconds / records * 1e6:.2f}" for name, seconds in used.items())

    def _streaming(self, name: str, topic: str, schema: str | None) -> Row:
        """By the time that its micro-batch took; a query takes half a second more to begin and to end."""
        self._stream(topic, schema)
        return Row(name, median(self._stream(topic, schema) for _ in range(ROUNDS)), "records/s")

    def _json(self, topic: str) -> Row:
        count = self._records // 3

        def run() -> None:
            (
                self._options(self._spark.read.schema("value binary"), topic)
                .load()
                .selectExpr(f"from_json(cast(value as string), '{AGGREGATED}') as j")
                .selectExpr("j.*")
                .groupBy("action")
                .agg({"ms": "avg", "user": "count"})
                .collect()
            )

        run()
        speed = count / median(timed(run) for _ in range(ROUNDS))
        return Row("batch, JSON parsed and aggregated", speed, "records/s", others=f"CPU {self._bound(run, count)}")

    # --- what is read ------------------------------------------------------------------------------------------------

    def _brokers(self, topic: str, schema: str | None) -> Callable[[], Any]:
        return lambda: self._options(self._reader(schema), topic).load()

    def _files(self, topic: str, schema: str | None) -> Callable[[], Any]:
        folder = str(self._cluster.data_path(0))
        return lambda: self._reader(schema).format("ottla").options(mode="files", subscribe=topic).load(folder)

    def _stream(self, topic: str, schema: str | None) -> float:
        """Records/s of one micro-batch of everything."""
        checkpoint = tempfile.mkdtemp()
        try:
            reader = self._spark.readStream if schema is None else self._spark.readStream.schema(schema)
            stream = self._options(reader, topic).option("startingOffsets", "earliest").load()
            writing = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writing.trigger(availableNow=True).start()
            query.awaitTermination(300)
            assert query.exception() is None
            (batch,) = [progress for progress in query.recentProgress if progress["numInputRows"]]
            assert batch["numInputRows"] == self._records
            return float(self._records / batch["durationMs"]["triggerExecution"] * 1000)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _ceiling(self, schema: str | None, tasks: int) -> Any:
        return self._reader(schema).format("ceiling").options(rows=str(self._records), tasks=str(tasks)).load()

    def _reader(self, schema: str | None) -> Any:
        return self._spark.read if schema is None else self._spark.read.schema(schema)

    def _options(self, reader: Any, topic: str) -> Any:
        return (
            reader.format("ottla").option("kafka.bootstrap.servers", self._cluster.bootstrap).option("subscribe", topic)
        )


def noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def fill(bootstrap: str, partitions: int, records: int, values: Callable[[], Iterator[list[bytes]]]) -> str:
    topic = new_topic(bootstrap, partitions=partitions)
    left = records
    with Producer(bootstrap_servers=bootstrap, acks=1) as producer:
        for block in values():
            producer.send_many(topic, block[:left])
            left -= len(block)
            if left <= 0:
                producer.flush()
                return topic
    return topic


def random_values() -> Iterator[list[bytes]]:
    block = [os.urandom(VALUE) for _ in range(50_000)]
    while True:
        yield block


def json_values() -> Iterator[list[bytes]]:
    line = '{{"user": {}, "action": "{}", "ms": {}, "page": "/articles/{}"}}'
    kinds = ("view", "buy", "leave")
    while True:
        yield [
            line.format(number % 9973, kinds[number % 3], number % 1009, number).encode().ljust(VALUE)
            for number in range(50_000)
        ]
