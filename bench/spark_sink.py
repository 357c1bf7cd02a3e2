"""Writing with Spark: rows with keys and 100-byte values to a live broker, beside a sink that drops them.

``python -m ottla.bench sink`` measures this alone, ``spark`` after the reads.
"""

import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from ottla.bench.processes_cpu import cpu_seconds
from ottla.bench.rows import Row, save, show
from ottla.bench.workloads import new_topic
from ottla.local import LocalCluster

PARTITIONS = 3
TASKS = 2
VALUE = 100
ROUNDS = 5
SINKS = {"exactly once": {"exactlyOnce": "true"}, "at least once": {"exactlyOnce": "false"}}


def run(scale: float, out: Path) -> None:
    from ottla.bench.spark import session
    from ottla.bench.spark_ceiling import CeilingSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with LocalCluster(brokers=1) as cluster:
        spark = session()
        try:
            spark.dataSource.register(CeilingSource)
            rows = sink_rows(spark, cluster, int(1_000_000 * scale), ROUNDS)
        finally:
            spark.stop()
    save(rows, out / "spark-sink.json")


def sink_rows(spark: Any, cluster: LocalCluster, records: int, rounds: int) -> list[Row]:
    """Medians of rounds in which the bare sink is measured too. Rows are kept in memory by Spark: they cost nothing to make."""
    frame = spark.range(0, records, 1, TASKS).selectExpr(
        "cast(cast(hash(id) as string) as binary) as key",
        f"cast(rpad(cast(id as string), {VALUE}, cast(hash(id) as string)) as binary) as value",
    )
    frame = frame.cache()
    frame.count()
    try:
        return [row for name in SINKS for row in show([_measured(name, frame, cluster, records, rounds)])]
    finally:
        frame.unpersist()


def _measured(name: str, frame: Any, cluster: LocalCluster, records: int, rounds: int) -> Row:
    speeds, limits, broker = [], [], {cluster.pid(0): "broker"}
    used: Counter[str] = Counter()
    for number in range(rounds + 1):  # the first one warms up
        topic = new_topic(cluster.bootstrap, partitions=PARTITIONS)
        limit = records / _seconds(lambda: _drop(frame))
        before = cpu_seconds(broker)
        speed = records / _seconds(partial(_write, frame, cluster.bootstrap, topic, SINKS[name]))
        if number:
            limits.append(limit)
            speeds.append(speed)
            used.update({who: cpu - before.get(who, 0) for who, cpu in cpu_seconds(broker).items()})
    cpu = ", ".join(f"{who} {seconds / rounds / records * 1e6:.2f}" for who, seconds in used.items())
    ratio, fastest = median(speeds) / median(limits), max(speeds) / max(limits)
    return Row(
        f"sink, {name}, {PARTITIONS} partitions, {TASKS} tasks", median(speeds), "records/s", limit=median(limits),
        others=f"ratio {ratio:.2f}, fastest {fastest:.2f}; CPU {cpu}",
    )  # fmt: skip


def _write(frame: Any, bootstrap: str, topic: str, how: dict[str, str]) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **how}
    frame.write.format("ottla").mode("append").options(**options).save()


def _drop(frame: Any) -> None:
    frame.write.format("ceiling").mode("append").save()


def _seconds(run: Any) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
