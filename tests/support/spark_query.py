"""A streaming query as a process of its own, to be killed: ``... spark_query BOOTSTRAP TOPIC FOLDER TRIGGER``.

Writes Parquet below FOLDER, with its checkpoint there; TRIGGER is ``now`` (what is there, then end) or ``on`` (go on for ever).
Prints a line for every batch.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.machine import scaled

START_S = scaled(120.0)


class QueryProcess:
    """Such a process, and the lines that it printed."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, trigger: str, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "tests.support.spark_query", bootstrap, topic, str(folder), trigger]
        with log.open("wb") as output:
            # A session of its own: the JVM is killed with it.
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def rows(self) -> int:
        lines = self._log.read_text(errors="replace").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("rows "))

    def wait_rows(self, least: int) -> None:
        deadline = time.monotonic() + START_S
        while self.rows() < least:
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def wait_end(self) -> None:
        assert self._process.wait(START_S) == 0, self._log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """-9, the driver and its JVM at once."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(scaled(10))

    def __enter__(self) -> "QueryProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def main(bootstrap: str, topic: str, folder: str, trigger: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    stream = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writing = (
        stream.select("partition", "offset", "value").writeStream.format("parquet").option("path", f"{folder}/out")
    )
    writing = writing.option("checkpointLocation", f"{folder}/checkpoint")
    if trigger == "now":
        query = writing.trigger(availableNow=True).start()
    else:
        query = writing.trigger(processingTime="200 milliseconds").start()
    seen = -1
    while not query.awaitTermination(0.2):  # type: ignore[arg-type]  # it takes fractions
        seen = _tell(query.recentProgress, seen)
    _tell(query.recentProgress, seen)
    spark.stop()


def _tell(progresses: Any, seen: int) -> int:
    for progress in progresses:
        if progress["batchId"] > seen and progress["numInputRows"]:
            seen = progress["batchId"]
            print(f"rows {progress['numInputRows']}", flush=True)
    return seen


if __name__ == "__main__":
    main(*sys.argv[1:])
