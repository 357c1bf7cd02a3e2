"""Reading with Spark, as tests do it."""

import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ottla.client import Producer
from tests.support.machine import scaled

WAIT_S = scaled(60.0)


class Spark:
    """A session with the options that every read of a test needs."""

    def __init__(self, session: SparkSession, bootstrap: str) -> None:
        self.session = session
        self.bootstrap = bootstrap

    def batch(self, topic: str, *, schema: str | None = None, **options: str) -> DataFrame:
        reader = self.session.read if schema is None else self.session.read.schema(schema)
        return reader.format("ottla").options(**self._given(topic, options)).load()

    def stream(self, topic: str, *, schema: str | None = None, **options: str) -> DataFrame:
        reader = self.session.readStream if schema is None else self.session.readStream.schema(schema)
        return reader.format("ottla").options(**self._given(topic, {"startingOffsets": "earliest", **options})).load()

    def files(self, topic: str, path: object, **options: str) -> DataFrame:
        return self.session.read.format("ottla").options(mode="files", subscribe=topic, **options).load(str(path))

    def _given(self, topic: str, options: dict[str, str]) -> dict[str, Any]:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, **dotted(options)}

    def drain(self, frame: DataFrame, folder: object) -> list[dict[str, Any]]:
        """Write what is there as Parquet, by way of a checkpoint; the progress of each batch that had rows."""
        writing = frame.writeStream.format("parquet").option("path", f"{folder}/out")
        query = writing.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_S))
        error = query.exception()
        if error is not None:
            raise error
        return [dict(progress) for progress in query.recentProgress if progress["numInputRows"]]

    def written(self, folder: object) -> list[tuple[int, int]]:
        """Partition and offset of all that was drained, in order."""
        rows = self.session.read.parquet(f"{folder}/out").select("partition", "offset").collect()
        return sorted((row["partition"], row["offset"]) for row in rows)


def dotted(options: dict[str, str]) -> dict[str, str]:
    """kafka__request__timeout__ms as people write it."""
    return {name.replace("__", "."): value for name, value in options.items()}


def produce(bootstrap: str, topic: str, values: Sequence[bytes], **how: Any) -> None:
    with Producer(bootstrap_servers=bootstrap, **how) as producer:
        producer.send_many(topic, list(values)).result(timeout=WAIT_S)


def eventually(condition: Any, timeout_s: float = scaled(20.0)) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true after {timeout_s} s"
        time.sleep(0.05)
